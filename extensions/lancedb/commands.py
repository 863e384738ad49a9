"""The commands `nacre memory ltm …`, which show the memories of the LanceDB engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, run_reporting, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.extensions.lancedb.memories import Memories
    from nacre.runtime.contracts.clock import Clock


def on_memories(run_command: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """Makes a command that opens the table and calls `run_command(memories, invocation, now, …)`."""

    @wraps(run_command)
    def run(context: click.Context, **options: Any) -> int:
        from nacre.memory.contracts.errors import MemoryIndexError

        invocation = begin(context)
        invocation.warn(*invocation.config.notices)
        return run_reporting(invocation, _run(invocation, run_command, options), MemoryIndexError)

    return run


@click.group("ltm", cls=Noun, noun="memory ltm")
def command() -> None:
    """Show the long-term memory that the LanceDB engine keeps."""


@command.command("list")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show at most N memories.",
)
@json_option()
@shared_options
@on_memories
async def list_memories(
    memories: Memories, invocation: Invocation, now: Clock, limit: int, as_json: bool
) -> int:
    """List memories and their IDs, the newest first."""
    from nacre.extensions.lancedb.records import memory_json, memory_line

    found = await memories.table.all(memories.scope(None))
    zone = now().tzinfo
    if as_json:
        return print_json([memory_json(memory, zone) for memory in found[:limit]])
    invocation.say(*(memory_line(memory, zone) for memory in found[:limit]))
    invocation.say(_total(len(found)))
    return 0


@command.command("search")
@click.argument("query")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 50),
    default=5,
    show_default=True,
    help="Show at most N memories.",
)
@json_option()
@shared_options
@on_memories
async def search(
    memories: Memories, invocation: Invocation, now: Clock, query: str, limit: int, as_json: bool
) -> int:
    """Find the memories that fit QUERY best."""
    from nacre.extensions.lancedb.memories import MIN_RECALL_SCORE
    from nacre.extensions.lancedb.records import memory_line, to_json

    found = await memories.recall(query, memories.scope(None), limit=limit, least_score=MIN_RECALL_SCORE)
    if memories.problem:
        invocation.warn(f"Searched by words only. {memories.problem}")
    zone = now().tzinfo
    if as_json:
        return print_json([to_json(item, zone) for item in found])
    invocation.say(*(memory_line(item.memory, zone, score=item.score) for item in found))
    if not found:
        invocation.say("No relevant memories found.")
    return 0


@command.command("stats")
@json_option()
@shared_options
@on_memories
async def stats(memories: Memories, invocation: Invocation, now: Clock, as_json: bool) -> int:
    """Count memories by category, audience and writer."""
    from nacre.extensions.lancedb.records import counts, moment_of

    found = await memories.table.all(memories.scope(None))
    count_without_vector = await memories.count_without_vector()
    counted = counts(found)
    days = [moment_of(memory, now().tzinfo).date().isoformat() for memory in found]
    if as_json:
        span = {"oldest": min(days, default=None), "newest": max(days, default=None)}
        return print_json({"total": len(found), **span, "withoutVector": count_without_vector, **counted})
    invocation.say(_total(len(found)), *([f"from {min(days)} to {max(days)}"] if days else []))
    for name, numbers in counted.items():
        if numbers:
            numbers_text = ", ".join(f"{value} {count}" for value, count in sorted(numbers.items()))
            invocation.say(f"{name}: {numbers_text}")
    if count_without_vector:
        invocation.say(
            f"{count_without_vector} without a vector of the current embedder; search finds them by words."
        )
    return 0


def _total(count: int) -> str:
    return f"Total memories: {count}"


async def _run(
    invocation: Invocation, run_command: Callable[..., Awaitable[int]], options: dict[str, Any]
) -> int:
    from nacre.extensions.lancedb.plugin import ENGINE_ID, open_memories
    from nacre.runtime.extensions.loading import checked_settings
    from nacre.runtime.recall.open_memory import own_memory_home

    config = invocation.config
    now = config.clock
    checked_settings(ENGINE_ID, config.settings.plugins)
    async with own_memory_home(config, ENGINE_ID, now) as home, AsyncExitStack() as closing:
        memories, _ = await open_memories(home)
        closing.push_async_callback(memories.table.close)
        chosen = config.settings.plugins.slots.memory
        if chosen != ENGINE_ID:
            invocation.warn(
                f"plugins.slots.memory is {chosen!r}, so the agent neither recalls these memories "
                f"nor adds to them. Set it to {ENGINE_ID!r} to use them."
            )
        return await run_command(memories, invocation, now, **options)
