"""Memories as the model and people read them: each with its day, and with whose words it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from nacre.runtime.extensions.lancedb.records import PRIVATE, Memory, Recalled


def to_json(item: Recalled, zone: tzinfo | None) -> dict[str, Any]:
    """A memory that was found, as the model and `--json` get it."""
    return {**memory_json(item.memory, zone), "score": round(item.score, 4)}


def memory_json(memory: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """A memory with its source; `audience` only where it is that of a chat with others."""
    origin = memory.origin
    told: dict[str, Any] = {
        "id": memory.id,
        "text": memory.text,
        "category": memory.category,
        "importance": memory.importance,
        "createdAt": moment_of(memory, zone).isoformat(timespec="seconds"),
        "saidBy": origin.said_by,
        "writtenBy": origin.written_by,
        "session": origin.session_key,
        "channel": origin.channel,
    }
    return told if memory.audience == PRIVATE else {**told, "audience": memory.audience}


def recalled_lines(found: Sequence[Recalled], zone: tzinfo | None) -> str:
    """What is recalled before a turn: a numbered line each, so that no text can pose as several."""
    return "\n".join(
        f"{number}. [{item.memory.category}] {' '.join(item.memory.text.split())}"
        f" ({moment_of(item.memory, zone).date().isoformat()})"
        for number, item in enumerate(found, 1)
    )


def memory_line(memory: Memory, zone: tzinfo | None, *, score: float | None = None) -> str:
    """A memory as one line of a terminal, with its whole id."""
    day = moment_of(memory, zone).date().isoformat()
    worth = "" if score is None else f"{score:.2f}  "
    whose = "" if memory.audience == PRIVATE else f" · {memory.audience}"
    return f"{worth}{memory.id}  {day}  [{memory.category}]  {' '.join(memory.text.split())}{whose}"


def counts(memories: Sequence[Memory]) -> Mapping[str, Mapping[str, int]]:
    """How many memories there are of each category, audience and way in."""
    counted: dict[str, dict[str, int]] = {"category": {}, "audience": {}, "writtenBy": {}}
    for memory in memories:
        for name, value in zip(
            counted, (memory.category, memory.audience, memory.origin.written_by), strict=True
        ):
            counted[name][value] = counted[name].get(value, 0) + 1
    return counted


def moment_of(memory: Memory, zone: tzinfo | None) -> datetime:
    """When it was stored, in the owner's zone; the first moment that there is for a time that cannot be."""
    try:
        return datetime.fromtimestamp(memory.created_at_ms / 1000, zone)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, zone)
