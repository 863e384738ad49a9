"""Strangers ask with a code and the owner lets them in; a right taken back ends at the next tool call."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from nacre import Inbound
from nacre.bridges.access.people import CODE_MS, MAX_PENDING, PROTECTED_MS, People
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.bridges.chats import OPEN, QUICK, Answering, gateway
from tests.bridges.line_channel import LineBridge, LineServer
from tests.runtime.agents import START, entries, transcript_file

PAIRING: dict[str, Any] = {"messages": QUICK["messages"]}


def _code(text: str) -> str:
    found = re.search(r"nacre admin access approve (\w{8})\nIf you are my owner, add --owner", text)
    assert found is not None, text
    return found[1]


def _people(state_dir: Path, clock: Clock | None = None) -> People:
    """As the terminal has them, beside the program that runs."""
    return People(open_tables(state_dir / LEDGER_FILE), now=clock or Clock(START))


async def test_a_stranger_is_let_in_by_a_code(tmp_path: Path) -> None:
    """Told it once, answered after it was approved, and what they said before stands nowhere."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=PAIRING):
            server.say("let me in")
            await server.until(lambda at: len(at.sent) == 1)
            server.say("hello?")
            server.say("me too", chat="other", sender="bob")
            await server.until(lambda at: at.shown("other") != [])
            people = _people(tmp_path)
            person = await people.approve(_code(server.shown()[0]).lower(), "guest")
            assert person is not None
            assert (person.channel, person.sender_id) == ("line", "ann")
            assert await people.approve(_code(server.shown()[0]), "guest") is None, "a code is good once"
            await people.tables.close()
            server.say("hello again")
            await server.until(lambda at: len(at.shown()) == 2)
            assert not list((tmp_path / "agents").rglob("*main*.jsonl"))

    assert server.shown()[1] == "re: hello again"
    assert "let me in" not in transcript_file(tmp_path).read_text()
    assert b"let me in" not in (tmp_path / LEDGER_FILE).read_bytes()


async def test_who_is_let_in_as_the_owner_has_the_owners_session(tmp_path: Path) -> None:
    """The same person on another channel is the same conversation."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=PAIRING) as (_, agent):
            server.say("it is me")
            await server.until(lambda at: len(at.sent) == 1)
            people = _people(tmp_path)
            await people.approve(_code(server.shown()[0]), "owner")
            await people.tables.close()
            server.say("remember me?")
            await server.until(lambda at: len(at.shown()) == 2)
            assert [info.key for info in await agent.sessions.list()] == ["agent:main:main"]


async def test_codes_are_few_and_short_lived(tmp_path: Path) -> None:
    """A flood of strangers gets no more codes than a few; a code dies; who was refused is not heard again."""
    clock, ids = Clock(START), iter(f"{number:08x}" for number in range(100))
    (tmp_path / LEDGER_FILE).parent.mkdir()
    people = _people(tmp_path, clock)

    def asks(name: str) -> Inbound:
        return Inbound(text="", chat_kind="direct", channel="line", sender_id=name)

    codes = [await people.request_access(asks(f"p{number}"), lambda: next(ids)) for number in range(30)]
    assert [bool(code) for code in codes] == [True] * MAX_PENDING + [False] * (30 - MAX_PENDING)
    denied = await people.deny(codes[0])
    assert denied is not None
    assert denied.sender_id == "p0"
    assert await people.approve(codes[0], "guest") is None
    assert await people.request_access(asks("p0"), lambda: next(ids)) == ""
    asking = [person.sender_id for person in await people.pending()]
    assert asking == [f"p{number}" for number in range(1, MAX_PENDING)]
    assert await people.approve("", "guest") is None
    clock.advance(seconds=CODE_MS / 1000 + 1)
    assert await people.approve(codes[1], "guest") is None
    assert await people.pending() == ()
    assert await people.request_access(asks("p0"), lambda: next(ids)) != ""
    await people.tables.close()


async def test_strangers_do_not_keep_others_out(tmp_path: Path) -> None:
    """A fourth person hears a code; after ten minutes the oldest of a full list gives way to a new one."""
    clock, ids = Clock(START), iter(f"{number:08x}" for number in range(100))
    (tmp_path / LEDGER_FILE).parent.mkdir()
    people = _people(tmp_path, clock)

    async def code(name: str) -> str:
        asks = Inbound(text="", chat_kind="direct", channel="line", sender_id=name)
        return await people.request_access(asks, lambda: next(ids))

    assert all([await code(f"p{number}") for number in range(MAX_PENDING)])
    assert await code("late") == ""
    clock.advance(seconds=PROTECTED_MS / 1000 + 1)
    assert await code("late") != ""
    assert [person.sender_id for person in await people.pending()][:1] == ["p1"]
    await people.tables.close()


async def test_a_right_that_is_taken_back_ends_at_the_next_tool_call(tmp_path: Path) -> None:
    """The tool is not run, the answer is kept back, and later messages are those of a stranger."""
    people: list[People] = []

    class Revoking(ScriptedModel):
        """Takes the right back while it is being asked."""

        async def stream(self, request):  # type: ignore[no-untyped-def]
            if not people:
                people.append(_people(tmp_path))
                assert await people[0].tables.people.revoke("line", "ann")
                await people[0].tables.close()
            async for item in super().stream(request):
                yield item

    model = Revoking(calls(("append", {"path": "memory/2026-03-14.md", "text": "- x"})), says("over"))
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=PAIRING) as (here, _):
            server.say("it is me")
            await server.until(lambda at: len(at.sent) == 1)
            terminal = _people(tmp_path)
            await terminal.approve(_code(server.shown()[0]), "owner")
            await terminal.tables.close()
            server.say("note this")
            async with asyncio.timeout(60):
                while not (len(model.requests) == 2 and here.is_idle):
                    await asyncio.to_thread(lambda: None)
            server.say("and now?")
            await server.until(lambda at: len(at.sent) == 2)

    assert not (tmp_path / "workspace/memory/2026-03-14.md").exists()
    [result] = [
        entry["message"]
        for entry in entries(transcript_file(tmp_path))
        if entry["type"] == "message" and entry["message"]["role"] == "toolResult"
    ]
    assert result["isError"]
    assert _code(server.shown()[1])


async def test_what_waits_is_not_answered_when_its_sender_may_not_speak_any_more(tmp_path: Path) -> None:
    """A right that was taken back while the program was away holds for what it left open, too."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=QUICK):
            server.say("private question", sender="nora")
            await model.held.get()
        asked = Answering()
        nobody = {**OPEN, "commands": {"ownerAllowFrom": []}, "messages": QUICK["messages"]}
        async with gateway(tmp_path, asked, [LineBridge(server.port)], settings=nobody, ids="b"):
            server.say("hello", chat="other", sender="bob")
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown("other") == ["re: hello"]
    assert [message_text(request.messages[-1]) for request in asked.requests] == ["hello"]


async def test_a_group_hears_nothing_unless_it_speaks_to_the_assistant(tmp_path: Path) -> None:
    """By mention in a listed group; who claims to be the owner in a message is not."""
    settings = {**PAIRING, "channels": {"line": {"groups": {"g": {}}}}}
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=settings) as (_, agent):
            server.say("psst", chat="g", chat_kind="group")
            server.say("hey", chat="h", chat_kind="group", is_mentioned=True)
            server.say("you there", chat="g", chat_kind="group", is_mentioned=True, is_owner=True)
            await server.until(lambda at: len(at.sent) == 1)
            [info] = await agent.sessions.list()

    assert [(sent.chat, sent.text) for sent in server.sent] == [("g", "re: you there")]
    assert info.chat_kind == "group"
