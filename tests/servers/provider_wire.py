"""What an OpenAI-protocol provider writes: bodies of answers, stream chunks, errors and embeddings.

Pure: a `Step` and a parsed request go in, JSON values come out. `provider_server.py` puts them on the wire.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

EMBEDDING_DIMENSIONS = 64
CREATED_SECONDS = 1_790_000_000

Ending = Literal["done", "cut", "drop", "stall"]
"""How a stream ends: whole; without finish reason and `[DONE]`; connection reset; silent for ever."""

Held = Literal["", "head", "words"]
"""What an answer is held back before, until `ProviderServer.go_on`: its head, or what follows it; nothing."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One scripted answer. `status` other than 200 makes it an error with `body` and `headers`.

    `tool_calls` are `(name, arguments)`; arguments that are text go out as they stand, so that a
    test can send JSON that is none. `usage` "counted" derives numbers from the request's size.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    reasoning: str = ""
    usage: Mapping[str, Any] | Literal["counted"] | None = "counted"
    finish_reason: str | None = None
    ending: Ending = "done"
    call_ids: bool = True
    held: Held = ""
    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def reply(text: str, **options: Any) -> Step:
    """A text answer; `options` are fields of `Step`."""
    return Step(text=text, **options)


def tool_calls(*calls: tuple[str, Mapping[str, Any] | str], **options: Any) -> Step:
    """Tool calls, all in one answer, after an optional `text=`."""
    return Step(tool_calls=calls, **options)


def stall(text: str = "") -> Step:
    """Streams `text` and then nothing more, with the connection open, until the client goes."""
    return Step(text=text, ending="stall")


def drop(text: str = "") -> Step:
    """Streams `text` and then resets the connection."""
    return Step(text=text, ending="drop")


def error(
    status: int, message: str = "", *, code: str | None = None, retry_after: float | str | None = None
) -> Step:
    """An HTTP error in OpenAI's form; `retry_after` becomes the `Retry-After` header as it stands."""
    kind = {401: "invalid_request_error", 429: "requests"}.get(
        status, "server_error" if status >= 500 else ""
    )
    default = {401: "Incorrect API key provided", 429: "Rate limit reached", 500: "The server had an error"}
    details = {
        "message": message or default.get(status, f"HTTP {status}"),
        "type": kind or "invalid_request_error",
        "param": None,
        "code": code,
    }
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Step(status=status, body=json.dumps({"error": details}), headers=headers)


def overflow(window_tokens: int = 8192, asked_tokens: int = 9000) -> Step:
    """The 400 that OpenAI sends when the request is larger than the window."""
    return error(
        400,
        f"This model's maximum context length is {window_tokens} tokens. However, your messages resulted in "
        f"{asked_tokens} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
    )


def usage(input_tokens: int, output_tokens: int, *, cached_tokens: int = 0) -> dict[str, Any]:
    """OpenAI's usage object; its `prompt_tokens` include the cached ones, so they are added here."""
    prompt = input_tokens + cached_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output_tokens,
        "total_tokens": prompt + output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def chunks(step: Step, request: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer, in order; tool calls come in fragments, interleaved by index."""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**_head(request, number, "chat.completion.chunk"), "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if step.reasoning:
        yield chunk({"reasoning_content": step.reasoning})
    for piece in re.findall(r"\s*\S+\s*|\s+", step.text):
        yield chunk({"content": piece})
    for fragment in _call_fragments(step, number):
        yield chunk({"tool_calls": [fragment]})
    if step.ending != "done":
        return
    yield chunk({}, _finish_reason(step))
    counted = _usage(step, request)
    if counted is not None and (request.get("stream_options") or {}).get("include_usage"):
        yield {**_head(request, number, "chat.completion.chunk"), "choices": [], "usage": counted}


def whole(step: Step, request: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same answer as one JSON object, for requests that do not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.tool_calls:
        message["tool_calls"] = [
            {
                "id": _call_id(step, number, index),
                "type": "function",
                "function": {"name": name, "arguments": _arguments_text(arguments)},
            }
            for index, (name, arguments) in enumerate(step.tool_calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(step)}
    return {
        **_head(request, number, "chat.completion"),
        "choices": [choice],
        "usage": _usage(step, request) or {},
    }


def embeddings(request: Mapping[str, Any]) -> dict[str, Any]:
    """Vectors of hashed words: the same text gives the same unit vector, shared words bring texts near."""
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    binary = request.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        vector = embedding(str(text))
        encoded = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
        data.append({"object": "embedding", "index": index, "embedding": encoded if binary else vector})
    tokens = sum(len(str(text)) // 4 + 1 for text in texts)
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.get("model", ""), "usage": counted}


def embedding(text: str) -> list[float]:
    """One unit vector of `EMBEDDING_DIMENSIONS` numbers."""
    vector = [0.0] * EMBEDDING_DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or [""]:
        digest = hashlib.sha256(word.encode("utf-8")).digest()
        vector[digest[0] % EMBEDDING_DIMENSIONS] += 1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def _head(request: Mapping[str, Any], number: int, kind: str) -> dict[str, Any]:
    model = request.get("model", "")
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED_SECONDS, "model": model}


def _finish_reason(step: Step) -> str:
    return step.finish_reason or ("tool_calls" if step.tool_calls else "stop")


def _usage(step: Step, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if step.usage != "counted":
        return step.usage
    asked = json.dumps([request.get("messages"), request.get("tools")], ensure_ascii=False)
    answered = step.text + "".join(_arguments_text(arguments) for _, arguments in step.tool_calls)
    return usage(len(asked) // 4 + 1, len(answered) // 4 + 1)


def _call_id(step: Step, number: int, index: int) -> str:
    return f"call_{number}_{index}" if step.call_ids else ""


def _arguments_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _call_fragments(step: Step, number: int) -> Iterator[dict[str, Any]]:
    for index, (name, _) in enumerate(step.tool_calls):
        function = {"name": name, "arguments": ""}
        yield {"index": index, "id": _call_id(step, number, index), "type": "function", "function": function}
    pieces = [_thirds(_arguments_text(arguments)) for _, arguments in step.tool_calls]
    for part in range(3):
        for index, texts in enumerate(pieces):
            if texts[part]:
                yield {"index": index, "function": {"arguments": texts[part]}}


def _thirds(text: str) -> Sequence[str]:
    third = len(text) // 3
    return text[:third], text[third : 2 * third], text[2 * third :]
