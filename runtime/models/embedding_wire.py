"""Embeddings on the wire: what litellm is to send, and whether what comes back can be used. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from nacre.memory.embedder import EmbeddingFailed

REQUEST_TOKENS = 8_000

Purpose = Literal["query", "document"]

_SECRET_HEADER = ("authorization", "cookie", "key", "token", "secret", "password", "credential")
_MEDIA = ("files/", "gs://", "data:", "https://generativelanguage.")
"""Beginnings that litellm takes for media to fetch when it talks to Gemini; a note is always text."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingEndpoint:
    """Where a model is asked and how. `key_variables` are looked at when there is no `api_key`.

    `needs_key` is false for servers that answer without one.
    """

    provider: str
    model: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_input_tokens: int = 8_192


def request_arguments(endpoint: EmbeddingEndpoint, texts: Sequence[str], purpose: Purpose) -> dict[str, Any]:
    """What litellm is to send. All providers but Gemini speak OpenAI's protocol, with their own extras."""
    arguments: dict[str, Any] = {"model": f"openai/{endpoint.model}", "input": list(texts)}
    if endpoint.provider == "gemini":
        arguments["model"] = f"gemini/{endpoint.model}"
        arguments["input"] = [f" {text}" if text.startswith(_MEDIA) else text for text in texts]
        arguments["task_type"] = f"RETRIEVAL_{purpose.upper()}"
    elif endpoint.provider == "voyage":
        arguments["extra_body"] = {"input_type": purpose}
    if endpoint.headers:
        arguments["extra_headers"] = dict(endpoint.headers)
    return {**arguments, "api_base": endpoint.base_url}


def packed(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in order, in requests of at most `REQUEST_TOKENS`; one that is longer goes alone."""
    part: list[str] = []
    held_tokens = 0
    for text in texts:
        tokens = estimated_tokens(text)
        if part and held_tokens + tokens > REQUEST_TOKENS:
            yield part
            part, held_tokens = [], 0
        part.append(text)
        held_tokens += tokens
    if part:
        yield part


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: four plain characters each, every other character one."""
    plain = len(text) if text.isascii() else sum(char.isascii() for char in text)
    return -(-plain // 4) + len(text) - plain


def vectors_of(response: Any, count: int, name: str) -> Sequence[Sequence[float]]:
    """The vectors of an answer in the order of the texts.

    Raises:
        EmbeddingFailed: they are not as many as the texts, not numbered like them, or not usable.
    """
    items = list(getattr(response, "data", None) or ())
    if len(items) != count:
        raise EmbeddingFailed(
            f"The model {name!r} gave {len(items)} vectors for {count} texts; none is used."
        )
    numbers = [_field(item, "index") for item in items]
    if any(number is not None for number in numbers):
        if sorted(number for number in numbers if isinstance(number, int)) != list(range(count)):
            raise EmbeddingFailed(
                f"The model {name!r} numbered {count} vectors {numbers[:10]}, which does not say which text "
                "is whose; none is used."
            )
        items.sort(key=lambda item: int(_field(item, "index")))
    vectors = [_field(item, "embedding") for item in items]
    for vector in vectors:
        if problem := _vector_problem(vector, len(vectors[0])):
            raise EmbeddingFailed(f"The model {name!r} gave a vector that is {problem}; none is used.")
    return vectors


def fingerprint_of(endpoint: EmbeddingEndpoint) -> str:
    """A hash of what changes the vectors: address, model, and the headers that are no secret."""
    headers = sorted(
        [name.lower(), value] for name, value in endpoint.headers.items() if not is_secret_header(name)
    )
    facts = json.dumps([without_credentials(endpoint.base_url), endpoint.model, headers])
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def is_secret_header(name: str) -> bool:
    """Whether a header of this name is likely to hold a key."""
    return any(part in name.lower() for part in _SECRET_HEADER)


def without_credentials(url: str) -> str:
    """An address without user name, password, query and slash at its end."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _vector_problem(vector: Any, dimensions: int) -> str:
    if not isinstance(vector, Sequence) or isinstance(vector, str) or not vector:
        return "empty or no list of numbers"
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in vector):
        return "not made of finite numbers"
    if not any(vector):
        return "all zero"
    return "" if len(vector) == dimensions else f"{len(vector)} numbers long where others have {dimensions}"
