"""Requests for embeddings, and the vectors of their responses.

Two protocols: Gemini's own, and OpenAI's `/embeddings`, which Mistral, Voyage, Ollama and most local servers
speak with small differences.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.instructions import instructions_for
from nacre.memory.contracts.embedder import EmbeddingFailed, TextRefused
from nacre.memory.vectors.pieces import estimated_tokens

_NEARLY_ONE = 1e-5

Purpose = Literal["query", "document"]


def request_for(
    endpoint: EmbeddingEndpoint, texts: Sequence[str], purpose: Purpose
) -> tuple[str, dict[str, Any]]:
    """The address and the JSON body of the POST that asks for the vectors of `texts`."""
    return (_gemini if endpoint.provider == "gemini" else _openai)(endpoint, texts, purpose)


def vectors_of(answer: Any, count: int, endpoint: EmbeddingEndpoint) -> Sequence[Sequence[float]]:
    """The vectors of a response in the order of the texts, each of length 1.

    Raises:
        TextRefused: some of the texts have no usable vector.
        EmbeddingFailed: their number or numbering differs from the texts, or none is usable.
    """
    items = _items(answer)
    if len(items) != count:
        raise EmbeddingFailed(
            f"The model {endpoint.name!r} gave {len(items)} vectors for {count} texts; none is used."
        )
    vectors = [_numbers(item) for item in _in_order(items, endpoint.name)]
    unit = [_unit(vector, endpoint.dimensions) for vector in vectors]
    bad = [at for at, vector in enumerate(unit) if vector is None]
    if bad:
        problem = _problem(vectors[bad[0]])
        # One unusable vector among others is due to its text; if none is usable, the model is the cause.
        kind = TextRefused if len(bad) < count or count == 1 else EmbeddingFailed
        raise kind(f"The model {endpoint.name!r} gave a vector that is {problem}; it is not used.")
    whole = [vector for vector in unit if vector is not None]
    if odd := next((len(vector) for vector in whole if len(vector) != len(whole[0])), None):
        raise EmbeddingFailed(
            f"The model {endpoint.name!r} gave a vector that is {odd} numbers long where others have "
            f"{len(whole[0])}; none is used."
        )
    return whole


def tokens_of(answer: Mapping[str, Any], texts: Sequence[str]) -> int:
    """The tokens that a response reports, or an estimate from the texts."""
    usage = answer.get("usage")
    told = [usage.get(name) for name in ("total_tokens", "prompt_tokens")] if isinstance(usage, dict) else []
    counted = (value for value in told if isinstance(value, int) and value > 0)
    return next(counted, 0) or sum(map(estimated_tokens, texts))


def _openai(
    endpoint: EmbeddingEndpoint, texts: Sequence[str], purpose: Purpose
) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {"model": endpoint.model}
    if endpoint.provider == "voyage":
        body["input_type"] = purpose
        body["input"] = list(texts)
    else:
        words = instructions_for(endpoint.model)
        before = words.query if purpose == "query" else words.document
        body["input"] = [f"{before}{text}" for text in texts]
    if endpoint.dimensions is not None:
        name = "output_dimension" if endpoint.provider in ("voyage", "mistral") else "dimensions"
        body[name] = endpoint.dimensions
    if endpoint.compact:
        body["encoding_format"] = "base64"
    return f"{endpoint.base_url}/embeddings", body


def _gemini(
    endpoint: EmbeddingEndpoint, texts: Sequence[str], purpose: Purpose
) -> tuple[str, dict[str, Any]]:
    model = f"models/{endpoint.model}"
    extra = {} if endpoint.dimensions is None else {"outputDimensionality": endpoint.dimensions}
    requests = [
        {
            "model": model,
            "content": {"parts": [{"text": text}]},
            "taskType": f"RETRIEVAL_{purpose.upper()}",
            **extra,
        }
        for text in texts
    ]
    if purpose == "query":
        return f"{endpoint.base_url}/{model}:embedContent", requests[0]
    return f"{endpoint.base_url}/{model}:batchEmbedContents", {"requests": requests}


def _items(answer: Any) -> list[Any]:
    if not isinstance(answer, Mapping):
        return []
    if isinstance(answer.get("embedding"), Mapping):
        return [answer["embedding"]]
    items = answer.get("data", answer.get("embeddings"))
    return list(items) if isinstance(items, list) else []


def _in_order(items: list[Any], name: str) -> list[Any]:
    numbers = [item.get("index") if isinstance(item, Mapping) else None for item in items]
    if all(number is None for number in numbers):
        return items
    if sorted(number for number in numbers if isinstance(number, int)) != list(range(len(items))):
        raise EmbeddingFailed(
            f"The model {name!r} numbered {len(items)} vectors {numbers[:10]}, which does not say which text "
            "is whose; none is used."
        )
    return [items[numbers.index(at)] for at in range(len(items))]


def _numbers(item: Any) -> Any:
    value = item.get("embedding", item.get("values")) if isinstance(item, Mapping) else None
    if not isinstance(value, str):
        return value
    try:
        floats = array("f", base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return None
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def _unit(vector: Any, dimensions: int | None) -> list[float] | None:
    """The vector cut to `dimensions` and scaled to length 1; `None` if it has no direction."""
    if not isinstance(vector, list | array):
        return None
    try:
        # checks every number, in a tenth of the time that a loop takes
        numbers = array("d", vector)[:dimensions]
    except (TypeError, OverflowError):
        return None
    length = math.hypot(*numbers)
    if length == 0 or not math.isfinite(length):
        return None
    if abs(length - 1) < _NEARLY_ONE:
        return numbers.tolist()
    return [value / length for value in numbers]


def _problem(vector: Any) -> str:
    if not isinstance(vector, list | array) or not vector:
        return "empty or no list of numbers"
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in vector):
        return "not made of finite numbers"
    return "all zero"
