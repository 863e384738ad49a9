"""Messages and usage as they are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.messages import (
    STOP_REASONS,
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_from_json,
    message_text,
    usage_from_json,
)
from nacre.sessions.disk.json_text import to_line

WORDS = st.text(max_size=20)
COUNT = st.integers(0, 2**53)
ARGUMENTS = st.dictionaries(
    WORDS, st.one_of(WORDS, COUNT, st.booleans(), st.none(), st.lists(WORDS)), max_size=3
)
TEXT = st.builds(Text, text=WORDS)
SHOWN = st.lists(st.one_of(TEXT, st.builds(Image, data=WORDS, mime_type=WORDS)), max_size=3).map(tuple)
SPOKEN = st.lists(
    st.one_of(
        TEXT,
        st.builds(Thinking, thinking=WORDS, signature=st.none() | WORDS),
        st.builds(ToolCall, id=WORDS, name=WORDS, arguments=ARGUMENTS),
        st.builds(ToolCall, id=WORDS, name=WORDS, invalid_arguments=WORDS),
    ),
    max_size=4,
).map(tuple)
USAGE = st.builds(
    Usage,
    input_tokens=st.integers(1, 10**9),
    output_tokens=COUNT,
    cache_read_tokens=COUNT,
    cost_usd=st.floats(0, 99),
)
MESSAGE = st.one_of(
    st.builds(UserMessage, content=SHOWN, timestamp_ms=COUNT),
    st.builds(
        AssistantMessage,
        content=SPOKEN,
        api=WORDS,
        provider=WORDS,
        model=WORDS,
        usage=st.none() | USAGE,
        stop_reason=st.sampled_from(STOP_REASONS),
        timestamp_ms=COUNT,
        error_message=st.none() | WORDS,
    ),
    st.builds(
        ToolResultMessage,
        tool_call_id=WORDS,
        tool_name=WORDS.filter(bool),
        content=SHOWN,
        is_error=st.booleans(),
        timestamp_ms=COUNT,
        details=st.none() | ARGUMENTS,
    ),
)


@given(MESSAGE)
def test_a_message_comes_back_as_it_was_stored(message: Message) -> None:
    """Every message survives its line in the file, whatever characters it holds."""
    line = to_line({"type": "message", "message": message.to_json()})
    assert line.count(b"\n") == 1
    assert message_from_json(json.loads(line)["message"]) == message


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"input": 1000, "output": 500, "cacheRead": 200, "cacheWrite": 100}, (1000, 500, 200, 100)),
        ({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3}, (5, 2, 3, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4}, (10, 4, 0, 0)),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}},
            (2, 4, 8, 0),
        ),
        ({"totalTokens": 77}, (77, 0, 0, 0)),
        ({"input": 7.9, "output": float("nan")}, (7, 0, 0, 0)),
        ({"input": float("inf"), "output": float("-inf")}, (2**53, 0, 0, 0)),
        ({"input": 10**400}, (2**53, 0, 0, 0)),
        ({"input": True, "output": "9"}, None),
        ({"input": 0, "output": 0}, None),
        ({}, None),
        ("many", None),
        (None, None),
    ],
)
@pytest.mark.covers("A9-4")
def test_usage_is_read_under_every_name(raw: object, expected: tuple[int, ...] | None) -> None:
    """Providers' names and odd numbers give the same four counts; nothing that counts gives none."""
    usage = usage_from_json(raw)
    counts = usage and (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    assert counts == expected


@pytest.mark.covers("A9-1")
def test_the_context_is_the_sum_of_all_counts() -> None:
    """A window held what was new, what was cached and what was answered."""
    usage = Usage(
        input_tokens=1000, output_tokens=500, cache_read_tokens=200, cache_write_tokens=100, cost_usd=0.5
    )
    assert (usage.context_tokens, Usage().context_tokens) == (1800, 0)
    assert usage_from_json(usage.to_json()) == usage


def test_foreign_shapes_are_read_where_they_can_be() -> None:
    """String content, unknown blocks and missing keys are no reason to lose a message."""
    assert message_from_json({"role": "user", "content": "hi"}) == UserMessage(
        content=(Text(text="hi"),), timestamp_ms=0
    )
    odd: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "video"}, 5, {"type": "text", "text": "ok"}],
    }
    read = message_from_json({**odd, "stopReason": "sneezed"})
    assert isinstance(read, AssistantMessage)
    assert (read.content, read.stop_reason, read.usage) == ((Text(text="ok"),), "stop", None)
    assert message_from_json({"role": "system", "content": "x"}) is None


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_a_content_that_is_no_content_is_refused(role: str) -> None:
    """A message of ours whose content is a number cannot be read, and says so."""
    with pytest.raises(ValueError, match="content is int, not text or blocks"):
        message_from_json({"role": role, "content": 5})


@pytest.mark.covers("A18-1")
def test_a_result_is_read_under_both_names_of_its_call() -> None:
    """Some writers say `toolUseId` for `toolCallId`."""
    for name in ("toolCallId", "toolUseId"):
        read = message_from_json({"role": "toolResult", name: "c1", "content": "done"})
        assert isinstance(read, ToolResultMessage)
        assert (read.tool_call_id, message_text(read)) == ("c1", "done")
