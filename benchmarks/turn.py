"""What a turn costs of our own: an agent beside a model that answers at once, and two synced appends.

    python -m benchmarks.turn [--history 10 1000 100000] [--chats 1 100 1000] [--new 100] [--turns 40]
        [--folder DIR]

Two synced appends, a question and an answer, are the least that a turn can do on this disk; each figure
is given beside them, measured anew right before it, because disks and machines are not always equally fast.
`history` measures turns in one session that already holds so many messages, `chats` measures turns in the
last of so many chats, and turns a second over all of them, one after the other; `new` measures the first turn
of so many chats, each beside the two that follow it. `taskset -c 0` in front of it keeps all threads on one
core. The last line counts what a turn makes the machine do.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

from benchmarks.session import entries
from nacre import Agent, Inbound
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import SessionHeader, entry_to_json, header_to_json
from tests.runtime.turn.watched_work import Work, watched_work

QUESTION = "What did we say about the hive in the garden, and when is the next look at it due?"
SETTLED_SECONDS = 2.2
"""A context file that was written so long ago is not read again; those of a new workspace are."""
ANSWER = "The next look is due on Friday; the hive has enough honey until then, and the queen was seen."


class InstantModel:
    """A model that answers at once, and reports a small usage."""

    name = "benchmark/instant"
    context_window_tokens = 200_000

    async def stream(self, _request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The same answer to everything."""
        yield TextDelta(text=ANSWER)
        yield AssistantMessage(
            content=(Text(text=ANSWER),),
            api="benchmark",
            provider="benchmark",
            model="instant",
            usage=Usage(input_tokens=4_000, output_tokens=40),
            stop_reason="stop",
            timestamp_ms=int(time.time() * 1000),
        )

    async def aclose(self) -> None:
        """Holds nothing."""


def said(chat: str) -> Inbound:
    """The owner's words in one of their direct chats."""
    key = f"agent:main:cron:{chat}" if chat else ""
    return Inbound(text=QUESTION, chat_kind="direct", is_owner=True, session_key=key)


async def opened(folder: Path) -> Agent:
    """An agent in a folder of its own, without memory search: only the turn is measured."""
    settings = "{agents: {defaults: {memorySearch: {enabled: false}}}}"
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread((folder / "nacre.json5").write_text, settings, encoding="utf-8")
    return await Agent.open(
        state_dir=folder, model=InstantModel(), environment={"HOME": str(folder)}, watch=False
    )


async def turns_ms(agent: Agent, chat: str, turns: int) -> list[float]:
    """How long each of so many turns takes, in milliseconds."""
    taken = []
    for _ in range(turns):
        begun = time.perf_counter()
        await agent.respond(said(chat))
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


def limit_ms(folder: Path, turns: int) -> float:
    """Two synced appends of the size of a question and an answer: the median, in milliseconds."""
    taken = []
    with (folder / "limit").open("ab") as file:
        for _ in range(turns):
            begun = time.perf_counter()
            for text in (QUESTION, ANSWER):
                file.write(text.encode() + b" " * 200 + b"\n")
                file.flush()
                os.fsync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return median(taken)


async def with_history(folder: Path, messages: int, turns: int) -> tuple[float, float]:
    """The median of turns in a session that holds so many messages, and of two appends beside them."""
    agent = await opened(folder)
    async with agent:
        await agent.respond(said(""))
    [path] = (folder / "agents" / "main" / "sessions").glob("*.jsonl")
    header = SessionHeader(id=path.stem, timestamp="2026-03-01T09:00:00.000Z", cwd=str(folder))
    with path.open("wb") as file:
        file.write(to_line(header_to_json(header)))
        for entry in entries(messages, 400):
            file.write(to_line(entry_to_json(entry)))
    async with await opened(folder) as agent:
        await turns_ms(agent, "", 3)
        await asyncio.sleep(SETTLED_SECONDS)  # a long history is flushed first, which writes a note
        limit = limit_ms(folder, turns)
        return median(await turns_ms(agent, "", turns)), limit


async def with_chats(folder: Path, chats: int, turns: int) -> tuple[float, float, float]:
    """The median of turns in the last of so many chats, of two appends beside them, and turns a second."""
    async with await opened(folder) as agent:
        await asyncio.sleep(SETTLED_SECONDS)
        for number in range(chats):
            await agent.respond(said(f"chat-{number}"))
        limit = limit_ms(folder, turns)
        last = median(await turns_ms(agent, f"chat-{chats - 1}", turns))
        begun = time.perf_counter()
        for number in range(chats):
            await agent.respond(said(f"chat-{number}"))
        return last, limit, chats / (time.perf_counter() - begun)


async def with_new_chats(folder: Path, chats: int) -> tuple[float, float]:
    """The median of the first turns of so many chats, and of the two turns after each, in milliseconds."""
    async with await opened(folder) as agent:
        await agent.respond(said("first"))
        await asyncio.sleep(SETTLED_SECONDS)
        taken = [await turns_ms(agent, f"new-{number}", 3) for number in range(chats)]
    return median(first for first, *_ in taken), median(ms for _, *later in taken for ms in later)


async def counted(folder: Path, turns: int) -> Work:
    """What so many turns make the machine do."""
    with watched_work() as work:
        async with await opened(folder) as agent:
            await asyncio.sleep(SETTLED_SECONDS)
            await turns_ms(agent, "", 3)
            before = work.so_far()
            await turns_ms(agent, "", turns)
            return work - before


def main() -> None:
    """Prints a row for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, nargs="*", default=[10, 1_000, 100_000])
    parser.add_argument("--chats", type=int, nargs="*", default=[1, 100, 1_000])
    parser.add_argument("--new", type=int, default=100)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        for messages in arguments.history:
            taken, limit = asyncio.run(
                with_history(folder / f"history-{messages}", messages, arguments.turns)
            )
            print(f"history of {messages:>7,}: {beside(taken, limit)}")
        for chats in arguments.chats:
            taken, limit, rate = asyncio.run(with_chats(folder / f"chats-{chats}", chats, arguments.turns))
            print(f"chat {chats:>5,} of as many: {beside(taken, limit)}; {rate:.0f} turns/s over all")
        if arguments.new:
            first, later = asyncio.run(with_new_chats(folder / "new", arguments.new))
            print(
                f"first turn of a chat: {first:6.2f} ms, {first / later:.2f} x a later one of {later:.2f} ms"
            )
        turns = arguments.turns
        work = asyncio.run(counted(folder / "counted", turns))
        print(
            f"a turn waits {work.syncs / turns:.1f} times for the disk, gives {work.hops / turns:.1f} pieces "
            f"of work to threads, opens {work.opened / turns:.1f} files and calls "
            f"{work.calls / turns:,.0f} functions"
        )


def beside(taken: float, limit: float) -> str:
    """A turn beside two synced appends, in milliseconds."""
    return f"{taken:6.2f} ms a turn, {taken / limit:.1f} x the appends of {limit:.2f} ms"


if __name__ == "__main__":
    main()
