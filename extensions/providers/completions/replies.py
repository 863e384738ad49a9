"""Assembles one `AssistantMessage` from the chunks of a streamed answer, which are objects or mappings.

A stream that the provider did not end was cut, and usage that it did not send is `None`, even if litellm
fills both in.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nacre.runtime.contracts.errors import BadModelReply, ModelUnavailable
from nacre.sessions.contracts.messages import AssistantMessage, Text, Thinking, ToolCall, Usage

_LENGTH_REASONS = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_FILTER_REASONS = frozenset({"content_filter", "content_filtered", "prohibited_content", "blocklist"})
_REFUSAL_REASONS = _FILTER_REASONS | {"refusal", "safety", "recitation"}

_SHOWN_CHARS = 80


@dataclass(kw_only=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    signature: str = ""


class ReplyAssembly:
    """Collects the chunks of one answer. `api` is the value of the message's field in pi's format."""

    def __init__(self, *, model_name: str, api: str) -> None:
        self._model_name = model_name
        self._api = api
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_CallParts] = []
        self._call_at_index: dict[int, _CallParts] = {}
        self._response_id = ""
        self._finish_reason: str | None = None
        self._problem = ""

    @property
    def has_content(self) -> bool:
        """Whether text, thinking or a tool call has arrived."""
        return bool(self._texts or self._thinking or self._calls)

    @property
    def is_cut_off(self) -> bool:
        return bool(self._problem)

    def cut_off(self, repeated: str) -> None:
        """Ends an answer that repeats this text, and keeps it once: weak models copy what they read."""
        text = "".join(self._texts)
        kept_chars = len(text)
        while text.endswith(repeated * 2, 0, kept_chars):
            kept_chars -= len(repeated)
        self._texts = [text[:kept_chars]]
        shown = " ".join(repeated.split())
        shown = f"{shown[:_SHOWN_CHARS]}…" if len(shown) > _SHOWN_CHARS else shown
        self._finish_reason = "length"
        self._problem = (
            f"The model {self._model_name!r} repeated itself without end, so it was stopped: {shown!r}."
        )

    @property
    def has_finish_reason(self) -> bool:
        return bool(self._finish_reason)

    def add(self, chunk: Any) -> str:
        """Adds a chunk; returns its text, which is often empty."""
        self._response_id = self._response_id or str(_field(chunk, "id") or "")
        shown = ""
        for choice in _field(chunk, "choices") or ():
            self._finish_reason = _field(choice, "finish_reason") or self._finish_reason
            delta = _field(choice, "delta")
            text, thinking = _text_and_thinking(_field(delta, "content") or _field(delta, "refusal"))
            if text:
                self._texts.append(text)
                shown += text
            # vLLM, OpenRouter and Groq say `reasoning`, the others what DeepSeek began with
            thought = _field(delta, "reasoning_content") or _field(delta, "reasoning") or thinking
            if isinstance(thought, str) and thought:
                self._thinking.append(thought)
            for fragment in _field(delta, "tool_calls") or ():
                self._add_call_fragment(fragment)
        return shown

    def message(
        self, *, ended: bool, usage: Usage | None, timestamp_ms: int, request_size: int
    ) -> AssistantMessage:
        """The complete answer.

        `ended` says whether the provider ended the stream. The ids of calls without one contain
        `request_size` (messages in the request), so that they differ from turn to turn.

        Raises:
            ModelUnavailable: the stream was cut.
            BadModelReply: the provider's filter withheld the answer.
        """
        if not ended and not self.has_content:
            raise ModelUnavailable(
                f"The response of the model {self._model_name!r} contains no answer. Ask again. If it "
                "happens each time, check that the address in the settings is that of a model's API."
            )
        reason = (self._finish_reason or "").lower()
        if not ended or reason == "error":
            raise ModelUnavailable(
                f"The model {self._model_name!r} stopped in the middle of its answer without ending it. "
                "Ask again; if it happens often, the provider or the line to it is unstable."
            )
        if reason in _REFUSAL_REASONS:
            raise BadModelReply(
                f"The provider's content filter withheld the answer of {self._model_name!r}. "
                "Put the request in other words, or choose another model.",
                detail=f"finish_reason={reason}",
            )
        seed = f"{self._response_id}/{request_size}/{timestamp_ms}"
        calls = _with_unique_ids([_tool_call(parts) for parts in self._calls], seed=seed)
        thinking, text = "".join(self._thinking), "".join(self._texts)
        provider, _, model = self._model_name.partition("/")
        return AssistantMessage(
            content=(
                *((Thinking(thinking=thinking),) if thinking else ()),
                *((Text(text=text),) if text else ()),
                *calls,
            ),
            api=self._api,
            provider=provider if model else self._api,
            model=model or provider,
            usage=usage,
            stop_reason="toolUse" if calls else "length" if reason in _LENGTH_REASONS else "stop",
            timestamp_ms=timestamp_ms,
            error_message=self._problem or None,
        )

    def _add_call_fragment(self, fragment: Any) -> None:
        index = _field(fragment, "index")
        index = index if isinstance(index, int) else 0
        call_id = str(_field(fragment, "id") or "")
        function = _field(fragment, "function")
        name = str(_field(function, "name") or "")
        parts = self._call_at_index.get(index)
        if parts is None or _is_another_call(parts, call_id, name):
            parts = _CallParts()
            self._call_at_index[index] = parts
            self._calls.append(parts)
        parts.id = parts.id or call_id
        parts.name = parts.name or name
        signature = _field(_field(_field(fragment, "extra_content"), "google"), "thought_signature")
        parts.signature = parts.signature or _text_of(signature)
        arguments = _field(function, "arguments")
        if isinstance(arguments, str) and arguments:
            parts.arguments.append(arguments)
        elif isinstance(arguments, Mapping):  # whole objects instead of text
            parts.arguments.append(json.dumps(dict(arguments), ensure_ascii=False))


def prompt_progress(chunk: Any) -> tuple[int, int] | None:
    """The tokens of the prompt that a server has read, and all of them: llama.cpp's `prompt_progress`."""
    progress = _field(chunk, "prompt_progress")
    if progress is None:
        return None
    return _number(progress, "processed"), _number(progress, "total")


