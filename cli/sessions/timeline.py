"""How full the context of a session was over time, from its transcript, and that as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from nacre.cli.screen.json_text import camel_json
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.lanes.flush_records import FLUSH_ENTRY
from nacre.sessions.contracts.messages import AssistantMessage
from nacre.sessions.entries.entries import Compaction, Entry

MarkKind: TypeAlias = Literal["flush", "compaction"]
_BARS = " ▁▂▃▄▅▆▇█"
_LEAST_COLUMNS = 20


@dataclass(frozen=True, kw_only=True)
class Point:
    """An answer: how many tokens its request and itself took, as the provider counted them."""

    entry_id: str
    timestamp: str
    tokens: int
    cost_usd: float


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A flush or a compaction, behind the point of this index; -1 is before the first."""

    kind: MarkKind
    behind: int
    entry_id: str
    timestamp: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The context of one session over its answers, the marks among them, and the present model's lines."""

    points: tuple[Point, ...]
    marks: tuple[Mark, ...]
    budget: ContextBudget

    @property
    def top_tokens(self) -> int:
        """The upper end of a drawing: the compaction line, or the fullest context where that was above."""
        return max([self.budget.compact_at, *(point.tokens for point in self.points)])

    def to_json(self) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "windowTokens": self.budget.window_tokens,
            "flushAtTokens": self.budget.flush_at,
            "compactAboveTokens": self.budget.compact_at,
            "points": [camel_json(point) for point in self.points],
            "marks": [
                {
                    "type": mark.kind,
                    "entryId": mark.entry_id,
                    "timestamp": mark.timestamp,
                    "behindPoint": mark.behind,
                }
                for mark in self.marks
            ],
        }


def timeline(branch: Sequence[Entry], budget: ContextBudget) -> Timeline:
    """The timeline of a branch; answers that were broken off, or that nobody counted, are left out."""
    points: list[Point] = []
    marks: list[Mark] = []
    for entry in branch:
        body = entry.body
        if isinstance(body, AssistantMessage):
            if body.usage is not None and body.stop_reason not in ("error", "aborted"):
                points.append(
                    Point(
                        entry_id=entry.id,
                        timestamp=entry.timestamp,
                        tokens=body.usage.context_tokens,
                        cost_usd=body.usage.cost_usd,
                    )
                )
            continue
        kind: MarkKind | None = "compaction" if isinstance(body, Compaction) else None
        if kind is None and entry.custom_data(FLUSH_ENTRY) is not None:
            kind = "flush"
        if kind is not None:
            marks.append(
                Mark(kind=kind, behind=len(points) - 1, entry_id=entry.id, timestamp=entry.timestamp)
            )
    return Timeline(points=tuple(points), marks=tuple(marks), budget=budget)


def chart_lines(timeline: Timeline, *, columns: int, rows: int = 12) -> list[str]:
    """The timeline as text, no wider than `columns`: a bar for each answer, or for the fullest of several.

    Both lines are drawn through the rows that they fall into; below stand `F` for a flush and `C` for a
    compaction, or `*` for both.
    """
    labels = [_short(timeline.top_tokens * (row + 1) // rows) for row in range(rows)]
    margin = max(map(len, labels)) + 2
    width = max(_LEAST_COLUMNS, columns - margin)
    bars = _fullest(timeline.points, width)
    flush_row, compact_row = (
        min(rows - 1, at * rows // timeline.top_tokens)
        for at in (timeline.budget.flush_at, timeline.budget.compact_at)
    )
    lines = []
    for row in reversed(range(rows)):
        line = {compact_row: "─", flush_row: "┄"}.get(row, " ")
        cells = (_bar(tokens, row, rows, timeline.top_tokens) for tokens in bars)
        drawn = "".join(line if cell == " " else cell for cell in cells).ljust(width, line).rstrip()
        lines.append(f"{labels[row]:>{margin - 2}} ┤{drawn}")
    under = [" "] * width
    for mark in timeline.marks:
        place = _column(max(0, mark.behind), len(timeline.points), width)
        sign = "F" if mark.kind == "flush" else "C"
        under[place] = sign if under[place] in (" ", sign) else "*"
    lines.append(f"{'':>{margin - 2}} └{''.join(under).rstrip()}")
    return lines


def legend(timeline: Timeline) -> str:
    """What the signs mean, with figures."""
    budget, count = timeline.budget, len(timeline.points)
    flushes = sum(mark.kind == "flush" for mark in timeline.marks)
    return (
        f"{_counted(count, 'answer', 'answers')} · ┄ flush at {_short(budget.flush_at)} · ─ compaction above "
        f"{_short(budget.compact_at)} · F {_counted(flushes, 'flush', 'flushes')} · "
        f"C {_counted(len(timeline.marks) - flushes, 'compaction', 'compactions')} · "
        f"${sum(point.cost_usd for point in timeline.points):.2f}"
    )


def _fullest(points: Sequence[Point], width: int) -> list[int]:
    columns = [0] * min(width, len(points))
    for number, point in enumerate(points):
        place = _column(number, len(points), width)
        columns[place] = max(columns[place], point.tokens)
    return columns


def _column(number: int, count: int, width: int) -> int:
    return number if count <= width else number * width // count


def _bar(tokens: int, row: int, rows: int, top_tokens: int) -> str:
    eighths = round(tokens * rows * 8 / top_tokens) - row * 8
    return _BARS[max(0, min(8, eighths))]


def _short(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
