"""A flush that cannot write costs its notes, never the turn nor the compaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ReplyReady
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, calls, fails, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    TODAY,
    entries,
    events_of,
    opened,
    said,
    transcript_file,
    window_settings,
    write_settings,
)

LONG = "We decided to move to Lisbon in May. " * 330
REFUSED = ModelAuthError("The key was refused.")


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


@pytest.mark.parametrize(
    ("flush", "problem"),
    [
        (
            [calls(("append", {"path": "x", "text": "- Lisbon"}), purpose="flush"), says("NO_REPLY")],
            f"{TODAY} could not be written: Is a directory",
        ),
        (
            [fails(REFUSED, purpose="flush")],
            f"The key was refused.; {TODAY} could not be written: Is a directory",
        ),
    ],
)
async def test_a_log_that_cannot_be_written_is_a_failed_flush(
    tmp_path: Path, flush: list[ScriptedStep], problem: str
) -> None:
    """The attempt is recorded with its reason, history is compacted, and the answer comes."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("ok", usage=used(tokens)) for tokens in (1_000, 3_000, 13_000)],
        *flush,
        says("## Goal\nLisbon", purpose="compaction"),
        says("done", usage=used(5_000)),
    )
    async with opened(tmp_path, model) as agent:
        (agent.workspace / TODAY).mkdir()
        for _ in range(3):
            await agent.respond(said(LONG))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert [event for event in events if isinstance(event, FlushEnded)] == [
        FlushEnded(status="failed", path=TODAY, problem=problem)
    ]
    assert [event.problem for event in events if isinstance(event, CompactionEnded)] == [""]
    assert isinstance(events[-1], ReplyReady)
    recorded = [entry["data"] for entry in entries(transcript_file(tmp_path)) if _is_flush(entry)]
    assert [(data["status"], data["problem"]) for data in recorded] == [("failed", problem)]


async def test_a_flush_has_one_tool_whatever_the_model_calls(tmp_path: Path) -> None:
    """Reading or writing elsewhere is an error result, and an answer in words writes nothing."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        calls(("write", {"path": "MEMORY.md", "content": "gone"}), ("read", {"path": "x"}), purpose="flush"),
        says("I have saved everything.", purpose="flush"),
        says("two", usage=used(8_600)),
    )
    async with opened(tmp_path, model) as agent:
        before = (agent.workspace / "MEMORY.md").read_text(encoding="utf-8")
        await agent.respond(said("hello"))
        events = await events_of(agent, said("go on"))
        assert (agent.workspace / "MEMORY.md").read_text(encoding="utf-8") == before
    model.assert_complete()

    assert [event.status for event in events if isinstance(event, FlushEnded)] == ["nothing"]
    results = [message_text(message) for message in model.requests[2].messages[-2:]]
    assert results == [
        f"There is no tool named '{name}'. The tools here are: append." for name in ("write", "read")
    ]


def _is_flush(entry: dict[str, object]) -> bool:
    return entry.get("customType") == "nacre.flush"
