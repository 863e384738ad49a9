"""A bot author's own model that breaks the contract costs an answer, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import BadModelReply
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, TurnFailed
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage
from tests.runtime.agents import (
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

LONG = "We decided to move to Lisbon in May. " * 300


def answer(tokens: int = 100) -> AssistantMessage:
    return AssistantMessage(
        content=(Text(text="fine"),),
        api="own",
        provider="own",
        model="model",
        usage=Usage(input_tokens=tokens),
        stop_reason="stop",
        timestamp_ms=1,
    )


class OwnModel:
    """A model that answers with whatever a generator function yields or raises."""

    name = "own/model"
    context_window_tokens = 24_000

    def __init__(self, answers: Callable[[ModelRequest], AsyncIterator[Any]]) -> None:
        self.stream = answers

    async def aclose(self) -> None:
        """Nothing to release."""


async def breaks_off(request: ModelRequest) -> AsyncIterator[Any]:
    yield TextDelta(text="I was about ")
    raise KeyError("sk-secret")


async def says_nothing(request: ModelRequest) -> AsyncIterator[Any]:
    for item in ():
        yield item


async def yields_text(request: ModelRequest) -> AsyncIterator[Any]:
    yield "just a string"


@pytest.mark.parametrize("answers", [breaks_off, says_nothing, yields_text])
async def test_a_broken_model_fails_the_turn_with_a_sentence(
    tmp_path: Path, answers: Callable[[ModelRequest], AsyncIterator[Any]]
) -> None:
    """The person's words are kept, the error names the model's failure, and no secret of it."""
    async with opened(tmp_path, OwnModel(answers)) as agent:
        events = await events_of(agent, said("hello"))

    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, BadModelReply)
    assert "model" in str(events[-1].error)
    assert "sk-secret" not in str(events[-1].error)
    assert user_texts(transcript_file(tmp_path)) == ["hello"]
    assert entries(transcript_file(tmp_path))[-1]["message"]["stopReason"] == "error"


async def test_what_comes_behind_the_final_message_is_not_waited_for(tmp_path: Path) -> None:
    """The stream is closed at once, and the answer stands."""
    closed = []

    async def goes_on(request: ModelRequest) -> AsyncIterator[Any]:
        try:
            yield answer()
            raise ConnectionResetError("after the end")
        finally:
            closed.append(True)

    async with opened(tmp_path, OwnModel(goes_on)) as agent:
        reply = await agent.respond(said("hello"))
        assert closed == [True]

    assert reply is not None
    assert reply.text == "fine"


async def test_a_model_that_breaks_in_flush_and_compaction_loses_no_turn(tmp_path: Path) -> None:
    """Notes and the summary are extracted instead, and the conversation goes on."""

    async def only_talks(request: ModelRequest) -> AsyncIterator[Any]:
        if request.purpose != "turn":
            raise ZeroDivisionError
        yield answer(13_000)

    write_settings(tmp_path, window_settings())
    async with opened(tmp_path, OwnModel(only_talks)) as agent:
        await agent.respond(said(LONG))
        await agent.respond(said(LONG))
        events = await events_of(agent, said("and now?"))
        later = await events_of(agent, said("and then?"))

    assert "Lisbon" in (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8")
    [ended] = [event for event in later if isinstance(event, CompactionEnded)]
    assert ended.problem == ""
    assert ended.tokens_after < ended.tokens_before
    assert isinstance(events[-1], ReplyReady)
    assert isinstance(later[-1], ReplyReady)
