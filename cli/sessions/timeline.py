"""The timeline of a session as lines of text, and for scripts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.cli.screen.json_text import camel_json
from nacre.runtime.agent.insight.timeline import Point, Timeline

_BARS = " ▁▂▃▄▅▆▇█"
_LEAST_COLUMNS = 20
_POINT = ("entry_id", "timestamp", "tokens", "cost_usd")


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "windowTokens": timeline.budget.window_tokens,
        "flushAtTokens": timeline.budget.flush_at,
        "compactAboveTokens": timeline.budget.compact_at,
        "points": [camel_json(point, *_POINT) for point in timeline.points],
        "marks": [
            {
                "type": mark.kind,
                "entryId": mark.entry_id,
                "timestamp": mark.timestamp,
                "behindPoint": mark.behind,
            }
            for mark in timeline.marks
        ],
    }


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
        f"{timeline.told_cost}"
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
