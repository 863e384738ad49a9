"""The views of sessions: a list, a search, a transcript with a chart of its context, and the next request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.responses import Response

from nacre.extensions.http.page.rendering import short
from nacre.extensions.http.page.transcript import items_of
from nacre.extensions.http.page.visit import Visit
from nacre.record import Record
from nacre.runtime.agent.insight.model_facts import budget_of
from nacre.runtime.agent.insight.timeline import Point, Timeline, timeline
from nacre.runtime.settings.spending import has_price
from nacre.sessions.contracts.errors import SessionNotFound

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
SHOWN_ITEMS = 400
MOST_SESSIONS = 200


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
                title=f"{mark.kind} behind answer {mark.behind + 1}",
            )
            for mark in marks
        ),
        cost_line=_cost_line(timeline.points),
        summary=(
            f"{count} answers, {flushes} flushes, {len(marks) - flushes} compactions, "
            f"{_total_cost(timeline)}; "
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


def _total_cost(timeline: Timeline) -> str:
    return timeline.told_cost if timeline.cost_usd is None else f"{timeline.told_cost} in all"


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


async def sessions(visit: Visit) -> Response:
    """All sessions, or those that contain the search words."""
    query = visit.query_value("q").strip()
    if query:
        found = await visit.home.sessions_with(query)
        rows = [(each.session, each.words) for each in found]
    else:
        listed = (await visit.home.sessions())[:MOST_SESSIONS]
        words = await visit.home.last_words(listed)
        rows = [(each, words.get(each.session_id, "")) for each in listed]
    shown = [(session, words, visit.home.moment(session.active_at_ms)) for session, words in rows]
    return visit.page("sessions.html", query=query, rows=shown)


async def session(visit: Visit) -> Response:
    """One session: its chart and its whole transcript."""
    found, transcript = await visit.home.session(visit.request.path_params["session"])
    branch = transcript.branch if transcript else ()
    items = items_of(branch, visit.home.now().tzinfo)
    offset = visit.query_value("from", "0")
    start = int(offset) if offset.isascii() and offset.isdigit() else 0
    picture = context_picture(
        timeline(branch, await budget_of(visit.home.config, visit.home.now), has_price=has_price)
    )
    return visit.page(
        "session.html",
        session=found,
        active_at=visit.home.moment(found.active_at_ms),
        items=items[start : start + SHOWN_ITEMS],
        since=start,
        total=len(items),
        step=SHOWN_ITEMS,
        picture=picture,
        parts_of_bars=PARTS,
        width=WIDTH,
        height=HEIGHT,
    )


async def context(visit: Visit) -> Response:
    key = visit.query_value("session", "main")
    keys = [each.key for each in await visit.home.sessions() if each.is_current]
    try:
        view = await (await visit.home.agent.sessions.get(key)).context()
    except SessionNotFound:
        view = None
    return visit.page("context.html", key=key, view=view, keys=keys)