def _text_and_thinking(content: Any) -> tuple[str, str]:
    if isinstance(content, str):
        return content, ""
    texts, thoughts = "", ""
    for part in content if isinstance(content, list) else ():
        texts += _text_of(_field(part, "text"))
        thinking = _field(part, "thinking")
        for thought in thinking if isinstance(thinking, list) else ():
            thoughts += _text_of(_field(thought, "text"))
    return texts, thoughts


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def usage_from_provider(raw: Any, *, prices: Mapping[str, Any]) -> Usage | None:
    """`Usage` from OpenAI's format, whose `prompt_tokens` include cached tokens; `None` if all is zero.

    Cached tokens are counted under OpenAI's, Anthropic's or DeepSeek's name. `prices` is the model's entry in
    the price map (US dollars per token); without prices the cost is the provider's, or 0.
    """
    prompt = _number(raw, "prompt_tokens")
    details = _field(raw, "prompt_tokens_details")
    read = (
        _number(details, "cached_tokens")
        or _number(raw, "cache_read_input_tokens")
        or _number(raw, "prompt_cache_hit_tokens")
    )
    written = _number(details, "cache_creation_tokens") or _number(raw, "cache_creation_input_tokens")
    output = _number(raw, "completion_tokens")
    fresh = max(0, prompt - read - written)
    if fresh + read + written + output == 0:
        return None
    told = _field(raw, "cost")
    if "input_cost_per_token" not in prices and isinstance(told, int | float) and 0 < told < math.inf:
        cost_usd = float(told)  # OpenRouter's, for whichever of its providers answered
    else:
        input_price = _price(prices, "input_cost_per_token", 0.0)
        cost_usd = (
            fresh * input_price
            + read * _price(prices, "cache_read_input_token_cost", input_price)
            + written * _price(prices, "cache_creation_input_token_cost", input_price)
            + output * _price(prices, "output_cost_per_token", 0.0)
        )
    return Usage(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=round(cost_usd, 9),
    )


def _is_another_call(parts: _CallParts, call_id: str, name: str) -> bool:
    """Whether a fragment begins another call. Some providers give each call the index 0, or none."""
    if call_id:
        return bool(parts.id) and call_id != parts.id
    return bool(name) and _json_object("".join(parts.arguments)) is not None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _tool_call(parts: _CallParts) -> ToolCall:
    text = "".join(parts.arguments)
    name = parts.name or "unknown"
    arguments = _json_object(text) if text.strip() else {}
    call = ToolCall(id=parts.id, name=name, arguments=arguments or {}, thought_signature=parts.signature)
    return call if arguments is not None else replace(call, invalid_arguments=text)


def _with_unique_ids(calls: list[ToolCall], *, seed: str) -> list[ToolCall]:
    taken: set[str] = set()
    unique: list[ToolCall] = []
    for number, call in enumerate(calls):
        call_id = call.id
        if not call_id or call_id in taken:
            call_id = "call_" + hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()[:16]
        taken.add(call_id)
        unique.append(replace(call, id=call_id))
    return unique


def _field(raw: Any, name: str) -> Any:
    # called about ten times per token, and the type check is the fastest
    if type(raw) is dict or isinstance(raw, Mapping):
        return raw.get(name)
    return getattr(raw, name, None)


def _number(raw: Any, name: str) -> int:
    value = _field(raw, name)
    return max(0, int(value)) if isinstance(value, int | float) and value == value else 0


def _price(prices: Mapping[str, Any], name: str, default: float) -> float:
    value = prices.get(name)
    return float(value) if isinstance(value, int | float) else default


_LOOKED_BACK_CHARS = 2_400
_LOOK_EVERY_CHARS = 200
_NEEDLE_CHARS = 24
LEAST_REPEATED_CHARS = 600
LEAST_TIMES = 6
_LEAST_OF_FEW_SIGNS = 2_000
"""For passages of few different characters: rulers and rows of zeros are long on purpose."""


class RepetitionWatch:
    """Reads an answer as it comes."""

    def __init__(self) -> None:
        self._tail = ""
        self._unlooked_chars = 0

    def repeated(self, text: str) -> str:
        """The passage that the answer repeats at its end, with this text; empty if it does not.

        A passage has up to 400 characters and occurs at least six times in a row, exactly, in at least 600
        characters.
        """
        self._tail = (self._tail + text)[-_LOOKED_BACK_CHARS:]
        self._unlooked_chars += len(text)
        if self._unlooked_chars < _LOOK_EVERY_CHARS or len(self._tail) < LEAST_REPEATED_CHARS:
            return ""
        self._unlooked_chars = 0
        return _repeated_end(self._tail)


def _repeated_end(text: str) -> str:
    needle = text[-_NEEDLE_CHARS:]
    before = text.rfind(needle, 0, len(text) - 1)
    period = len(text) - _NEEDLE_CHARS - before
    if before < 0 or period * LEAST_TIMES > len(text):
        return ""
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    repeated_chars = len(text) - start
    least = LEAST_REPEATED_CHARS if len(set(text[-period:])) > 3 else _LEAST_OF_FEW_SIGNS
    is_loop = repeated_chars >= max(least, LEAST_TIMES * period)
    return text[-period:] if is_loop else ""
