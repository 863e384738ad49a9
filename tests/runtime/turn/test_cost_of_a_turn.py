"""What a turn makes the machine do, counted: neither the history nor the number of chats adds to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nacre import Agent, Inbound
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import Entry, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.index.index_files import SETTLED_AFTER_SECONDS
from tests.runtime.agents import transcript_file
from tests.runtime.turn.watched_work import Work, watched_work
from tests.sessions.talk import STAMP, answer, user

MOST_CALLS = 2_900
"""Functions called in a turn that calls no tool: about 2,845, of a microsecond each."""
MOST_CALLS_OF_A_NEW_CHAT = 3_600


class InstantModel:
    """Answers everything at once, with a usage."""

    name = "test/instant"
    context_window_tokens = 200_000

    async def stream(self, _request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        yield AssistantMessage(
            content=(Text(text="Yes."),),
            api="test",
            provider="test",
            model="instant",
            usage=Usage(input_tokens=4_000, output_tokens=40),
            stop_reason="stop",
            timestamp_ms=1,
        )

    async def aclose(self) -> None:
        """Holds nothing."""


class Later:
    """A clock for which the workspace's new files have lain untouched for an hour.

    It goes on by a millisecond whenever it is read, so that each answer took time, as a real one does.
    """

    def __init__(self) -> None:
        self._reads = 0

    def __call__(self) -> datetime:
        self._reads += 1
        return datetime.now(UTC) + timedelta(hours=1, milliseconds=self._reads)


async def opened(folder: Path) -> Agent:
    """An agent without memory search, which works beside the turns."""
    folder.mkdir(exist_ok=True)
    settings = "{agents: {defaults: {memorySearch: {enabled: false}}}}"
    (folder / "nacre.json5").write_text(settings, encoding="utf-8")
    environment = {"HOME": str(folder)}
    return await Agent.open(
        state_dir=folder, model=InstantModel(), environment=environment, clock=Later(), watch=False
    )


def said(chat: str = "") -> Inbound:
    key = f"agent:main:cron:{chat}" if chat else ""
    return Inbound(text="And now?", chat_kind="direct", is_owner=True, session_key=key)


async def work_of_a_turn(agent: Agent, work: Work, chat: str = "") -> Work:
    """The work of one turn, behind those that make what is made once: the index of sessions is settled."""
    settled = time.monotonic() + SETTLED_AFTER_SECONDS
    while time.monotonic() <= settled:
        await agent.respond(said(chat))
    for _ in range(3):
        await agent.respond(said(chat))
    # What earlier turns left to the background is theirs.
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=60)
    before = work.so_far()
    await agent.respond(said(chat))
    return work - before


async def with_history(folder: Path, messages: int, work: Work) -> Work:
    """The work of a turn in a session that holds so many messages."""
    async with await opened(folder) as agent:
        await agent.respond(said())
    path = transcript_file(folder)
    entries = [
        Entry(id=f"e{place}", parent_id=f"e{place - 1}" if place else None, timestamp=STAMP, body=body)
        for place in range(messages)
        for body in [answer("Yes.") if place % 2 else user("And now?")]
    ]
    header = SessionHeader(id=path.stem, timestamp=STAMP, cwd=str(folder))
    lines = [to_line(header_to_json(header)), *(to_line(entry_to_json(entry)) for entry in entries)]
    path.write_bytes(b"".join(lines))
    async with await opened(folder) as agent:
        return await work_of_a_turn(agent, work)


@pytest.mark.covers("SEED-25")
async def test_a_turn_waits_for_the_disk_where_a_promise_needs_it(tmp_path: Path) -> None:
    """Once for what a person said, once for what was answered; for nothing else is a thread given work.

    Seven files are opened: the lane's lock, and a lock and a file for each of two entries and for the line.
    """
    with watched_work() as work:
        async with await opened(tmp_path) as agent:
            turn = await work_of_a_turn(agent, work)
    assert (turn.syncs, turn.hops, turn.opened) == (2, 2, 7)
    assert turn.calls < MOST_CALLS
    assert '"tookMs"' in transcript_file(tmp_path).read_text("utf-8").splitlines()[-1]


async def test_a_new_chat_waits_for_what_makes_it_findable(tmp_path: Path) -> None:
    """Beside the turn: for its file's place in the folder, and on one thread more for its line.

    Eleven files are opened: those of a turn, the folder, and for the line its lock, its file, and that again
    to flush it. The header and the owner are written with what was said, the prompt with the answer.
    A new chat's prompt names its folder; only such lines are counted anew, which needs no thread.
    """
    with watched_work() as work:
        async with await opened(tmp_path) as agent:
            await work_of_a_turn(agent, work, "known")
            before = work.so_far()
            await agent.respond(said("new"))
            turn = work - before
    assert (turn.syncs, turn.hops, turn.opened) == (4, 3, 11)
    assert turn.calls < MOST_CALLS_OF_A_NEW_CHAT


async def test_a_message_is_told_from_a_command_without_a_route(tmp_path: Path) -> None:
    """A gateway asks several times for each message, and a route costs a hundred calls."""
    async with await opened(tmp_path) as agent:
        with watched_work() as work:
            before = work.so_far()
            assert agent.command(said("any")) == ""
            asked = work - before
        assert agent.command(replace(said("any"), text="/status")) == "status"
    assert asked.calls < 100


async def test_a_long_history_adds_nothing_to_a_turn(tmp_path: Path) -> None:
    """Thirty times the messages: as many files, threads and waits, and no more calls."""
    # Watched from the beginning on: a thread that is there before would be reused and go uncounted.
    with watched_work() as work:
        short = await with_history(tmp_path / "short", 100, work)
        long = await with_history(tmp_path / "long", 3_000, work)
    assert short.syncs
    assert (long.syncs, long.hops, long.opened) == (short.syncs, short.hops, short.opened)
    assert abs(long.calls - short.calls) < 60


@pytest.mark.slow
async def test_many_chats_add_nothing_to_a_turn(tmp_path: Path) -> None:
    """The last of three hundred chats costs what the only one costs, and so does the first one again."""
    with watched_work() as work:
        async with await opened(tmp_path) as agent:
            alone = await work_of_a_turn(agent, work, "0")
            for number in range(1, 300):
                await agent.respond(said(str(number)))
            for turn in (await work_of_a_turn(agent, work, "299"), await work_of_a_turn(agent, work, "0")):
                assert (turn.syncs, turn.hops, turn.opened) == (alone.syncs, alone.hops, alone.opened)
                assert abs(turn.calls - alone.calls) < 60
