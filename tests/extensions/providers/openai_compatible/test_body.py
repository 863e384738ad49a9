"""The bytes of a request: the same as if it were written at once, each message written once."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from nacre.extensions.providers.completions.messages import completion_arguments, provider_family
from nacre.extensions.providers.openai_compatible.model import Dialect, OpenAICompatibleModel, RequestBodies
from nacre.runtime.contracts.model import (
    ModelRequest,
    OutputSchema,
    SystemPrompt,
    ToolSpec,
    takes_output_schema,
)
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_message,
)

PNG = Image(data="aGk=", mime_type="image/png")
REFUSED = frozenset({"$schema", "strict", "additionalProperties"})
SYSTEM = SystemPrompt(stable="Be kind. \udce9", changing="Today is Saturday.")
TOOL = ToolSpec(
    name="look",
    description="Looks.",
    parameters={
        "$schema": "x",
        "type": "object",
        "properties": {"strict": {"type": "object", "additionalProperties": False}},
        "additionalProperties": False,
    },
)


def dialect(model_name: str, **options: Any) -> Dialect:
    """The plain dialect of a model, marks apart."""
    return Dialect(model=model_name, family=provider_family(model_name), **options)


def request(*messages: Message, tail: str = "", **options: Any) -> ModelRequest:
    """A request with these messages."""
    return ModelRequest(system=replace(SYSTEM, tail=tail), messages=messages, **options)


def says(text: str) -> Message:
    """A word of the user."""
    return user_message(text, timestamp_ms=1)


def answers(*content: Text | ToolCall) -> Message:
    """An answer."""
    return AssistantMessage(
        content=content, api="", provider="", model="", usage=None, stop_reason="stop", timestamp_ms=1
    )


def result(call_id: str, *content: Text | Image) -> Message:
    """What a tool gave back."""
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="look", content=content, is_error=False, timestamp_ms=1
    )


CALL = ToolCall(id="c1", name="look", arguments={"where": "hier: ö"})
MESSAGES = st.sampled_from(
    [
        says("one"),
        says("caf\udce9 \u2028"),
        UserMessage(content=(PNG, Text(text="see")), timestamp_ms=1),
        answers(Text(text="well")),
        answers(Text(text="I look"), CALL),
        answers(CALL, CALL),
        answers(),
        result("c1", Text(text="a hive")),
        result("c1", PNG),
    ]
)


def plainly(asked: ModelRequest, model_name: str) -> bytes:
    """The same request written at once."""
    arguments = completion_arguments(asked, model_name=model_name)
    for message in arguments["messages"]:
        if message["content"] is None:
            del message["content"]
    whole = {"model": model_name, "messages": arguments["messages"]}
    if "tools" in arguments:
        whole["tools"] = arguments["tools"]
    if "max_tokens" in arguments:
        whole["max_tokens"] = arguments["max_tokens"]
    whole |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "name", ["openai/gpt-4o", "gemini/gemini-2.5", "mistral/m", "x/y", "openrouter/anthropic/claude-4"]
)
@settings(max_examples=20)
@given(history=st.lists(MESSAGES, max_size=12), data=st.data())
def test_the_bytes_are_those_of_a_request_written_at_once(
    name: str, history: list[Message], data: st.DataObject
) -> None:
    """Whatever was sent before, and in whichever order: what is kept is put in only where it fits."""
    bodies = RequestBodies(dialect(name, takes_cache_marks="claude" in name))
    for _ in range(3):
        asked = request(
            *data.draw(st.permutations(history)),
            tail=data.draw(st.sampled_from(["", "It rains. \udce9"])),
            tools=(TOOL,) if data.draw(st.booleans()) else (),
            max_output_tokens=data.draw(st.sampled_from([None, 77])),
        )
        assert bodies.body(asked) == plainly(asked, name)


@pytest.mark.parametrize("name", ["openai/gpt-4o", "ollama/llama3", "openrouter/anthropic/claude-4"])
def test_a_message_is_written_once_in_its_life(name: str) -> None:
    """In the requests that follow it is the very same object, also where it goes out with its neighbours."""
    bodies = RequestBodies(dialect(name, takes_cache_marks="claude" in name))
    talk = [says("one"), says("more"), answers(Text(text="I look"), CALL), result("c1", Text(text="a hive"))]
    bodies.messages(request(*talk, says("first")))
    before = bodies.messages(request(*talk, answers(Text(text="done")), says("second")))
    after = bodies.messages(request(*talk, answers(Text(text="done")), says("second"), says("third")))
    kept = len(before) - 2  # the system prompt, and all but the answer and the words that are new each time
    assert [id(text) for text in after[:kept]] == [id(text) for text in before[:kept]]
    assert kept >= 4


def test_what_is_kept_goes_with_its_message() -> None:
    """A conversation that nobody holds any more leaves nothing behind."""
    bodies = RequestBodies(dialect("openai/gpt-4o"))
    bodies.body(request(says("one"), answers(Text(text="two")), says("three")))
    gc.collect()
    assert bodies.kept_bytes == 0


def test_what_is_kept_is_bounded() -> None:
    """Beyond the bound a message is written each time, and rightly."""
    bodies = RequestBodies(dialect("openai/gpt-4o"), max_kept_bytes=60)
    asked = request(says("one"), says("two"), says("three" * 20))
    assert bodies.body(asked) == bodies.body(asked) == plainly(asked, "openai/gpt-4o")
    assert 0 < bodies.kept_bytes <= 60


def test_a_schema_for_the_answer_is_a_response_format() -> None:
    """Only a request with an output has one."""
    bodies = RequestBodies(dialect("openai/gpt-5-mini"))
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}}
    sent = json.loads(bodies.body(request(says("hi"), output=OutputSchema(name="n", schema=schema))))
    assert sent["response_format"] == {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    assert "response_format" not in json.loads(bodies.body(request(says("hi"))))


@pytest.mark.parametrize(
    ("model_name", "base_url", "takes"),
    [
        ("openai/gpt-4.1-mini", None, True),
        ("openai/gpt-4", None, False),
        ("openai/gpt-4.1-mini", "http://127.0.0.1:9/v1", False),
        ("groq/llama-3.3-70b-versatile", None, False),
    ],
)
def test_who_takes_a_schema(model_name: str, base_url: str | None, takes: bool) -> None:
    """OpenAI's own models of which the price map says so; whoever may refuse it gets a tool."""
    model = OpenAICompatibleModel(model_name, base_url=base_url, now_ms=lambda: 0)
    assert takes_output_schema(model) is takes


