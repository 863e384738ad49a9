"""What goes out of any transcript is what providers take: roles in order, each call with its result."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.sessions.contracts.messages import Image, Message, Text, ToolResultMessage, UserMessage
from nacre.sessions.view.sent_view import model_messages
from nacre.sessions.view.transcript import build_transcript, newest_turns
from tests.sessions.talk import Branch, answer, result, user

PNG = Image(data="aGk=", mime_type="image/png")
MESSAGES: list[Message] = [
    user("a question"),
    user(" "),
    UserMessage(content=(PNG,), timestamp_ms=1),
    user("half a character \ud83d"),
    answer("an answer"),
    answer("  ", "c0"),
    answer("", "c0", "c1|of somebody else"),
    answer("", "", "c0", "c0"),
    answer("broken off", "c1", stop_reason="aborted"),
    answer("", "c1", stop_reason="error"),
    answer(""),
    result("c0"),
    result("c1|of somebody else", ""),
    result("never called"),
    result(""),
    ToolResultMessage(
        tool_call_id="c0", tool_name="look", content=(Text(text=" "), PNG), is_error=False, timestamp_ms=1
    ),
]
MODELS = ("openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro", "mistral/large", "ollama/x")


def branch_of(steps: list[Message | str]) -> Branch:
    branch = Branch()
    for step in steps:
        if step == "recall":
            branch.recall()
        elif step == "compact":
            branch.compact(f"e{max(1, len(branch.entries) - 2)}")
        elif not isinstance(step, str):
            branch.say(step)
    return branch


def sent(steps: list[Message | str], model_name: str, turns: int | None) -> list[dict[str, Any]]:
    """The messages of one request, as they go out."""
    branch = branch_of(steps)
    is_compacted = "compact" in steps
    items = newest_turns(build_transcript(branch.entries), turns, is_compacted=is_compacted)
    messages = model_messages(items, is_compacted=is_compacted)
    request = ModelRequest(system=SystemPrompt(stable=""), messages=messages)
    out: list[dict[str, Any]] = completion_arguments(request, model_name=model_name)["messages"]
    return out


@given(
    steps=st.lists(st.sampled_from([*MESSAGES, "recall", "compact"]), max_size=14),
    model_name=st.sampled_from(MODELS),
    turns=st.sampled_from([None, 1, 2]),
)
@pytest.mark.covers("A8-8", "W17-1", "ASK-22")
def test_every_request_is_one_that_providers_take(
    steps: list[Message | str], model_name: str, turns: int | None
) -> None:
    """Whatever was recorded, in whatever order: no blank text, no parted call, no role out of order."""
    messages = sent(steps, model_name, turns)

    assert json.dumps(messages, ensure_ascii=False).encode()
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
        content = message["content"]
        assert content is None or (content.strip() if isinstance(content, str) else content)
        assert content is not None or message["tool_calls"]
    assert waiting == []
    assert not messages or messages[0]["role"] != "tool"
    if model_name != "openai/gpt-5":
        assert not messages or messages[0]["role"] == "user"
        roles = [message["role"] for message in messages]
        assert ("user", "user") not in set(pairwise(roles))
