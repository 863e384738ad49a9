"""How full the window is."""

from __future__ import annotations

import pytest

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from nacre.sessions.view.sent_view import ContextMeasure, estimate_message_tokens, measure_context
from nacre.sessions.view.transcript import build_transcript
from tests.sessions.talk import Branch, answer, user, words

USAGE = Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=200, cache_write_tokens=100)


def measured(branch: Branch) -> ContextMeasure:
    return measure_context(build_transcript(branch.entries), branch.entries, words)


def test_everything_in_a_message_counts() -> None:
    """Text, thinking, tool names, arguments and images each add their tokens to four for the message."""
    spoken = AssistantMessage(
        content=(
            Thinking(thinking="a b"),
            Text(text="c d e"),
            ToolCall(id="1", name="read", arguments={"path": "notes"}),
            ToolCall(id="2", name="read", invalid_arguments="not quite json"),
        ),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="toolUse",
        timestamp_ms=1,
    )
    picture = UserMessage(
        content=(Text(text="look here"), Image(data="", mime_type="image/png")), timestamp_ms=1
    )

    assert estimate_message_tokens(spoken, words) == 4 + 2 + 3 + (1 + 2) + (1 + 3)
    assert estimate_message_tokens(picture, words) == 4 + 2 + 1200


@pytest.mark.covers("A9-2", "A10-8")
def test_without_usage_everything_is_estimated() -> None:
    """Before the provider has counted, every message is estimated."""
    branch = Branch([user("one two"), answer("three")])
    assert measured(branch) == ContextMeasure(tokens=6 + 5, usage_tokens=0, trailing_tokens=11)


@pytest.mark.covers("A9-2")
def test_the_newest_usage_counts_and_the_rest_is_estimated() -> None:
    """The provider's count of the last whole answer replaces the estimate of all before it."""
    branch = Branch(
        [
            user("a"),
            answer("b", usage=Usage(input_tokens=5)),
            user("c"),
            answer("d", usage=USAGE),
            user("e f"),
        ]
    )
    assert measured(branch) == ContextMeasure(tokens=1806, usage_tokens=1800, trailing_tokens=6)


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
@pytest.mark.covers("A9-2", "A10-8")
def test_usage_of_a_broken_off_answer_is_not_trusted(stop_reason: str) -> None:
    """The count of an answer that failed or was aborted is passed over for the one before."""
    branch = Branch(
        [answer("a", usage=Usage(input_tokens=10)), answer("b", usage=USAGE, stop_reason=stop_reason)]
    )
    assert measured(branch) == ContextMeasure(tokens=15, usage_tokens=10, trailing_tokens=5)


@pytest.mark.covers("W7-2", "A10-7", "ASK-3")
def test_usage_from_before_a_compaction_is_stale() -> None:
    """A kept answer's count speaks of the old context; only answers after the compaction count."""
    branch = Branch([user("a"), answer("b", usage=USAGE)])
    branch.compact("e1", "short")
    after_compaction = measured(branch)
    branch.say(user("c"))
    branch.say(answer("d", usage=Usage(input_tokens=70)))

    assert after_compaction.usage_tokens == 0
    assert after_compaction.tokens < 150
    assert measured(branch) == ContextMeasure(tokens=70, usage_tokens=70, trailing_tokens=0)
