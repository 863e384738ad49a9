"""How a conversation is written for a provider."""

from __future__ import annotations

import json
import re

import pytest

from nacre.extensions.providers.completions.messages import (
    completion_arguments,
    provider_call_id,
    takes_cache_marks,
)
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_message,
)

PNG = Image(data="aGk=", mime_type="image/png")
DATA_URI = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def assistant(*content: Text | Thinking | ToolCall) -> AssistantMessage:
    """An answer with these blocks."""
    return AssistantMessage(
        content=content, api="", provider="", model="", usage=None, stop_reason="stop", timestamp_ms=1
    )


def result(call_id: str, *content: Text | Image) -> ToolResultMessage:
    """The result of the tool `look`."""
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="look", content=content, is_error=False, timestamp_ms=1
    )


def sent(*messages: Message, model_name: str = "openai/gpt-4o") -> list[dict[str, object]]:
    """The messages as they are sent, without a system prompt."""
    request = ModelRequest(system=SystemPrompt(stable=""), messages=messages)
    sent: list[dict[str, object]] = completion_arguments(request, model_name=model_name)["messages"]
    return sent


@pytest.mark.covers("A8-8")
def test_thinking_is_not_sent_and_calls_are() -> None:
    """An answer goes back as text and calls; its thinking stays here."""
    call = ToolCall(id="c1", name="look", arguments={"where": "hier: ö"})
    assert sent(assistant(Thinking(thinking="secret"), Text(text="Well"), call)) == [
        {
            "role": "assistant",
            "content": "Well",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"where": "hier: ö"}'},
                }
            ],
        }
    ]


@pytest.mark.covers("A8-8")
def test_answers_without_content_are_left_out() -> None:
    """Providers refuse empty assistant messages, so an answer of thinking alone is not sent."""
    assert sent(assistant(), assistant(Thinking(thinking="hm"))) == []


def test_images_of_a_person_and_of_a_tool() -> None:
    """A person's image stands in the message; a tool's follow all results, in the user message there."""
    messages = sent(
        UserMessage(content=(Text(text="Look"), PNG), timestamp_ms=1),
        assistant(ToolCall(id="a", name="look"), ToolCall(id="b", name="look")),
        result("a", PNG),
        result("b", Text(text="nothing")),
        user_message("And?", timestamp_ms=2),
    )
    assert messages[0]["content"] == [{"type": "text", "text": "Look"}, DATA_URI]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    images = messages[4]["content"]
    assert isinstance(images, list)
    assert images[1:] == [DATA_URI, {"type": "text", "text": "And?"}]


def test_images_of_a_tool_without_a_user_message_behind_them() -> None:
    """They are a user message of their own, so that the model sees them at once."""
    call = assistant(ToolCall(id="a", name="look"))
    for behind in ((), (assistant(Text(text="I see")),)):
        messages = sent(call, result("a", PNG), *behind)
        assert messages[2]["role"] == "user"
        assert DATA_URI in messages[2]["content"]


def test_an_empty_result_says_so() -> None:
    """A tool that returned nothing still has a result with words in it."""
    assert sent(result("a"))[0]["content"] == "(no output)"


def test_arguments_that_were_broken_are_not_sent_again() -> None:
    """The call stays, with an empty object in place of what no provider would take."""
    call = ToolCall(id="a", name="look", invalid_arguments='{"where')
    sent_calls = sent(assistant(call))[0]["tool_calls"]
    assert isinstance(sent_calls, list)
    assert sent_calls[0]["function"]["arguments"] == "{}"


@pytest.mark.covers("A8-8")
def test_foreign_call_ids_fit_every_provider() -> None:
    """Ids are kept where they fit; others are made to, and stay different and paired with their result."""
    assert provider_call_id("call_1-A", family="openai") == "call_1-A"
    long_ids = [provider_call_id(f"call|{'x' * 100}{number}", family="openai") for number in range(2)]
    assert len(set(long_ids)) == 2
    assert all(len(call_id) <= 64 and "|" not in call_id for call_id in long_ids)
    call, answer = sent(assistant(ToolCall(id="a|b", name="look")), result("a|b", Text(text="x")))
    calls = call["tool_calls"]
    assert isinstance(calls, list)
    assert calls[0]["id"] == answer["tool_call_id"]


