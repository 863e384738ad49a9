"""The commands `nacre memory facts …`: facts and notes about people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, run_reporting, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.extensions.facts.fact_pages import FactPages
    from nacre.memory.contracts.facts import Fact

SOURCE = "nacre memory facts"
_AS_OF = click.option("--as-of", metavar="DAY", help="What was known on this day.")


def on_facts(work: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """Makes a command of `work(facts, invocation, identity, …)`; the identity is the owner by default."""

    @shared_options
    @click.option("--identity", metavar="NAME", default="", help="Whose facts; yours unless given.")
    @wraps(work)
    def run(context: click.Context, identity: str, **options: Any) -> int:
        from nacre.memory.contracts.errors import MemoryIndexError
        from nacre.memory.contracts.workspace import FileBusy

        invocation = begin(context)
        invocation.warn(*invocation.config.notices)
        opened = _opened(invocation, work, identity, options)
        return run_reporting(invocation, opened, MemoryIndexError, FileBusy)

    return run


@click.group("facts", cls=Noun, noun="memory facts")
def command() -> None:
    """List, set and look up facts about people, with their history."""


@command.command("list")
@_AS_OF
@json_option()
@on_facts
async def list_facts(
    facts: FactPages, invocation: Invocation, identity: str, as_of: str | None, as_json: bool
) -> int:
    """List the known facts with their sources and days."""
    from nacre.extensions.facts.fact_pages import fact_json

    known = await facts.known(identity, as_of=as_of)
    if as_json:
        return print_json([fact_json(fact) for fact in known.facts])
    invocation.warn(*known.problems)
    invocation.say(*map(_known_line, known.facts))
    if not known.facts:
        invocation.say(f"No fact is known of {facts.identities.named(identity)}.")
    return 0


@command.command("set")
@click.argument("key")
@click.argument("value")
@json_option()
@on_facts
async def set_fact(
    facts: FactPages, invocation: Invocation, identity: str, key: str, value: str, as_json: bool
) -> int:
    """Set the fact KEY to VALUE, which is JSON or plain words."""
    from nacre.extensions.facts.fact_pages import fact_json
    from nacre.extensions.facts.page import value_of

    fact = await facts.set_fact(identity, key, value_of(value), source=SOURCE)
    if as_json:
        return print_json(fact_json(fact))
    invocation.say(_known_line(fact))
    return 0


@command.command("forget")
@click.argument("key")
@json_option()
@on_facts
async def forget(facts: FactPages, invocation: Invocation, identity: str, key: str, as_json: bool) -> int:
    """Forget the fact KEY; the history keeps it."""
    if await facts.forget_fact(identity, key, source=SOURCE):
        if as_json:
            return print_json({"forgotten": key})
        invocation.say(f"{key} is forgotten.")
        return 0
    invocation.warn(f"No {key!r} is known of {facts.identities.named(identity)}.", tone="error")
    return 1


@command.command("history")
@click.argument("key", default="")
@json_option()
@on_facts
async def history(facts: FactPages, invocation: Invocation, identity: str, key: str, as_json: bool) -> int:
    """List all facts that were ever known, or those of KEY, in the order of time."""
    from nacre.extensions.facts.fact_pages import fact_json
    from nacre.extensions.facts.page import history_line

    found = await facts.history(identity, key)
    if as_json:
        return print_json([fact_json(fact) for fact in found])
    invocation.say(
        *(
            history_line(fact.key, fact.value, fact.at, fact.source, is_forgotten=fact.is_forgotten)
            for fact in found
        )
    )
    return 0


@command.command("recall")
@click.argument("query")
@click.option("-k", "k", metavar="N", type=click.IntRange(1, 50), default=6, show_default=True, help="Notes.")
@_AS_OF
@json_option()
@on_facts
async def recall(
    facts: FactPages,
    invocation: Invocation,
    identity: str,
    query: str,
    k: int,
    as_of: str | None,
    as_json: bool,
) -> int:
    """Show the known facts and the notes that fit QUERY best, of everything that the identity may see."""
    from nacre.extensions.facts.fact_pages import chunk_json, fact_json

    found = await facts.recall(identity, query, k=k, as_of=as_of)
    if as_json:
        return print_json(
            {
                "identity_facts": [fact_json(fact) for fact in found.identity_facts],
                "memory_chunks": [chunk_json(chunk) for chunk in found.memory_chunks],
            }
        )
    invocation.warn(*found.problems, *filter(None, [found.degraded]))
    invocation.say(*map(_known_line, found.identity_facts))
    invocation.say(
        *(f"{chunk.score:.2f} {chunk.note.id}: {chunk.note.text}" for chunk in found.memory_chunks)
    )
    return 0


def _known_line(fact: Fact) -> str:
    from nacre.extensions.facts.page import known_line

    return known_line(fact.key, fact.value, fact.at, fact.source)


async def _opened(
    invocation: Invocation, work: Callable[..., Awaitable[int]], identity: str, options: dict[str, Any]
) -> int:
    from nacre.closing import using
    from nacre.extensions.facts.extension import BY_OWNER, open_facts

    config = invocation.config
    async with using(open_facts(config, config.clock, source=BY_OWNER)) as facts:
        return await work(facts, invocation, identity or facts.identities.owner, **options)
