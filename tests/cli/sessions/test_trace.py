"""`nacre sessions trace`: what happened in a turn, from what is stored."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

from nacre import Agent, Inbound, sub_agent, tool
from nacre.cli.sessions.trace import trace_lines
from nacre.runtime.agent.insight.trace import turns_of
from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.records import Place
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage
from nacre.sessions.entries.entries import Entry
from tests.cli.program import run_nacre
from tests.runtime.agents import START, TODAY, opened, said, window_settings, write_settings
from tests.runtime.turn.test_window import LONG, SUMMARY

CLOCK = Clock(START)
ASKED = Inbound(
    text="How warm is it?",
    chat_kind="direct",
    channel="line",
    chat_id="c",
    sender_id="ann",
    is_owner=True,
    message_id="m1",
)
PLACE = Place(channel="line", account="default", chat_id="c")


@tool
async def measure(room: str) -> str:
    """Measure a room.

    Args:
        room: Which one.
    """
    CLOCK.advance(seconds=2)
    return f"{room}: 21 degrees"


def traced(home: Path, *more: str) -> dict[str, Any]:
    told = run_nacre(home, "sessions", "trace", *more, "--json")
    assert told.returncode == 0, told.stderr
    shown: dict[str, Any] = json.loads(told.stdout)
    return shown


async def test_a_turn_is_a_tree_of_its_steps(tmp_path: Path) -> None:
    """Message, model with usage, tool with arguments and time, sub-agent with its own steps, delivery."""
    scout = sub_agent(name="scout", description="Looks around.", instructions="Look.", tools=[measure])
    model = ScriptedModel(
        calls(
            ("measure", {"room": "attic"}), ("scout", {"task": "Look around"}), usage=Usage(input_tokens=9)
        ),
        calls(("measure", {"room": "cellar"})),
        says("all is well"),
        says("21 degrees", usage=Usage(input_tokens=1_200, output_tokens=30, cost_usd=0.02)),
        says("again"),
    )
    state = tmp_path / ".nacre"
    async with opened(state, model, clock=CLOCK, tools=[measure, scout]) as agent:
        reply = await agent.respond(ASKED)
        ledger = await ledger_file(state).open(now=CLOCK, new_id=CountingIds("l"))
        received = await ledger.receive(ASKED, reply.session_key)
        assert received is not None
        await ledger.begin([received])
        await ledger.finish([received], PLACE, ["21", "degrees"])
        part = await ledger.outbox.next_part("line", "default", "c")
        assert part is not None
        await ledger.outbox.not_sent(part, "failed", "The chat is gone.")
        await ledger.close()

    (turn,) = traced(tmp_path, reply.session_key)["turns"]
    assert [step["kind"] for step in turn["steps"]] == [
        *("inbound", "model", "tool", "sub_agent", "model"),
        *("delivery", "delivery"),
    ]
    measured, task = turn["steps"][2:4]
    assert json.loads(measured["text"]) == {"room": "attic"}
    assert measured["tookMs"] >= 2_000
    assert [step["kind"] for step in task["steps"]] == ["inbound", "model", "tool", "model"]
    assert task["steps"][2]["text"] == '{"room": "cellar"}'
    assert turn["usage"]["inputTokens"] >= 1_209
    assert turn["steps"][-2]["isError"] is True

    lines = run_nacre(tmp_path, "sessions", "trace", reply.session_key).stdout.splitlines()
    assert lines[0].startswith("Turn 2026-03-14 ")
    assert any(line.startswith("├─ tool measure · ") and '{"room": "attic"}' in line for line in lines)
    assert any(line.startswith("│  ├─ tool measure") for line in lines)
    assert any("1.2k in, 30 out, $0.02" in line and "21 degrees" in line for line in lines)
    assert "├─ delivery line c failed · failed, 1 failed attempts: The chat is gone." in lines
    assert lines[-1] == "└─ delivery line c · pending"


async def test_a_damaged_ledger_is_told_and_left_to_the_program_that_serves(tmp_path: Path) -> None:
    """The trace comes without its deliveries, and the file stays where it is."""
    state = tmp_path / ".nacre"
    model = ScriptedModel(says("20 degrees"))
    async with await Agent.open(state_dir=state, model=model, clock=CLOCK, watch=False) as agent:
        reply = await agent.respond(ASKED)
    ledger = await ledger_file(state).open(now=CLOCK, new_id=CountingIds("l"))
    assert await ledger.receive(ASKED, reply.session_key) is not None
    await ledger.close()

    damage_page(state / "bridges" / "ledger.sqlite", b"How warm is it?")
    traced = run_nacre(tmp_path, "sessions", "trace", reply.session_key)

    assert traced.returncode == 0
    assert traced.stdout.splitlines()[-1].endswith("20 degrees")
    assert "nacre serve" in traced.stderr
    assert not list((state / "bridges").glob("*.corrupt-*"))


def damage_page(database: Path, content: bytes) -> None:
    """Make the pages unreadable in which a content stands."""
    data = bytearray(database.read_bytes())
    while (at := data.find(content)) >= 0:
        page = at - at % 4096
        data[page : page + 4096] = b"\xff" * 4096
    database.write_bytes(data)


async def test_notes_and_a_summary_are_steps_with_the_calls_for_them(tmp_path: Path) -> None:
    """`--last` shows several turns; a flush has its model calls and its tool below it."""
    write_settings(tmp_path / ".nacre", window_settings())
    model = ScriptedModel(
        says("noted", usage=Usage(input_tokens=3_000)),
        says("noted", usage=Usage(input_tokens=13_500)),
        calls(("append", {"path": TODAY, "text": "- sugar before frost"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says(SUMMARY, purpose="compaction"),
        says("here we go on", usage=Usage(input_tokens=5_000)),
    )
    async with opened(tmp_path / ".nacre", model) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("and now?"))
    turns = traced(tmp_path, "--last", "3")["turns"]
    assert len(turns) == 3
    steps = {step["kind"]: step for turn in turns for step in turn["steps"]}
    assert [step["kind"] for step in steps["flush"]["steps"]] == ["model", "tool", "model"]
    assert steps["flush"]["text"].startswith("written memory/")
    assert "tokens before" in steps["compaction"]["text"]
    assert len(traced(tmp_path)["turns"]) == 1


def test_a_session_in_which_nobody_spoke_has_no_turn(tmp_path: Path) -> None:
    """An unknown session is a sentence and exit code 1."""
    told = run_nacre(tmp_path, "sessions", "trace", "nothing-like-it")
    assert told.returncode == 1
    assert "nothing-like-it" in told.stderr


async def test_the_time_to_the_first_token_is_stored(tmp_path: Path) -> None:
    """A model that streams slowly: the transcript has both times, and the tree shows them."""
    clock = Clock(START)

    class Slow(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            clock.advance(seconds=1)
            async for item in super().stream(request):
                yield item
                clock.advance(seconds=2)

    async with opened(tmp_path / ".nacre", Slow(says("slow words")), clock=clock) as agent:
        await agent.respond(said("Hi"))
    (turn,) = traced(tmp_path)["turns"]
    answer = turn["steps"][1]
    assert answer["firstTokenMs"] == 1_000
    assert answer["tookMs"] >= 3_000


def test_what_is_unknown_is_left_out() -> None:
    """An answer of a foreign transcript without times, usage and text is one short line."""
    body = AssistantMessage(
        content=(Text(text=""),),
        api="",
        provider="a",
        model="b",
        usage=None,
        stop_reason="stop",
        timestamp_ms=0,
    )
    (turn,) = turns_of([Entry(id="1", parent_id=None, timestamp="", body=body)])
    assert list(trace_lines(turn, UTC, lambda _model: True)) == ["Turn unknown time · 0 ms", "└─ model a/b"]
