"""The command `nacre admin access token`: the tokens of programs and browsers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.extensions.http.server.tokens import Tokens


@click.group("token", cls=Listing, noun="admin access token")
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List, create and revoke the tokens of programs and browsers.

    docs/http.md describes what each token gives access to.
    """
    invocation = begin(context)
    with _readable_errors():
        tokens = _open_tokens(invocation).list()
    if as_json:
        rows = [
            {
                "name": each.name,
                "agent": each.agent_id or None,
                "owner": each.is_owner,
                "admin": each.is_admin,
                "created": each.created_at,
            }
            for each in tokens
        ]
        print_json({"tokens": rows})
        return 0
    if not tokens:
        invocation.say("There is no token. Create one with `nacre admin access token add NAME`.")
    for each in tokens:
        holder = f"agent {each.agent_id}, {'owner' if each.is_owner else 'stranger'}"
        invocation.say(f"{each.name}  {'admin' if each.is_admin else holder}, made {each.created_at[:10]}")
    return 0


@command.command("add")
@click.argument("name")
@click.option("--owner", is_flag=True, help="The holder is you: private memory is shown.")
@click.option("--admin", is_flag=True, help="For the admin API only: it gives access to no agent.")
@json_option("Print a JSON object.")
@shared_options
def add(context: click.Context, name: str, owner: bool, admin: bool, as_json: bool) -> int:
    """Create a token called NAME for the agent of `--agent`, and print it once."""
    invocation = begin(context)
    config = invocation.config
    if owner and admin:
        raise click.UsageError("Use either --owner or --admin.")
    now, agent_id = config.clock(), "" if admin else config.agent_id
    with _readable_errors():
        token = _open_tokens(invocation).add(name, agent_id=agent_id, is_owner=owner, now=now, is_admin=admin)
    if as_json:
        told = {"name": name, "agent": agent_id or None, "owner": owner, "admin": admin, "token": token}
        return print_json(told)
    if admin:
        invocation.say(f"{name!r} gives access to the admin API. It is not shown again:", token)
        return 0
    holder = "you, the owner" if owner else "a stranger, who sees no private memory"
    invocation.say(
        f"{name!r} gives access to the agent {config.agent_id!r} to {holder}. It is not shown again:", token
    )
    return 0


@command.command("revoke")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def revoke(context: click.Context, name: str, as_json: bool) -> int:
    """Revoke the token called NAME immediately."""
    invocation = begin(context)
    with _readable_errors():
        _open_tokens(invocation).revoke(name)
    if as_json:
        return print_json({"revoked": name})
    invocation.say(f"Revoked: {name}.")
    return 0


def _open_tokens(invocation: Invocation) -> Tokens:
    from nacre.extensions.http.server.tokens import Tokens

    return Tokens(invocation.config.state_dir)


@contextmanager
def _readable_errors() -> Iterator[None]:
    from nacre.extensions.http.server.tokens import TokensUnusable

    try:
        yield
    except TokensUnusable as error:
        raise click.ClickException(str(error)) from error
