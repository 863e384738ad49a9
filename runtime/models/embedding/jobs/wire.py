"""Batch jobs on the wire: what is handed in, where a job is, and what it made. Pure.

OpenAI's and Voyage's jobs differ in where the parameters stand; Gemini's are its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.contracts.embedding_jobs import JobState
from nacre.runtime.models.embedding.http.endpoint import EmbeddingEndpoint
from nacre.runtime.models.embedding.http.wire import request_for, vectors_of

_GEMINI_ENDED = ("SUCCEEDED", "COMPLETED", "DONE")
_GEMINI_FAILED = ("FAILED", "CANCELLED", "CANCELED", "EXPIRED")


def input_lines(endpoint: EmbeddingEndpoint, texts: Mapping[str, str]) -> bytes:
    """The file that is handed in: one JSON line for each text, with its id."""
    lines = (_line(endpoint, text_id, text) for text_id, text in texts.items())
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def creation(endpoint: EmbeddingEndpoint, file_id: str) -> dict[str, Any]:
    """What makes a job out of a file that was handed in."""
    if endpoint.provider == "gemini":
        batch = {"displayName": "nacre-memory", "inputConfig": {"fileName": file_id}}
        return {"batch": {"model": f"models/{endpoint.model}", **batch}}
    job: dict[str, Any] = {
        "input_file_id": file_id,
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
        "metadata": {"source": "nacre-memory"},
    }
    if endpoint.provider == "voyage":
        job["completion_window"] = "12h"
        _, parameters = request_for(endpoint, [], "document")
        job["request_params"] = {name: value for name, value in parameters.items() if name != "input"}
    return job


def state_of(endpoint: EmbeddingEndpoint, answer: Mapping[str, Any]) -> JobState:
    """Where a job is, from the provider's answer."""
    return (_gemini_state if endpoint.provider == "gemini" else _openai_state)(answer)


def output_file(endpoint: EmbeddingEndpoint, answer: Mapping[str, Any]) -> str | None:
    return _gemini_file(answer) if endpoint.provider == "gemini" else _text(answer.get("output_file_id"))


def _gemini_file(answer: Mapping[str, Any]) -> str | None:
    metadata, response = _group(answer, "metadata"), _group(answer, "response")
    places = (
        response.get("responsesFile"),
        _group(metadata, "output").get("responsesFile"),
        _group(answer, "outputConfig").get("file"),
        _group(answer, "outputConfig").get("fileId"),
    )
    return next((name for place in places if (name := _text(place))), None)


def vectors_in(endpoint: EmbeddingEndpoint, content: bytes) -> Iterator[tuple[str, list[float] | None]]:
    """The vector of each line of results by id; `None` where the provider or the vector has a fault."""
    for line in content.splitlines():
        try:
            value = json.loads(line)
            names = (value.get(name) for name in ("custom_id", "key", "request_id"))
            text_id = next(name for name in names if isinstance(name, str))
        except (ValueError, AttributeError, StopIteration):
            continue
        yield text_id, _vector(endpoint, value)


def _line(endpoint: EmbeddingEndpoint, text_id: str, text: str) -> dict[str, Any]:
    _, body = request_for(endpoint, [text], "document")
    if endpoint.provider == "gemini":
        return {"key": text_id, "request": body["requests"][0]}
    if endpoint.provider == "voyage":
        return {"custom_id": text_id, "body": {"input": [text]}}
    return {"custom_id": text_id, "method": "POST", "url": "/v1/embeddings", "body": body}


def _openai_state(answer: Mapping[str, Any]) -> JobState:
    status = str(answer.get("status", "")).lower()
    counts = _group(answer, "request_counts")
    completed, total = _count(counts.get("completed")), _count(counts.get("total"))
    if status in ("completed", "expired", "cancelled", "canceled") and _text(answer.get("output_file_id")):
        return JobState(phase="ended", completed=completed, total=total)
    if status in ("completed", "failed", "expired", "cancelled", "canceled"):
        errors = _group(answer, "errors").get("data")
        first = errors[0] if isinstance(errors, list) and errors else None
        said = f": {first.get('message')}" if isinstance(first, Mapping) and first.get("message") else ""
        return JobState(phase="failed", problem=f"The batch job {answer.get('id')} is {status}{said}.")
    return JobState(phase="running", completed=completed, total=total)


def _gemini_state(answer: Mapping[str, Any]) -> JobState:
    metadata = _group(answer, "metadata")
    word = str(metadata.get("state") or answer.get("state") or "").upper().rpartition("_")[2]
    stats = _group(metadata, "batchStats")
    completed, total = _count(stats.get("successfulRequestCount")), _count(stats.get("requestCount"))
    error = _group(answer, "error")
    results = _gemini_file(answer)
    if error or (word in _GEMINI_FAILED and (word == "FAILED" or results is None)):
        said = f": {error['message']}" if error.get("message") else ""
        name = word.lower() or "failed"
        return JobState(phase="failed", problem=f"The batch job {answer.get('name')} is {name}{said}.")
    if word in (*_GEMINI_ENDED, *_GEMINI_FAILED) or answer.get("done") is True:
        return JobState(phase="ended", completed=completed, total=total)
    return JobState(phase="running", completed=completed, total=total)


def _vector(endpoint: EmbeddingEndpoint, line: Mapping[str, Any]) -> list[float] | None:
    response = _group(line, "response")
    if line.get("error") or response.get("error") or _count(response.get("status_code")) >= 400:
        return None
    answer = line if "embedding" in line else response.get("body", response)
    try:
        return list(vectors_of(answer, 1, endpoint)[0])
    except EmbeddingFailed:
        return None


def _group(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int:
    """Counts come as numbers, or as digits in quotes (Gemini)."""
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else 0
