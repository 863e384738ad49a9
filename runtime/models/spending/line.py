"""One line of a day's usage file: what one call of a provider took. A contract: bytes on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nacre.record import Record
from nacre.sessions.contracts.messages import Usage, usage_from_json

VERSION = 1


class Spent(Record):
    """One call: when its answer ended, in milliseconds since the epoch, who asked whom and what for.

    `model` is `provider/model`. `purpose` is a `Purpose` of a model request, `embedding`, `rerank` or
    `transcription`.
    """

    at_ms: int
    agent_id: str
    model: str
    purpose: str
    usage: Usage

    def to_line(self) -> bytes:
        """The call as a line of JSON."""
        raw = {
            "v": VERSION,
            "at": self.at_ms,
            "agent": self.agent_id,
            "model": self.model,
            "purpose": self.purpose,
            "usage": self.usage.to_json(),
        }
        return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def spent_from_line(data: bytes) -> Spent | None:
    """Reads a line; `None` for one that is torn, of another version, or no such thing."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, Mapping) or raw.get("v") != VERSION or not isinstance(raw.get("at"), int):
        return None
    usage = usage_from_json(raw.get("usage"))
    if usage is None:
        return None
    return Spent(
        at_ms=raw["at"],
        agent_id=_text(raw, "agent"),
        model=_text(raw, "model"),
        purpose=_text(raw, "purpose"),
        usage=usage,
    )


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""
