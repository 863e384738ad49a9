"""When notes are saved and what the flush turn may see and touch, on every path to it."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import FlushEnded
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, calls, fails, says
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    START,
    TODAY,
    entries,
    events_of,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

LONG = "The hive needs sugar before the frost comes. " * 300
"""About 3,000 tokens, 13,500 bytes."""


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


def note(text: str) -> list[ScriptedStep]:
    return [
        calls(("append", {"path": "x.md", "text": text}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
    ]


def flushes(events: list[Any]) -> list[FlushEnded]:
    return [event for event in events if isinstance(event, FlushEnded)]


def texts(request: ModelRequest) -> list[str]:
    return [message_text(message) for message in request.messages]


async def test_much_text_is_flushed_however_large_the_window(tmp_path: Path) -> None:
    """Past the limit in bytes notes are saved early, and the cycle still has its own flush later."""
    write_settings(tmp_path, window_settings(forceFlushTranscriptBytes=20_000))
    model = ScriptedModel(
        says("ok", usage=used(1_000)),
        *note("- early"),
        says("ok", usage=used(8_500)),
        *note("- at the threshold"),
        says("ok", usage=used(8_600)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(LONG))
        early = await events_of(agent, said(LONG))
        late = await events_of(agent, said("short"))
    model.assert_complete()

    assert [event.status for event in flushes(early)] == ["written"]
    assert [event.status for event in flushes(late)] == ["written"]
    recorded = [
        entry["data"].get("forced", False)
        for entry in entries(transcript_file(tmp_path))
        if entry.get("customType") == "nacre.flush"
    ]
    assert recorded == [True, False]


async def test_a_limit_of_zero_bytes_forces_nothing(tmp_path: Path) -> None:
    """The owner can switch the early flush off alone."""
    write_settings(tmp_path, window_settings(forceFlushTranscriptBytes=0))
    model = ScriptedModel(*[says("ok", usage=used(1_000))] * 3)
    async with opened(tmp_path, model) as agent:
        for _ in range(3):
            assert not flushes(await events_of(agent, said(LONG)))
    model.assert_complete()


@pytest.mark.parametrize(
    ("written", "read"),
    [(5_000, 5_000), ("2mib", 2_097_152), ("2mb", 2_000_000), (0, 0), ("soon", 2_097_152), (-1, 2_097_152)],
)
def test_bytes_are_read_as_other_programs_write_them(written: object, read: int) -> None:
    """A number, a number with a unit, and the default for anything else."""
    settings = MemoryFlushSettings.model_validate({"forceFlushTranscriptBytes": written})
    assert settings.force_flush_transcript_bytes == read


async def test_one_large_message_cannot_jump_over_the_flush(tmp_path: Path) -> None:
    """The message that just came counts: notes first, then the summary, then the answer to it."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(3_000))] * 2,
        says("ok", usage=used(7_500)),
        *note("- saved before the large one"),
        says("## Goal\nBees", purpose="compaction"),
        says("read it all", usage=used(9_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said(LONG * 2))
    model.assert_complete()

    assert [event.status for event in flushes(events)] == ["written"]
    assert texts(model.requests[-1])[-1] == LONG * 2
    assert user_texts(transcript_file(tmp_path))[-1] == LONG * 2


async def test_an_overflow_is_not_sent_again_to_be_flushed(tmp_path: Path) -> None:
    """The flush gets the newest turns that surely fit, not the context that was just refused."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        *note("- from the newest"),
        says("## Goal\nBees", purpose="compaction"),
        says("here", usage=used(3_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert [event.status for event in flushes(events)] == ["written"]
    refused, flush = texts(model.requests[3]), texts(model.requests[4])
    assert f"0: {LONG}" in refused
    assert f"0: {LONG}" not in flush
    assert flush[0] == f"1: {LONG}"
    assert "and now?" in flush


async def test_notes_of_a_flush_over_midnight_go_where_it_was_told(tmp_path: Path) -> None:
    """Begun before midnight and written after it: the file that was named gets them, and they are found."""
    write_settings(tmp_path, window_settings())
    clock = Clock(START)

    def midnight_passes(_request: ModelRequest) -> None:
        clock.advance(minutes=45)

    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        calls(
            ("append", {"path": "memory/2026-03-15.md", "text": "- at night"}),
            purpose="flush",
            check=midnight_passes,
        ),
        says("NO_REPLY", purpose="flush"),
        says("two", usage=used(8_600)),
        *note("- on the next day"),
    )
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.respond(said("one"))
        events = await events_of(agent, said("two?"))
        await agent.respond(said("/new"))
    model.assert_complete()

    assert [event.path for event in flushes(events)] == [TODAY]
    assert (tmp_path / "workspace" / TODAY).read_text() == (
        "## Notes of the conversation, 23:30\n\n- at night\n"
    )
    assert (tmp_path / "workspace/memory/2026-03-15.md").read_text() == (
        "## Notes of the conversation, 00:15\n\n- on the next day\n"
    )


async def test_the_owners_prompts_get_the_owners_date(tmp_path: Path) -> None:
    """`YYYY-MM-DD` is today where the owner is, in both texts, and the rules of a flush are added."""
    write_settings(
        tmp_path, window_settings(prompt="Save to memory/YYYY-MM-DD.md.", systemPrompt="It is YYYY-MM-DD.")
    )
    model = ScriptedModel(says("ok", usage=used(8_500)), says("NO_REPLY", purpose="flush"), says("two"))
    tokyo = Clock(datetime(2026, 3, 15, 0, 30, tzinfo=ZoneInfo("Asia/Tokyo")))
    async with opened(tmp_path, model, clock=tokyo) as agent:
        await agent.respond(said("one"))
        await agent.respond(said("two?"))
    model.assert_complete()

    flush = model.requests[1]
    asked = texts(flush)[-1]
    assert asked.startswith("Save to memory/2026-03-15.md.")
    assert "append, never rewrite" in asked
    assert "NO_REPLY" in asked
    assert "It is 2026-03-15." in flush.system.changing
    assert "NO_REPLY" in flush.system.changing
    assert flush.system.stable == model.requests[0].system.stable


async def test_the_persons_message_is_untouched_by_the_flush_before_it(tmp_path: Path) -> None:
    """It is on disk before the flush, once, and follows as a turn of its own."""
    write_settings(tmp_path, window_settings())
    seen: list[list[str]] = []

    def on_disk(_request: ModelRequest) -> None:
        seen.append(user_texts(transcript_file(tmp_path)))

    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        says("NO_REPLY", purpose="flush", check=on_disk),
        says("two"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one"))
        await agent.respond(said("two?"))
    model.assert_complete()

    assert seen == [["one", "two?"]]
    assert texts(model.requests[2]) == ["one", "ok", "two?"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "two?"]


async def test_turns_that_waited_are_flushed_like_any_other(tmp_path: Path) -> None:
    """Two messages at once run one after the other, and the second one's turn has its flush."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(says("ok", usage=used(8_500)), *note("- queued"), says("two"))
    async with opened(tmp_path, model) as agent:
        events = await asyncio.gather(events_of(agent, said("one")), events_of(agent, said("two?")))
    model.assert_complete()
    assert [len(flushes(list(happened))) for happened in events] == [0, 1]


FLUSHING = """
import asyncio, sys
from pathlib import Path
from nacre import Agent, Inbound
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from tests.runtime.agents import START

async def main(state_dir, name):
    steps = []
    for number in range(8):
        text = "- " + name + " " + str(number) + "\\n- known to all"
        steps += [says("ok"), calls(("append", {"path": "x", "text": text}), purpose="flush"),
                  says("NO_REPLY", purpose="flush")]
    model = ScriptedModel(*steps)
    agent = await Agent.open(state_dir=state_dir, model=model, environment={"HOME": state_dir},
                             clock=Clock(START), watch=False)
    async with agent:
        for number in range(8):
            for text in ("word", "/new"):
                await agent.respond(Inbound(text=text, chat_kind="direct", is_owner=True,
                                            session_key="agent:main:dm:" + name))
    model.assert_complete()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
async def test_two_processes_that_flush_at_once_lose_no_note(tmp_path: Path) -> None:
    """Sixteen flushes from two agents into one log: every line whole and once, the common one once."""
    write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", FLUSHING, str(tmp_path), name)
        for name in ("left", "right")
    ]
    assert [await process.wait() for process in processes] == [0, 0]

    lines = (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8").splitlines()
    wanted = [f"- {name} {number}" for name in ("left", "right") for number in range(8)]
    assert sorted(line for line in lines if line[:1] not in "#") == sorted([*wanted, "- known to all"])


async def test_the_index_tells_when_and_in_which_cycle_notes_were_saved(tmp_path: Path) -> None:
    """The cycle is the one that the flush belongs to, not the one that the compaction behind it begins."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(3_000)),
        says("ok", usage=used(13_500)),
        *note("- saved"),
        says("## Goal\nBees", purpose="compaction"),
        says("on we go", usage=used(3_000)),
    )
    clock = Clock(START)
    async with opened(tmp_path, model, clock=clock) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("and now?"))
    model.assert_complete()

    index = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text(encoding="utf-8"))
    line = index["agent:main:main"]
    assert (line["memoryFlushCompactionCount"], line["compactionCount"]) == (0, 1)
    assert line["memoryFlushAt"] == clock.now_ms()