def test_only_claude_gets_cache_marks() -> None:
    """Marks go to Anthropic's models, wherever they are sold, and to nobody else."""
    marked = ["anthropic/claude-sonnet-4-5", "claude-3-5-haiku", "openrouter/anthropic/claude-sonnet-4"]
    plain = ["openai/gpt-4o", "openai/claude-like", "openrouter/openai/gpt-4o", "gpt-4o"]
    assert all(takes_cache_marks(name) for name in marked)
    assert not any(takes_cache_marks(name) for name in plain)


def test_the_mark_does_not_change_the_request_it_came_from() -> None:
    """Marking twice gives the same: the translation keeps nothing."""
    messages = (
        user_message("one", timestamp_ms=1),
        assistant(Text(text="two")),
        user_message("three", timestamp_ms=2),
    )
    first = sent(*messages, model_name="anthropic/claude-sonnet-4-5")
    assert first == sent(*messages, model_name="anthropic/claude-sonnet-4-5")
    assert first[0]["content"] == "one"
    assert "cache_control" in str(first[2]["content"])


@pytest.mark.covers("A8-8")
def test_blank_text_is_not_sent() -> None:
    """Providers refuse text of spaces alone, in whichever message it stands."""
    blank = Text(text=" \n")
    call = ToolCall(id="a", name="look")
    spoken = UserMessage(content=(blank, Text(text="hi"), PNG), timestamp_ms=1)
    messages = sent(
        user_message(" ", timestamp_ms=1),
        assistant(blank, call),
        result("a", blank),
        assistant(blank),
        spoken,
    )
    assert [message["content"] for message in messages] == [
        "(no text)",
        None,
        "(no output)",
        [{"type": "text", "text": "hi"}, DATA_URI],
    ]


def test_broken_characters_do_not_stop_a_session() -> None:
    """Halves of characters, as file names bring them in, are mended wherever they stand."""
    half = "caf\udce9"
    call = ToolCall(id=half, name="look", arguments={"path": half})
    messages = sent(
        user_message(half, timestamp_ms=1),
        assistant(Text(text=half), call),
        result(half, Text(text="\ud83d\ude00"), PNG),
        UserMessage(content=(Text(text=half), PNG), timestamp_ms=1),
    )
    assert json.dumps(messages, ensure_ascii=False).encode()
    assert messages[0]["content"] == "caf\ufffd"
    assert messages[2]["content"] == "😀"


@pytest.mark.covers("A8-8")
def test_mistral_gets_ids_of_nine_characters() -> None:
    """Other ids are made to fit, and stay different and paired with their result."""
    name = "mistral/mistral-large-latest"
    call, answer, other, _ = sent(
        assistant(ToolCall(id="toolu_01AbC-def", name="look")),
        result("toolu_01AbC-def"),
        assistant(ToolCall(id="abcDEF123", name="look")),
        result("abcDEF123"),
        model_name=name,
    )[1:]
    ids = [message["tool_calls"][0]["id"] for message in (call, other)]
    assert ids[0] == answer["tool_call_id"]
    assert ids[1] == "abcDEF123"
    assert re.fullmatch("[a-zA-Z0-9]{9}", ids[0])


def test_a_tools_schema_is_sent_as_a_copy() -> None:
    """litellm rewrites it in place for Gemini; the next provider gets what the tool says all the same."""
    properties = {"hive": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    spec = ToolSpec(name="weigh", description="Weighs.", parameters={"properties": properties})
    request = ModelRequest(system=SystemPrompt(stable=""), messages=(), tools=(spec,))

    [tool] = completion_arguments(request, model_name="gemini/gemini-2.5-pro")["tools"]
    tool["function"]["parameters"]["properties"]["hive"]["anyOf"].pop()

    assert properties == {"hive": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
