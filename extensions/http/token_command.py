"""The command `nacre token`: the tokens with which programs and browsers reach `nacre serve`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.extensions.http.server.tokens import Tokens


@click.group("token", invoke_without_command=True)
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int | None:
    """List, make and revoke the tokens of programs and browsers.

    docs/http.md says what they open.
    """
    return None if context.invoked_subcommand else _list(context, as_json=as_json)


@command.command("list")
@json_option("Print a JSON object.")
@shared_options
def list_(context: click.Context, as_json: bool) -> int:
    """List them, the same as without `list`."""
    return _list(context, as_json=as_json)


@command.command("add")
@click.argument("name")
@click.option("--owner", is_flag=True, help="Its holder is you: private memory is shown there.")
@json_option("Print a JSON object.")
@shared_options
def add(context: click.Context, name: str, owner: bool, as_json: bool) -> int:
    """Make a token called NAME and print it, this once. It opens the agent that `--agent` names."""
    from nacre.runtime.contracts.clock import owner_clock

    invocation = begin(context)
    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)()
    with _told():
        shown = _tokens(invocation).add(name, agent_id=config.agent_id, is_owner=owner, now=now)
    if as_json:
        print_json({"name": name, "agent": config.agent_id, "owner": owner, "token": shown})
        return 0
    holder = "you, the owner" if owner else "a stranger, who sees no private memory"
    invocation.say(f"{name!r} opens the agent {config.agent_id!r} for {holder}. It is shown only now:", shown)
    return 0


@command.command("revoke")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def revoke(context: click.Context, name: str, as_json: bool) -> int:
    """Take the token called NAME away, at once."""
    invocation = begin(context)
    with _told():
        _tokens(invocation).revoke(name)
    if as_json:
        return print_json({"revoked": name})
    invocation.say(f"Revoked: {name}.")
    return 0


def _list(context: click.Context, *, as_json: bool) -> int:
    invocation = begin(context)
    with _told():
        tokens = _tokens(invocation).list()
    if as_json:
        rows = [
            {"name": each.name, "agent": each.agent_id, "owner": each.is_owner, "created": each.created_at}
            for each in tokens
        ]
        print_json({"tokens": rows})
        return 0
    if not tokens:
        invocation.say("There is no token. `nacre token add NAME` makes one.")
    for each in tokens:
        whose = "owner" if each.is_owner else "stranger"
        invocation.say(f"{each.name}  agent {each.agent_id}, {whose}, made {each.created_at[:10]}")
    return 0


def _tokens(invocation: Invocation) -> Tokens:
    from nacre.extensions.http.server.tokens import Tokens

    return Tokens(invocation.config.state_dir)


@contextmanager
def _told() -> Iterator[None]:
    """What cannot be done with tokens is a sentence and exit code 1."""
    from nacre.extensions.http.server.tokens import TokensUnusable

    try:
        yield
    except TokensUnusable as error:
        raise click.ClickException(str(error)) from error