def test_a_dialect_leaves_out_what_its_provider_refuses() -> None:
    """Null, strict mode's words in schemas (not a property of that name), and images for who cannot see."""
    bodies = RequestBodies(
        dialect(
            "deepseek/x",
            takes_images=False,
            counts_unasked=True,
            refused_schema_keys=REFUSED,
            options=(("a", 1),),
        )
    )
    seen = UserMessage(content=(Text(text="see"), PNG), timestamp_ms=1)
    sent = json.loads(bodies.body(request(seen, answers(CALL), result("c1", PNG), tools=(TOOL,))))
    assert [message["content"] for message in sent["messages"] if "content" in message][1:] == [
        "see",
        "(an image; it follows)",
        "The image(s) that the tool look returned:",
    ]
    assert "content" not in sent["messages"][2]
    parameters = sent["tools"][0]["function"]["parameters"]
    assert parameters == {"type": "object", "properties": {"strict": {"type": "object"}}}
    assert sent["a"] == 1
    assert "stream_options" not in sent


def test_google_gets_its_signatures_back() -> None:
    """The first call of an answer has one, if need be a stand-in; other providers get none."""
    asked = request(
        says("Look twice."),
        answers(ToolCall(id="a", name="look", thought_signature="c2ln"), ToolCall(id="b", name="look")),
        says("And again."),
        answers(ToolCall(id="c", name="look"), ToolCall(id="d", name="look")),
    )

    def signatures(name: str, **options: Any) -> list[str]:
        body = json.loads(RequestBodies(dialect(name, **options)).body(asked))
        calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
        return [
            call.get("extra_content", {}).get("google", {}).get("thought_signature", "") for call in calls
        ]

    stand_in = "skip_thought_signature_validator"
    assert signatures("gemini/x", signs_calls=True) == ["c2ln", "", stand_in, ""]
    assert signatures("mistral/x") == ["", "", "", ""]
