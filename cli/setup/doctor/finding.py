"""What a check found: a fact, something to know, or a problem with what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from nacre.record import Record

State: TypeAlias = Literal["well", "note", "problem", "fixed"]
Repair: TypeAlias = Callable[[], Awaitable[str]]
"""Mends what was found and says what it did. Raises `OSError` or `MemoryIndexError` when it could not."""

_MARKS: dict[State, str] = {"well": "✓", "note": "·", "problem": "✗", "fixed": "✓"}


class Finding(Record):
    """One thing that was looked at. `advice` says what to do; only what is safe has a `repair`."""

    area: str
    state: State
    text: str
    advice: str = ""
    repair: Repair | None = None

    def lines(self) -> list[str]:
        """For people: the area, the fact, and below it what to do."""
        lines = [f"{_MARKS[self.state]} {self.area:<12} {self.text}"]
        if self.advice and self.state in ("note", "problem"):
            lines.append(f"  {'':<12} → {self.advice}")
        return lines

    def json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "area": self.area,
            "state": self.state,
            "text": self.text,
            "advice": self.advice or None,
            "canFix": self.repair is not None,
        }
