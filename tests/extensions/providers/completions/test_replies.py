"""How the pieces of an answer are put together, where providers differ."""

from __future__ import annotations

import time
from types import SimpleNamespace as Fields

from nacre.extensions.providers.completions.replies import ReplyAssembly, usage_from_provider
from nacre.sessions.contracts.messages import ToolCall, Usage, message_text


def chunk(*fragments: tuple[int | None, str, str, object], finish_reason: str | None = None) -> Fields:
    """A chunk with tool-call fragments `(index, id, name, arguments)`."""
    calls = [
        Fields(index=index, id=call_id, function=Fields(name=name, arguments=arguments))
        for index, call_id, name, arguments in fragments
    ]
    delta = Fields(content=None, tool_calls=calls)
    return Fields(id="r1", choices=[Fields(delta=delta, finish_reason=finish_reason)])


def calls_of(*chunks: Fields, request_size: int = 1) -> tuple[ToolCall, ...]:
    """The tool calls that these chunks hold."""
    assembly = ReplyAssembly(model_name="a/b", api="litellm")
    for piece in chunks:
        assembly.add(piece)
    message = assembly.message(ended=True, usage=None, timestamp_ms=1, request_size=request_size)
    assert message.stop_reason == "toolUse"
    return message.tool_calls


def test_calls_that_share_an_index_are_told_apart() -> None:
    """Providers that number every call 0 are understood, by id or by a second name."""
    by_id = calls_of(chunk((0, "x", "read", '{"a": 1}')), chunk((0, "y", "read", '{"a": 2}')))
    by_name = calls_of(chunk((0, "", "read", '{"a": 1}')), chunk((0, "", "read", '{"a": 2}')))
    for calls in (by_id, by_name):
        assert [dict(call.arguments) for call in calls] == [{"a": 1}, {"a": 2}]


def test_a_name_and_id_in_every_fragment_is_one_call() -> None:
    """Providers that repeat the name and the id with each fragment still make one call."""
    repeated = calls_of(chunk((0, "x", "read", '{"a"')), chunk((0, "x", "read", ": 1}")))
    nameless = calls_of(chunk((None, "", "read", '{"a"')), chunk((None, "", "read", ": 1}")))
    assert [dict(call.arguments) for call in (*repeated, *nameless)] == [{"a": 1}, {"a": 1}]


def test_arguments_may_come_as_objects_or_not_at_all() -> None:
    """A parsed object is taken as it is, and no arguments are an empty object."""
    calls = calls_of(chunk((0, "x", "read", {"a": 1})), chunk((1, "y", "list", None)))
    assert [dict(call.arguments) for call in calls] == [{"a": 1}, {}]
    assert all(call.invalid_arguments is None for call in calls)


def test_ids_are_made_unique() -> None:
    """A repeated id is replaced, and made-up ids differ from one request to the next."""
    twice = calls_of(chunk((0, "x", "read", "{}"), (1, "x", "read", "{}")))
    assert twice[0].id == "x"
    assert twice[1].id not in ("", "x")
    first = calls_of(chunk((0, "", "read", "{}")), request_size=1)
    later = calls_of(chunk((0, "", "read", "{}")), request_size=3)
    assert first[0].id != later[0].id


def test_a_refusal_is_the_answer() -> None:
    """OpenAI sends it in a field of its own, without content."""
    assembly = ReplyAssembly(model_name="a/b", api="litellm")
    shown = [assembly.add({"choices": [{"delta": {"refusal": each}}]}) for each in ("I cannot ", "do that.")]
    message = assembly.message(ended=True, usage=None, timestamp_ms=1, request_size=1)
    assert message_text(message) == "".join(shown) == "I cannot do that."


def test_a_long_answer_that_repeats_itself_is_cut_at_once() -> None:
    """Three megabytes of one sign, as a server that does not stream sends them, hold nothing up."""
    assembly = ReplyAssembly(model_name="a/b", api="litellm")
    assembly.add({"choices": [{"delta": {"content": "Well: " + "z" * 3_000_000}}]})
    before = time.process_time()
    assembly.cut_off("z")
    assert time.process_time() - before < 20
    assert message_text(assembly.message(ended=True, usage=None, timestamp_ms=1, request_size=1)) == "Well: z"


def test_a_nameless_call_has_a_name() -> None:
    """A call without a name becomes `unknown`, which no tool answers to."""
    assert calls_of(chunk((0, "x", "", "{}")))[0].name == "unknown"


def test_cached_tokens_are_taken_out_of_the_input() -> None:
    """OpenAI's and Anthropic's ways of counting give the same numbers."""
    openai = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}
    anthropic = Fields(
        prompt_tokens=100, completion_tokens=5, cache_read_input_tokens=60, cache_creation_input_tokens=30
    )
    assert usage_from_provider(openai, prices={}) == Usage(
        input_tokens=40, output_tokens=5, cache_read_tokens=60
    )
    assert usage_from_provider(anthropic, prices={}) == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=60, cache_write_tokens=30
    )
    assert usage_from_provider({"prompt_tokens": 0, "completion_tokens": None}, prices={}) is None
    assert usage_from_provider({"prompt_tokens": float("nan"), "completion_tokens": 2}, prices={}) == Usage(
        output_tokens=2
    )


def test_googles_signature_stays_with_its_call() -> None:
    """Google's models want it back; the number of the call, which Google leaves out, is not needed."""
    signed = {"id": "x", "function": {"name": "read", "arguments": "{}"}}
    signed["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    plain = {"id": "y", "function": {"name": "read", "arguments": "{}"}}
    calls = calls_of(
        Fields(id="r1", choices=[Fields(delta={"tool_calls": [signed, plain]}, finish_reason=None)])
    )

    assert [call.thought_signature for call in calls] == ["c2ln", ""]
    assert [ToolCall.to_json(call).get("thoughtSignature") for call in calls] == ["c2ln", None]
