"""The picture of a context over time: where its bars, lines and marks stand. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nacre.record import Record
from nacre.runtime.agent.insight.timeline import Point, Timeline

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
"""The parts of a bar from below, with what they are called."""


class Block(Record):
    """One part of a bar, in the picture's units."""

    part: str
    x: float
    y: float
    width: float
    height: float


class Bar(Record):
    """One answer, or the fullest of several; `told` says it in words."""

    told: str
    blocks: tuple[Block, ...]


class Level(Record):
    """A line across the picture at `y`."""

    name: str
    y: float
    label: str


class PictureMark(Record):
    """A flush or a compaction at `x`."""

    kind: str
    x: float
    told: str


class ContextPicture(Record):
    """A drawing of a timeline. `cost_line` are the points of a polyline of the money spent until then."""

    bars: tuple[Bar, ...]
    ticks: tuple[Level, ...]
    lines: tuple[Level, ...]
    marks: tuple[PictureMark, ...]
    cost_line: str
    cost_usd: float | None
    told: str
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    bottom: float = HEIGHT - _BOTTOM


def context_picture(timeline: Timeline) -> ContextPicture:
    """The drawing of a timeline; one without points has no bars."""
    budget, count = timeline.budget, len(timeline.points)
    top = max(timeline.top_tokens, budget.flush_at) * 1.04
    marks = timeline.marks
    flushes = sum(mark.kind == "flush" for mark in marks)
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
            PictureMark(
                kind=mark.kind,
                # A flush goes before its compaction: beside it, so that both are seen.
                x=round(
                    _LEFT + (mark.behind + 1) * _room() / max(1, count) + (-5 if mark.kind == "flush" else 5),
                    1,
                ),
                told=f"{mark.kind} behind answer {mark.behind + 1}",
            )
            for mark in marks
        ),
        cost_line=_cost_line(timeline.points),
        cost_usd=timeline.cost_usd,
        told=(
            f"{count} answers, {flushes} flushes, {len(marks) - flushes} compactions, {_in_all(timeline)}; "
            f"the fullest context had {max((p.tokens for p in timeline.points), default=0)} tokens"
        ),
    )


def short(tokens: int) -> str:
    """A count of tokens as people say it: 950, 12.5k."""
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _room() -> int:
    return WIDTH - _LEFT - _RIGHT


def _y(tokens: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * tokens / top, 1)


def _bars(points: Sequence[Point], top: float) -> Iterator[Bar]:
    count = min(len(points), _MOST_BARS)
    for number in range(count):
        group = points[number * len(points) // count : (number + 1) * len(points) // count]
        point = max(group, key=lambda each: each.tokens)
        step = _room() / count
        below, blocks = 0, []
        for part, _name in PARTS:
            tokens = getattr(point.parts, part)
            if tokens:
                y = _y(below + tokens, top)
                blocks.append(
                    Block(
                        part=part,
                        x=round(_LEFT + number * step, 2),
                        y=y,
                        width=round(max(1.0, step * 0.86), 2),
                        height=round(_y(below, top) - y, 1),
                    )
                )
            below += tokens
        parts = ", ".join(f"{name} {short(getattr(point.parts, part))}" for part, name in PARTS)
        told = f"{point.timestamp[:16].replace('T', ' ')}: {short(point.tokens)} tokens ({parts})"
        cost = "no price known" if point.cost_usd is None else f"${point.cost_usd:.4f}"
        yield Bar(told=f"{told}, {cost}", blocks=tuple(blocks))


def _in_all(timeline: Timeline) -> str:
    return timeline.told_cost if timeline.cost_usd is None else f"{timeline.told_cost} in all"


def _cost_line(points: Sequence[Point]) -> str:
    total = sum(point.cost_usd or 0 for point in points)
    if not total:
        return ""
    spent, places = 0.0, [f"{_LEFT},{HEIGHT - _BOTTOM}"]
    for number, point in enumerate(points, start=1):
        spent += point.cost_usd or 0
        x = _LEFT + number * _room() / len(points)
        places.append(f"{x:.1f},{_y(spent, total * 1.04)}")
    return " ".join(places)
