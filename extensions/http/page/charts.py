"""The charts of the page, as coordinates for SVG: the context of a session over time, and cost by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from nacre.extensions.http.page.rendering import day_name, dollars, short
from nacre.record import Record
from nacre.runtime.agent.insight.timeline import Point, Timeline
from nacre.runtime.agent.insight.usage import UsageRow

WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 34
_MOST_BARS = 180
_TICKS = 4
PARTS = (
    ("fixed", "tools and instructions"),
    ("summary", "summary"),
    ("conversation", "conversation"),
    ("tool_results", "tool results"),
)
"""The parts of a bar from the bottom up, with their labels."""


class Block(Record):
    """One part of a bar, in the units of the chart."""

    part: str
    x: float
    y: float
    width: float
    height: float


class Bar(Record):
    """One answer, or the one with the largest context of several. `title` describes it."""

    title: str
    blocks: tuple[Block, ...]


class Level(Record):
    name: str
    y: float
    label: str


class Mark(Record):
    """A flush or a compaction at `x`."""

    kind: str
    x: float
    title: str


class ContextPicture(Record):
    """A chart of a timeline. `cost_line` holds the points of a polyline of the cumulative cost."""

    bars: tuple[Bar, ...]
    ticks: tuple[Level, ...]
    lines: tuple[Level, ...]
    marks: tuple[Mark, ...]
    cost_line: str
    summary: str
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    bottom: float = HEIGHT - _BOTTOM


def context_picture(timeline: Timeline) -> ContextPicture:
    """Draws a timeline. Without points, the chart has no bars."""
    budget, count = timeline.budget, len(timeline.points)
    top = max(timeline.top_tokens, budget.flush_at) * 1.04
    marks = timeline.marks
    flushes = sum(mark.kind == "flush" for mark in marks)
    cost = timeline.cost_text if timeline.cost_usd is None else f"{timeline.cost_text} in all"
    return ContextPicture(
        bars=tuple(_bars(timeline.points, top)),
        ticks=tuple(
            Level(name="tick", y=_y(top * n / _TICKS, top), label=short(int(top * n / _TICKS)))
            for n in range(_TICKS + 1)
        ),
        lines=(
            Level(name="flush", y=_y(budget.flush_at, top), label=f"flush at {short(budget.flush_at)}"),
            Level(
                name="compaction",
                y=_y(budget.compact_at, top),
                label=f"compaction above {short(budget.compact_at)}",
            ),
        ),
        marks=tuple(
            Mark(
                kind=mark.kind,
                # A flush precedes its compaction; both are shifted so that they stay visible.
                x=round(
                    _LEFT
                    + (mark.behind + 1) * _plot_width() / max(1, count)
                    + (-5 if mark.kind == "flush" else 5),
                    1,
                ),
                title=f"{mark.kind} after answer {mark.behind + 1}",
            )
            for mark in marks
        ),
        cost_line=_cost_line(timeline.points),
        summary=(
            f"{count} answers, {flushes} flushes, {len(marks) - flushes} compactions, {cost}; "
            f"the fullest context had {max((p.tokens for p in timeline.points), default=0)} tokens"
        ),
    )


def _plot_width() -> int:
    return WIDTH - _LEFT - _RIGHT


def _y(tokens: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * tokens / top, 1)


def _bars(points: Sequence[Point], top: float) -> Iterator[Bar]:
    count = min(len(points), _MOST_BARS)
    for number in range(count):
        group = points[number * len(points) // count : (number + 1) * len(points) // count]
        point = max(group, key=lambda each: each.tokens)
        step = _plot_width() / count
        stacked_tokens, blocks = 0, []
        for part, _name in PARTS:
            tokens = getattr(point.parts, part)
            if tokens:
                y = _y(stacked_tokens + tokens, top)
                blocks.append(
                    Block(
                        part=part,
                        x=round(_LEFT + number * step, 2),
                        y=y,
                        width=round(max(1.0, step * 0.86), 2),
                        height=round(_y(stacked_tokens, top) - y, 1),
                    )
                )
            stacked_tokens += tokens
        parts = ", ".join(f"{name} {short(getattr(point.parts, part))}" for part, name in PARTS)
        title = f"{point.timestamp[:16].replace('T', ' ')}: {short(point.tokens)} tokens ({parts})"
        cost = "no price known" if point.cost_usd is None else f"${point.cost_usd:.4f}"
        yield Bar(title=f"{title}, {cost}", blocks=tuple(blocks))


def _cost_line(points: Sequence[Point]) -> str:
    total = sum(point.cost_usd or 0 for point in points)
    if not total:
        return ""
    cost_usd, points_text = 0.0, [f"{_LEFT},{HEIGHT - _BOTTOM}"]
    for number, point in enumerate(points, start=1):
        cost_usd += point.cost_usd or 0
        x = _LEFT + number * _plot_width() / len(points)
        points_text.append(f"{x:.1f},{_y(cost_usd, total * 1.04)}")
    return " ".join(points_text)


COST_HEIGHT = 180
_COST_BOTTOM = 24


class CostBar(Record):
    """One day in the chart of costs. `label` is empty for most days, so that labels do not touch."""

    x: float
    y: float
    width: float
    height: float
    title: str
    label: str


class CostPicture(Record):
    bars: tuple[CostBar, ...]
    ticks: tuple[Level, ...]
    summary: str


def cost_picture(days: Sequence[UsageRow], today: date, *, count: int = 30) -> CostPicture:
    """Draws the costs of the last `count` days, or the tokens if no price is known. `days`: rows by day."""
    by_day = {row.name: row for row in days}
    shown = [today - timedelta(days=count - 1 - number) for number in range(count)]
    rows = [by_day.get(day.isoformat()) for day in shown]
    in_dollars = any(row and row.cost_usd for row in rows)
    amounts = ((row.cost_usd if in_dollars else row.usage.context_tokens) if row else 0 for row in rows)
    values = [float(amount or 0) for amount in amounts]
    top = max(values) * 1.08 or 1.0
    ground, step = COST_HEIGHT - _COST_BOTTOM, _plot_width() / count
    unit = "" if in_dollars else " tokens"

    def tell(value: float) -> str:
        return dollars(value) if in_dollars else short(int(value))

    bars = []
    for number, (day, value) in enumerate(zip(shown, values, strict=True)):
        height = round((ground - _TOP) * value / top, 1)
        bars.append(
            CostBar(
                x=round(_LEFT + number * step + step * 0.14, 1),
                y=round(ground - height, 1),
                width=round(step * 0.72, 1),
                height=height,
                title=f"{day_name(day)}: {tell(value)}{unit}",
                label=f"{day.day} {day:%b}" if (count - 1 - number) % 7 == 0 else "",
            )
        )
    ticks = [
        Level(name="tick", y=round(ground - (ground - _TOP) * part / 1.08, 1), label=tell(top / 1.08 * part))
        for part in (0.5, 1.0)
    ]
    summary = f"{tell(sum(values))}{unit} in the last {count} days"
    return CostPicture(bars=tuple(bars), ticks=tuple(ticks) if any(values) else (), summary=summary)
