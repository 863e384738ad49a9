"""Messages that are said into the turn that runs, and what becomes of them when nothing takes them in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from nacre import Inbound, tool
from nacre.bridges.access.people import People
from nacre.bridges.answering.dispatch import RETRY_SECONDS
from nacre.bridges.gateway import Gateway
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.bridges.chats import OPEN, Answering, gateway as opened_gateway
from tests.bridges.line_channel import LineBridge, LineServer
from tests.runtime.agents import START, opened, transcript_file, user_texts, write_settings


class Bell:
    """A tool that waits until the test lets it go."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.go = asyncio.Event()

    async def ring(self) -> str:
        """Rings the bell."""
        self.rung.set()
        await self.go.wait()
        return "rung"


def steering(mode: str) -> dict[str, Any]:
    """Settings with this mode."""
    return {
        **OPEN,
        "messages": {"queue": {"mode": mode, "debounceMs": 0}, "inbound": {"debounceMs": 0}},
        "plugins": {"slots": {"memory": "none"}},
    }


@asynccontextmanager
async def steered(
    state: Path,
    model: ChatModel,
    server: LineServer,
    bell: Bell,
    mode: str = "steer",
    ids: str = "",
    bridge: LineBridge | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Gateway]:
    """A gateway whose agent has a bell to ring, and its bridge."""
    write_settings(state, steering(mode))

    @tool(chats=("private", "direct", "group"))
    async def ring() -> str:
        """Rings the bell."""
        return await bell.ring()

    async with opened(state, model, ids=ids or "id", tools=[ring]) as agent:
        opening = Gateway.open(
            agent,
            [bridge or LineBridge(server.port)],
            state_dir=state,
            now=Clock(START),
            new_id=CountingIds(f"ledger-{ids}"),
            sleep=sleep,
        )
        async with await opening as gateway:
            yield gateway


async def idle(gateway: Gateway, done: Callable[[], bool] = lambda: True) -> None:
    """Waits until nothing is to be done any more."""
    async with asyncio.timeout(60):
        while not (gateway.is_idle and done()):
            await asyncio.to_thread(lambda: None)


