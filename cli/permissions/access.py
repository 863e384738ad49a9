"""The command `nacre admin access`: people who may write to the assistant, and those who ask to."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nacre.cli.invocation import begin, json_option, shared_options, with_ledger
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.bridges.access.people import People, Person
    from nacre.cli.invocation import Invocation

T = TypeVar("T")

_NO_TERMINAL = "Only the owner in a terminal can let people in, but standard input is not a terminal."


@click.group("access", cls=Listing, noun="admin access")
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List who may write to the assistant, and admit people.

    Unknown people who write in private get a code, which is valid for an hour.
    """
    from nacre.cli.screen.plain import one_line

    invocation = begin(context)

    async def both(people: People) -> tuple[tuple[Person, ...], tuple[Person, ...]]:
        return await people.pending(), await people.approved()

    asking, known = _with_people(invocation, both)
    if as_json:
        return print_json(
            {"asking": [person_json(each) for each in asking], "known": [person_json(each) for each in known]}
        )
    for person in asking:
        invocation.say(f"{person.code}  {one_line(person_name(person))} asks since {person.at:%H:%M}")
    for person in known:
        invocation.say(f"{person.role:8}  {one_line(person_name(person))} since {person.at:%Y-%m-%d}")
    if not asking and not known:
        invocation.say("Nobody has access, and nobody asks for it.")
    return 0


@command.command("approve")
@click.argument("code")
@click.option("--owner", is_flag=True, help="This is you: private memory is shown there.")
@json_option("Print a JSON object.")
@shared_options
def approve(context: click.Context, code: str, owner: bool, as_json: bool) -> int:
    """Let in the person who got CODE. Requires a terminal."""
    invocation = begin(context)
    if not check_terminal(invocation):
        return 1
    person = _with_people(invocation, lambda people: people.approve(code, "owner" if owner else "guest"))
    if person is None:
        return unknown_code(invocation, code)
    if as_json:
        return print_json(person_json(person))
    rights = "They are you: the assistant shows them your memory." if owner else "They may write in private."
    invocation.say(f"Let in: {person_name(person)}. {rights}")
    return 0


@command.command("deny")
@click.argument("code")
@json_option("Print a JSON object.")
@shared_options
def deny(context: click.Context, code: str, as_json: bool) -> int:
    """Reject the pairing request with CODE. The person gets no message."""
    invocation = begin(context)
    person = _with_people(invocation, lambda people: people.deny(code))
    if person is None:
        return unknown_code(invocation, code)
    if as_json:
        return print_json(person_json(person))
    invocation.say(f"Refused: {person_name(person)}.")
    return 0


@command.command("revoke")
@click.argument("channel")
@click.argument("sender_id", metavar="ID")
@json_option("Print a JSON object.")
@shared_options
def revoke(context: click.Context, channel: str, sender_id: str, as_json: bool) -> int:
    """Revoke the access of ID on CHANNEL. Their running turn can call no more tools."""
    invocation = begin(context)
    if not _with_people(invocation, lambda people: people.tables.people.revoke(channel, sender_id)):
        invocation.warn(
            f"{channel}:{sender_id} has no access. `nacre admin access` lists those who have.", tone="error"
        )
        return 1
    if as_json:
        return print_json({"channel": channel, "id": sender_id})
    invocation.say(f"Revoked: {channel}:{sender_id}. What nacre.json5 allows still applies.")
    return 0


def _with_people(invocation: Invocation, work: Callable[[People], Awaitable[T]]) -> T:
    from nacre.bridges.access.people import People

    return with_ledger(invocation, lambda tables, now: work(People(tables, now=now)))


def check_terminal(invocation: Invocation) -> bool:
    """Whether standard input is a terminal; otherwise prints an error."""
    is_terminal = sys.stdin.isatty()
    if not is_terminal:
        invocation.warn(_NO_TERMINAL, tone="error")
    return is_terminal


def unknown_code(invocation: Invocation, code: str) -> int:
    """Prints an error and returns the exit code."""
    invocation.warn(f"Nobody has the code {code!r}: it was used, or has expired.", tone="error")
    return 1


def person_name(person: Person) -> str:
    """The name of a person in sentences."""
    account = "" if person.account == "default" else f" (to {person.account})"
    agent = f" (of {person.own_agent})" if person.own_agent else ""
    return f"{person.channel}:{person.sender_id}{account}{agent}"


def person_json(person: Person) -> dict[str, Any]:
    """The JSON output of a person."""
    return {
        "channel": person.channel,
        "accountId": person.account,
        "id": person.sender_id,
        "code": person.code or None,
        "role": person.role or None,
        "ownAgent": person.own_agent or None,
        "at": person.at.isoformat(),
    }
