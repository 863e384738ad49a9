"""No message of a private session leaves the model's view before a flush or the extract has covered it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.contracts.events import FlushEnded
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    message_text,
)
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

pytestmark = pytest.mark.usefixtures("steady_frame")

FILLING = "The hive needs sugar before the frost comes. "
REFUSED_CALLS: Sequence[Mapping[str, Any]] = ({"txt": "- lost"}, {"text": " \n"}, {"text": {"a": 1}})


class FlushingModel:
    """Answers each question shortly and flushes as `flushes` says, in turn, again and again.

    `seen` are the texts of all requests whose flush it carried out.
    """

    name = "test/flushing"
    context_window_tokens: int | None = 24_000

    def __init__(self, flushes: Sequence[str]) -> None:
        self.seen = ""
        self._flushes = flushes
        self._count = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        texts = [message_text(message) for message in request.messages]
        tokens = sum(map(len, texts)) // 4 + 1_000
        text, call = "ok", None
        if request.purpose == "compaction":
            text = "## Goal\nBees"
        elif request.purpose == "flush":
            text, call = self._flush(request, texts)
        yield TextDelta(text=text)
        yield AssistantMessage(
            content=(call,) if call else (Text(text=text),),
            api="test",
            provider="test",
            model="flushing",
            usage=Usage(input_tokens=tokens, output_tokens=10),
            stop_reason="toolUse" if call else "stop",
            timestamp_ms=0,
        )

    def _flush(self, request: ModelRequest, texts: Sequence[str]) -> tuple[str, ToolCall | None]:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage):
            self.seen += "" if last.is_error else "\n".join(texts)
            return "NO_REPLY", None
        how = self._flushes[self._count % len(self._flushes)]
        self._count += 1
        if how == "fails":
            raise ModelAuthError("The key was refused.")
        if how == "nothing":
            self.seen += "\n".join(texts)
            return "NO_REPLY", None
        arguments = {"text": f"- note {self._count}"} if how == "writes" else REFUSED_CALLS[self._count % 3]
        return "", ToolCall(id=f"call_{self._count}", name="append", arguments=arguments)

    async def aclose(self) -> None:
        """Holds nothing."""


async def uncovered(state_dir: Path, flushes: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """What was compacted away although no flush that was carried out has seen it and no note has it."""
    write_settings(state_dir, window_settings())
    model = FlushingModel(flushes)
    clock = Clock()
    async with opened(state_dir, model, clock=clock) as agent:
        for number, size in enumerate(sizes):
            clock.advance(minutes=1)
            await agent.respond(said(f"My locker number {number:03} is {number:03}-4711. " + FILLING * size))
    lines = entries(transcript_file(state_dir))
    places = {line["id"]: place for place, line in enumerate(lines)}
    cut = max([places[line["firstKeptEntryId"]] for line in lines if line["type"] == "compaction"], default=0)
    facts = [
        line["message"]["content"][0]["text"].partition(". ")[0]
        for line in lines[:cut]
        if line["type"] == "message" and line["message"]["role"] == "user"
    ]
    notes = "".join(log.read_text("utf-8") for log in (state_dir / "workspace/memory").glob("*.md"))
    return [fact for fact in facts if fact not in model.seen and fact not in notes]


FLUSHES_AND_SIZES = {
    "flushes": st.lists(st.sampled_from(["writes", "nothing", "wrong", "fails"]), min_size=1, max_size=4),
    "sizes": st.lists(st.sampled_from([1, 20, 120, 300, 700]), min_size=8, max_size=24),
}


def _nothing_is_uncovered(flushes: list[str], sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(uncovered(Path(folder), flushes, sizes)) == []


@pytest.mark.slow
@settings(max_examples=3)
@given(**FLUSHES_AND_SIZES)
@pytest.mark.covers("ATT-3")
def test_nothing_is_compacted_before_it_was_flushed(flushes: list[str], sizes: list[int]) -> None:
    """However long the messages are, and whatever comes of the flushes."""
    _nothing_is_uncovered(flushes, sizes)


@pytest.mark.slow
@settings(max_examples=40)
@given(**FLUSHES_AND_SIZES)
def test_nothing_is_compacted_before_it_was_flushed_in_more_examples(
    flushes: list[str], sizes: list[int]
) -> None:
    """The same, for longer."""
    _nothing_is_uncovered(flushes, sizes)


@pytest.mark.covers("ATT-3")
async def test_what_was_said_behind_a_flush_is_noted_before_it_is_compacted(tmp_path: Path) -> None:
    """A cycle is flushed once; what follows and does not stay gets into the log, at no cost of a model."""
    sizes = [300, 300, 120, 120, 120, 300, 120]
    assert await uncovered(tmp_path, ["nothing"], sizes) == []


@pytest.mark.parametrize("arguments", [{"txt": "- lost"}, {"text": " "}, {"text": {"a": 1}}])
@pytest.mark.covers("ATT-3")
async def test_notes_that_could_not_be_used_are_extracted(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """A call that was refused and a `NO_REPLY` behind it are no "nothing to save"."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=Usage(input_tokens=8_500, output_tokens=10)),
        calls(("append", arguments), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("two"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("My locker number is 4711."))
        events = await events_of(agent, said("go on"))
    model.assert_complete()

    (flush,) = [event for event in events if isinstance(event, FlushEnded)]
    assert flush.status == "fallback"
    assert flush.problem.startswith("The model's notes could not be used: ")
    assert "My locker number is 4711." in (tmp_path / "workspace" / TODAY).read_text("utf-8")


async def test_what_a_history_limit_hides_was_saved_before(tmp_path: Path) -> None:
    """Where only so many turns are sent, notes of the others stand in the log, at no cost of a model."""
    write_settings(
        tmp_path,
        {"channels": {"chat": {"dmHistoryLimit": 3}}, "session": {"dmScope": "per-channel-peer"}},
    )
    model = ScriptedModel(*[says("ok")] * 10)
    clock = Clock()
    async with opened(tmp_path, model, clock=clock) as agent:
        for number in range(10):
            clock.advance(minutes=1)
            text = f"My locker number {number} is {number}-4711."
            await agent.respond(said(text, channel="chat", sender_id="me", chat_id="me"))
        notes = "".join(log.read_text("utf-8") for log in (agent.workspace / "memory").glob("*.md"))
    model.assert_complete()
    assert [number for number in range(7) if f"{number}-4711" not in notes] == []
