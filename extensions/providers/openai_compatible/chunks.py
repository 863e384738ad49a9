"""What stands in an event, or in a body that is no stream of events. Pure: bytes in, chunks out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nacre.extensions.providers.completions.errors import ProviderAnswered

_DONE = b"[DONE]"


def chunk_of(data: bytes) -> Mapping[str, Any] | None:
    """The chunk that an event holds; `None` for the one behind the last.

    Raises:
        ProviderAnswered: it holds an error, which came after the answer had begun.
        ValueError: it holds something else.
    """
    if data.strip() == _DONE:
        return None
    chunk = json.loads(data)
    if not isinstance(chunk, dict):
        raise ValueError(f"an event that is no object: {data[:200]!r}")
    if chunk.get("error"):
        raise _failure(chunk["error"])
    return chunk


def whole_answer(body: bytes) -> Mapping[str, Any] | None:
    """A completion that came whole, from a server that does not stream, as one chunk; `None` for no such.

    Raises:
        ProviderAnswered: the body is an error, though the status said success.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    if answer.get("error"):
        raise _failure(answer["error"])
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        return None
    return {**answer, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]}


def counted_usage(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The usage that a chunk reports; Groq has it in a field of its own."""
    own = chunk.get("x_groq")
    usage = chunk.get("usage") or (own.get("usage") if isinstance(own, dict) else None)
    return usage if isinstance(usage, dict) else None


def is_page(body: bytes) -> bool:
    """Whether a body is a page for people: a web server answered, and not a model's API."""
    return body.lstrip()[:1] == b"<"


def _failure(error: Any) -> ProviderAnswered:
    fields = error if isinstance(error, dict) else {}
    said = [fields.get(name) for name in ("status_code", "status", "code")]
    status = next((value for value in said if isinstance(value, int) and not isinstance(value, bool)), None)
    if status is None and any("rate_limit" in str(fields.get(name)) for name in ("code", "type")):
        status = 429
    return ProviderAnswered(
        status, {}, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    )
