"""No message makes a session unusable: what is too large is shown shortened, and kept whole."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, TurnFailed, Warned
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.tokenizer import count_tokens_for
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    call_text,
    message_text,
)
from tests.runtime.agents import (
    entries,
    events_of,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

pytestmark = pytest.mark.usefixtures("steady_frame")

BEES = "The hive needs sugar before the frost comes. "
MEGABYTE = "BEGIN " + BEES * 23_000 + "LAST WORDS"
CHANNEL = {"channel": "chat", "account": "", "chat_id": "G1", "chat_kind": "group", "is_owner": False}
COUNT = count_tokens_for("openai/gpt-4o")


class RealWindow:
    """A model that refuses what its window does not hold, as providers do.

    `takes` is the window; what is said of it before is `context_window_tokens`. `calls` are answered one
    after the other where a request of a turn has no open call.
    """

    def __init__(self, takes: int, *, told: int | None = None, name: str = "real") -> None:
        self.name = f"test/{name}"
        self.context_window_tokens = told
        self.requests: list[ModelRequest] = []
        self.refusals = 0
        self.calls: list[ToolCall] = []
        self.answer = "ok"
        self._takes = takes

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        tokens = request_tokens(request)
        if tokens > self._takes:
            self.refusals += 1
            raise ContextOverflow(f"{tokens} tokens are too many.")
        self.requests.append(request)
        text, calls = self.answer, ()
        if request.purpose == "compaction":
            text = "## Goal\nBees."
        elif request.purpose != "turn":
            text = "NO_REPLY"
        elif self.calls:
            text, calls = "", (self.calls.pop(0),)
        if text:
            yield TextDelta(text=text)
        yield AssistantMessage(
            content=calls or (Text(text=text),),
            api="test",
            provider="test",
            model=self.name.partition("/")[2],
            usage=Usage(
                input_tokens=tokens, output_tokens=COUNT(text) + sum(COUNT(call_text(c)) for c in calls)
            ),
            stop_reason="toolUse" if calls else "stop",
            timestamp_ms=0,
        )

    async def aclose(self) -> None:
        """Holds nothing."""

    def purposes(self) -> list[str]:
        return [request.purpose for request in self.requests]


def request_tokens(request: ModelRequest) -> int:
    tokens = COUNT(request.system.joined())
    tokens += sum(
        COUNT(f"{spec.name} {spec.description} {json.dumps(dict(spec.parameters))}") for spec in request.tools
    )
    for message in request.messages:
        tokens += 4 + COUNT(message_text(message))
        tokens += 1_200 * sum(isinstance(block, Image) for block in message.content)
        if isinstance(message, AssistantMessage):
            tokens += sum(COUNT(call_text(call)) for call in message.tool_calls)
    return tokens


def stranger(text: str, sender: str) -> Inbound:
    return said(text, sender_id=sender, **CHANNEL)


def shown(model: RealWindow) -> list[str]:
    """What the model was sent last."""
    return [message_text(message) for message in model.requests[-1].messages]


@pytest.mark.covers("A11-6", "ATT-1")
async def test_a_strangers_megabyte_costs_nobody_a_group(tmp_path: Path) -> None:
    """It is answered, the others talk on, every word is on disk, and nothing was refused or summarized."""
    write_settings(tmp_path, window_settings())
    model = RealWindow(24_000, told=24_000)
    async with opened(tmp_path, model) as agent:
        await agent.respond(stranger("Hello all.", "anna"))
        events = await events_of(agent, stranger(MEGABYTE, "mallory"))
        told = [event.message for event in events if isinstance(event, Warned)]
        again = await events_of(agent, stranger("And now?", "anna"))
    assert isinstance(events[-1], ReplyReady)
    assert isinstance(again[-1], ReplyReady)
    assert (model.refusals, set(model.purposes())) == (0, {"turn"})
    assert [text.count("too long to be read at once") for text in told] == [1]
    assert not [event for event in again if isinstance(event, Warned)]
    long = next(text for text in shown(model) if "characters left out here" in text)
    assert long.lstrip("[").find("BEGIN The hive") >= 0
    assert long.endswith("LAST WORDS")
    assert MEGABYTE in user_texts(transcript_file(tmp_path))[1]


async def test_the_same_is_sent_in_each_request_also_after_a_restart(tmp_path: Path) -> None:
    """What was recorded is what is shown: a request begins with the bytes of the one before it."""
    write_settings(tmp_path, window_settings())
    model = RealWindow(24_000, told=24_000)
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(MEGABYTE))
        await agent.respond(said("two"))
        before = shown(model)
    async with opened(tmp_path, model, ids="b") as agent:
        await agent.respond(said("three"))
    assert shown(model)[: len(before)] == before


@pytest.mark.covers("A11-6")
async def test_the_whole_can_be_read_page_by_page(tmp_path: Path) -> None:
    """`read` goes on where the beginning ends; another session has nothing of that name."""
    write_settings(tmp_path, window_settings())
    model = RealWindow(24_000, told=24_000)
    text = "\n".join(f"Line {number}: {BEES}" for number in range(20_000))
    async with opened(tmp_path, model) as agent:
        await agent.respond(stranger(text, "mallory"))
        (note,) = [part for part in shown(model)[-1].splitlines() if "To go on: read" in part]
        path = note.partition('path="')[2].partition('"')[0]
        line = int(note.partition("from=")[2].partition(",")[0].partition(".")[0])
        model.calls.append(ToolCall(id="c1", name="read", arguments={"path": path, "from": line}))
        await agent.respond(stranger("read on", "mallory"))
        page = shown(model)[-1]
        model.calls.append(ToolCall(id="c2", name="read", arguments={"path": path}))
        await agent.respond(said("read it", **{**CHANNEL, "chat_id": "G2"}))
        elsewhere = model.requests[-1].messages[-1]
    assert f"Line {line}: The hive" in page
    assert isinstance(elsewhere, ToolResultMessage)
    assert elsewhere.is_error


async def test_a_transcript_that_was_stuck_goes_on(tmp_path: Path) -> None:
    """One written while nothing was shortened, by a model with a large window, is usable in a small one."""
    write_settings(tmp_path, window_settings(2_000_000))
    large = RealWindow(2_000_000, told=2_000_000)
    large.answer = BEES * 6_000
    large.calls.append(ToolCall(id="c1", name="append", arguments={"path": "x.md", "text": BEES * 6_000}))
    async with opened(tmp_path, large) as agent:
        await agent.respond(said(MEGABYTE))
        await agent.respond(said("more"))
    assert "characters left out here" not in "".join(shown(large))
    write_settings(tmp_path, window_settings(16_000))
    small = RealWindow(16_000, told=16_000)
    async with opened(tmp_path, small, ids="b") as agent:
        reply = await agent.respond(said("still there?"))
        compacted = await events_of(agent, said("/compact"))
        after = await agent.respond(said("and now?"))
    assert (reply.text if reply else "", after.text if after else "") == ("ok", "ok")
    assert small.refusals == 0
    assert not [event for event in compacted if isinstance(event, TurnFailed)]
    assert MEGABYTE in user_texts(transcript_file(tmp_path))[0]


@pytest.mark.parametrize("told", [None, 200_000])
async def test_a_window_smaller_than_was_told_is_found(tmp_path: Path, told: int | None) -> None:
    """The provider's refusal shortens what no compaction could take away, and the turn is answered."""
    model = RealWindow(32_000, told=told)
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said(BEES * 9_000))
        reply = await agent.respond(said("go on"))
    assert isinstance(events[-1], ReplyReady)
    assert reply is not None
    assert "compaction" not in model.purposes()
    assert not [event for event in events if isinstance(event, CompactionEnded)]