def ledger_rows(state: Path, query: str) -> list[tuple[Any, ...]]:
    """What the ledger's file holds now."""
    with closing(apsw.Connection(str(state / LEDGER_FILE), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        return database.execute(query).fetchall()


async def joining(state: Path, count: int = 1) -> None:
    """Waits until so many messages are on their way into a turn."""
    async with asyncio.timeout(60):
        while len(ledger_rows(state, "SELECT 1 FROM inbound WHERE joined = 1")) < count:
            await asyncio.to_thread(lambda: None)


async def handed_over(bridge: LineBridge, count: int) -> None:
    """Waits until the gateway has put so many messages where they belong."""
    async with asyncio.timeout(60):
        while bridge.handed_over < count:
            await asyncio.to_thread(lambda: None)


@pytest.mark.covers("A16-4")
async def test_a_message_goes_into_the_turn_behind_its_tools(tmp_path: Path) -> None:
    """The model reads it with the tool's result, and one answer is for both."""
    bell, model = Bell(), ScriptedModel(calls(("ring", {})), says("both"))
    with LineServer() as server:
        async with steered(tmp_path, model, server, bell) as gateway:
            server.say("one", sender="nora")
            await bell.rung.wait()
            server.say("two", sender="nora")
            await joining(tmp_path)
            bell.go.set()
            await server.until(lambda at: len(at.sent) == 1)
            await idle(gateway)

    assert message_text(model.requests[-1].messages[-1]) == "two"
    assert server.shown() == ["both"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two"]
    assert ledger_rows(tmp_path, "SELECT state FROM inbound") == [("done",), ("done",)]


async def test_both_messages_are_answered_once_where_the_ledger_fails_once(tmp_path: Path) -> None:
    """The answer is there, but its delivery could not be stored; the second attempt stores it for both."""
    bell, model = Bell(), ScriptedModel(calls(("ring", {})), says("both"), says("again"))

    async def sleep(seconds: float) -> None:
        if seconds == RETRY_SECONDS:
            with closing(apsw.Connection(str(tmp_path / LEDGER_FILE))) as ledger:
                ledger.execute("DROP TRIGGER IF EXISTS full")
        await asyncio.sleep(0)

    with LineServer() as server:
        async with steered(tmp_path, model, server, bell, sleep=sleep) as gateway:
            server.say("one", sender="nora")
            await bell.rung.wait()
            server.say("two", sender="nora")
            await joining(tmp_path)
            with closing(apsw.Connection(str(tmp_path / LEDGER_FILE))) as ledger:
                ledger.execute(
                    "CREATE TRIGGER full BEFORE INSERT ON outbound BEGIN SELECT RAISE(FAIL, 'full'); END"
                )
            bell.go.set()
            await server.until(lambda at: len(at.sent) == 1)
            await idle(gateway)

    assert server.shown() == ["both"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two"]
    assert ledger_rows(tmp_path, "SELECT state FROM inbound") == [("done",), ("done",)]


async def test_a_message_that_no_tool_takes_in_is_answered_behind_the_turn(tmp_path: Path) -> None:
    """The turn ended without calling one."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with steered(tmp_path, model, server, Bell()) as gateway:
            server.say("one", sender="nora")
            await model.held.get()
            server.say("two", sender="nora")
            await joining(tmp_path)
            model.let_go()
            model.let_go()
            await server.until(lambda at: len(at.sent) == 2)
            await idle(gateway)

    assert server.shown() == ["re: one", "re: two"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two"]


async def test_nobody_speaks_into_the_turn_of_somebody_else(tmp_path: Path) -> None:
    """A guest's words in the owner's turn would have the owner's rights: they wait."""
    bell, model = Bell(), ScriptedModel(calls(("ring", {})), says("for Nora"), says("for Ann"))
    with LineServer() as server:
        bridge = LineBridge(server.port)
        async with steered(tmp_path, model, server, bell, bridge=bridge) as gateway:
            server.say("one", sender="nora", chat_kind="group", is_mentioned=True)
            await bell.rung.wait()
            server.say("two", sender="ann", chat_kind="group", is_mentioned=True)
            await handed_over(bridge, 2)
            bell.go.set()
            await server.until(lambda at: len(at.sent) == 2)
            await idle(gateway)

    assert server.shown() == ["for Nora", "for Ann"]
    assert "two" not in [message_text(message) for message in model.requests[1].messages]


async def test_a_backlog_is_said_into_the_turn_and_answered_behind_it(tmp_path: Path) -> None:
    """`steer-backlog`: the model reads it at once, and it has a turn of its own."""
    bell, model = Bell(), ScriptedModel(calls(("ring", {})), says("first"), says("second"))
    with LineServer() as server:
        bridge = LineBridge(server.port)
        async with steered(tmp_path, model, server, bell, "steer-backlog", bridge=bridge) as gateway:
            server.say("one", sender="nora")
            await bell.rung.wait()
            server.say("two", sender="nora")
            await handed_over(bridge, 2)
            bell.go.set()
            await server.until(lambda at: len(at.sent) == 2)
            await idle(gateway)

    assert server.shown() == ["first", "second"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two", "two"]


async def test_a_steered_message_is_not_said_again_after_a_restart(tmp_path: Path) -> None:
    """It stands in the transcript: the turn goes on behind it, with one answer."""
    bell, model = Bell(), Answering()
    script = ScriptedModel(calls(("ring", {})), calls(("ring", {})))
    with LineServer() as server:
        async with steered(tmp_path, script, server, bell):
            server.say("one", sender="nora")
            await bell.rung.wait()
            server.say("two", sender="nora")
            await joining(tmp_path)
            bell.rung.clear()
            bell.go.set()
            bell.go = asyncio.Event()
            await bell.rung.wait()
        async with steered(tmp_path, model, server, bell, ids="b") as gateway:
            await server.until(lambda at: len(at.sent) == 1)
            await idle(gateway)

    assert len(server.shown()) == 1
    assert user_texts(transcript_file(tmp_path)) == ["one", "two"]


async def test_a_burst_on_an_idle_session_is_one_turn(tmp_path: Path) -> None:
    """What comes within a moment is put together, although nothing ran when its first piece came."""
    settings = {**OPEN, "messages": {"inbound": {"debounceMs": 300}}}
    with LineServer() as server:
        async with opened_gateway(
            tmp_path, Answering(lambda text: str(text.count("Queued #"))), [LineBridge(server.port)],
            settings=settings,
        ):  # fmt: skip
            for number in range(3):
                server.say(f"piece {number}")
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown() == ["3"]


async def test_a_person_who_was_revoked_does_not_read_the_answer(tmp_path: Path) -> None:
    """The model was asked, and its answer is kept back; the transcript has it."""
    model = Answering()
    model.holds = True
    settings = {"channels": {"line": {"dmPolicy": "allowlist"}}, "messages": {"inbound": {"debounceMs": 0}}}
    ann = Inbound(text="", chat_kind="direct", channel="line", sender_id="ann")
    people = People(open_tables(tmp_path / LEDGER_FILE), now=Clock(START))
    code = await people.request_access(ann, CountingIds("code"))
    await people.approve(code, "guest")
    with LineServer() as server:
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=settings) as (
            gateway,
            _,
        ):
            server.say("one")
            await model.held.get()
            await people.tables.people.revoke("line", "ann")
            model.let_go()
            await idle(gateway)
    await people.tables.close()

    assert server.shown() == []
    assert ledger_rows(tmp_path, "SELECT state FROM inbound") == [("done",)]


async def test_an_answer_in_the_outbox_is_kept_back_from_who_was_revoked(tmp_path: Path) -> None:
    """Its channel was away when the answer was ready, and the right was taken back meanwhile."""
    settings = {"channels": {"line": {"dmPolicy": "allowlist"}}, "messages": {"inbound": {"debounceMs": 0}}}
    model = Answering()
    model.holds = True
    ann = Inbound(text="", chat_kind="direct", channel="line", sender_id="ann")
    people = People(open_tables(tmp_path / LEDGER_FILE), now=Clock(START))
    await people.approve(await people.request_access(ann, CountingIds("code")), "guest")
    with LineServer() as server:
        bridge = LineBridge(server.port)
        async with opened_gateway(tmp_path, model, [bridge], settings=settings) as (gateway, _):
            server.say("one")
            await model.held.get()
            await bridge.stop()
            model.let_go()
            async with asyncio.timeout(60):
                while not ledger_rows(tmp_path, "SELECT 1 FROM outbound WHERE state = 'pending'"):
                    await asyncio.to_thread(lambda: None)
            await people.tables.people.revoke("line", "ann")
        async with opened_gateway(tmp_path, model, [LineBridge(server.port)], settings=settings, ids="b") as (
            gateway,
            _,
        ):
            await idle(gateway)
    await people.tables.close()

    assert server.shown() == []
    [(state, problem)] = ledger_rows(tmp_path, "SELECT state, problem FROM outbound")
    assert state == "failed"
    assert problem