async def answered(state_dir: Path, windows: Sequence[int], messages: Sequence[tuple[str, int]]) -> None:
    """Says all of it, changing from model to model; every turn has its answer."""
    for number, (kind, size) in enumerate(messages):
        window = windows[number % len(windows)]
        write_settings(state_dir, window_settings(window))
        model = RealWindow(window, told=window)
        text = (
            f"{number} " + {"words": BEES, "cjk": "蜂箱在霜冻之前需要糖。", "one": "a"}.get(kind, BEES) * size
        )
        if kind == "answer":
            model.answer = text
        if kind == "call":
            arguments = {"path": "memory/today.md", "text": text}
            model.calls.append(ToolCall(id=f"c{number}", name="append", arguments=arguments))
        async with opened(state_dir, model, clock=Clock(), ids=f"s{number}x") as agent:
            reply = await agent.respond(said(text if kind not in ("answer", "call") else "go on"))
        assert reply is not None, (number, kind, size)
        assert model.refusals == 0, (number, kind, size)
    kept = json.dumps(entries(transcript_file(state_dir)), ensure_ascii=False)
    assert [number for number in range(len(messages)) if f"{number} " not in kept] == []


WINDOWS_AND_MESSAGES = {
    "windows": st.lists(st.sampled_from([16_000, 24_000, 64_000]), min_size=1, max_size=3),
    "messages": st.lists(
        st.tuples(
            st.sampled_from(["words", "cjk", "one", "answer", "call"]),
            st.sampled_from([1, 90, 700, 3_000, 30_000]),
        ),
        min_size=1,
        max_size=7,
    ),
}


def _is_answered(windows: list[int], messages: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(answered(Path(folder), windows, messages))


@settings(max_examples=3)
@given(**WINDOWS_AND_MESSAGES)
@pytest.mark.covers("ATT-1")
def test_any_sequence_of_sizes_leaves_a_usable_session(
    windows: list[int], messages: list[tuple[str, int]]
) -> None:
    """Whatever was said, however long, and however the window changes from one turn to the next."""
    _is_answered(windows, messages)


@pytest.mark.slow
@settings(max_examples=25)
@given(**WINDOWS_AND_MESSAGES)
def test_any_sequence_of_sizes_leaves_a_usable_session_in_more_examples(
    windows: list[int], messages: list[tuple[str, int]]
) -> None:
    """The same, for longer."""
    _is_answered(windows, messages)
