"""The command `nacre sessions plot`: how full the context of a session was over time."""

from __future__ import annotations

import asyncio
import io
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json
from nacre.cli.sessions.commands import reading_shelf
from nacre.installation import install_command
from nacre.runtime.agent.insight.timeline import Timeline, timeline

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.cli.sessions.shelf import SessionShelf


def _picture_file(context: click.Context, _option: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value.suffix.lower() not in (".svg", ".png"):
        raise click.BadParameter(f"{value} is neither an .svg nor a .png file.", context)
    return value


@click.command("plot")
@click.argument("name", default="main")
@json_option()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_picture_file,
    help="A new .svg or .png file; needs the extra plot.",
)
@shared_options
@reading_shelf
async def plot(
    shelf: SessionShelf, invocation: Invocation, name: str, as_json: bool, output: Path | None
) -> int:
    """Draw how full the context of a session was over time."""
    from nacre.runtime.providers.opening import budget_of, has_price

    session = await shelf.find(name)
    transcript = await shelf.store.stored(session)
    budget = await budget_of(invocation.config, shelf.now)
    # On a thread, so that a signal can end it.
    priced = partial(has_price, invocation.config)
    found = await asyncio.to_thread(timeline, transcript.branch, budget, has_price=priced)
    if as_json:
        return print_json({"key": session.key, "sessionId": session.session_id, **timeline_json(found)})
    if not found.points:
        invocation.warn("The provider counted no answer of this session, so there is nothing to draw.")
        return 1
    if output is None:
        columns = shutil.get_terminal_size().columns
        invocation.say(*chart_lines(found, columns=columns), legend(found))
        return 0

    try:
        data = picture(found, output.suffix.lower().lstrip("."), title=session.key)
    except ImportError as error:
        invocation.warn(
            f"A picture needs matplotlib, which cannot be used here ({error}). Install it with "
            f"`{install_command('plot')}`; without --output the drawing is text.",
            tone="error",
        )
        return 1
    shelf.write_new(output, data)
    invocation.say(f"Drew session {session.session_id} into {output} ({len(data)} bytes).")
    return 0


def picture(timeline: Timeline, form: str, *, title: str) -> bytes:
    """The timeline as SVG or PNG: tokens by answer, both thresholds, flushes and compactions.

    Raises:
        ImportError: matplotlib is not installed; the extra `plot` brings it.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    numbers = range(1, len(timeline.points) + 1)
    axes.fill_between(numbers, [point.tokens for point in timeline.points], step="mid", alpha=0.3)
    axes.step(numbers, [point.tokens for point in timeline.points], where="mid")
    budget = timeline.budget
    axes.axhline(budget.flush_at, linestyle=":", color="tab:orange", label=f"flush at {budget.flush_at}")
    axes.axhline(
        budget.compact_at, linestyle="--", color="tab:red", label=f"compaction above {budget.compact_at}"
    )
    for kind, sign in (("flush", "v"), ("compaction", "s")):
        # A flush is drawn beside its compaction, so that both are visible.
        beside = 1.45 if kind == "flush" else 1.5
        places = [mark.behind + beside for mark in timeline.marks if mark.kind == kind]
        color = "tab:orange" if kind == "flush" else "tab:red"
        axes.plot(places, [0] * len(places), sign, color=color, label=kind, clip_on=False)
    axes.set(
        title=title, xlabel="answer", ylabel="tokens in the context", ylim=(0, timeline.top_tokens * 1.05)
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper left", fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, metadata={"Date": None} if form == "svg" else None)
    return drawn.getvalue()


_BARS = " ▁▂▃▄▅▆▇█"
CHART_ROWS = 12
_LEAST_COLUMNS = 20


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    return {
        "windowTokens": timeline.budget.window_tokens,
        "flushAtTokens": timeline.budget.flush_at,
        "compactAboveTokens": timeline.budget.compact_at,
        "points": [
            camel_json(point, "entry_id", "timestamp", "tokens", "cost_usd") for point in timeline.points
        ],
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


def chart_lines(timeline: Timeline, *, columns: int) -> list[str]:
    """The timeline as text, no wider than `columns`: a bar for each answer, or for the fullest of several.

    Both thresholds are lines in their rows; below the chart, `F` marks a flush, `C` a compaction, `*` both.
    """
    labels = [_short(timeline.top_tokens * (row + 1) // CHART_ROWS) for row in range(CHART_ROWS)]
    margin = max(map(len, labels)) + 2
    width = max(_LEAST_COLUMNS, columns - margin)
    count = len(timeline.points)
    bars = [0] * min(width, count)
    for number, point in enumerate(timeline.points):
        place = _column(number, count, width)
        bars[place] = max(bars[place], point.tokens)
    flush_row, compact_row = (
        min(CHART_ROWS - 1, at * CHART_ROWS // timeline.top_tokens)
        for at in (timeline.budget.flush_at, timeline.budget.compact_at)
    )
    lines = []
    for row in reversed(range(CHART_ROWS)):
        line = {compact_row: "─", flush_row: "┄"}.get(row, " ")
        eighths = (round(tokens * CHART_ROWS * 8 / timeline.top_tokens) - row * 8 for tokens in bars)
        cells = (_BARS[max(0, min(8, each))] for each in eighths)
        drawn = "".join(line if cell == " " else cell for cell in cells).ljust(width, line).rstrip()
        lines.append(f"{labels[row]:>{margin - 2}} ┤{drawn}")
    under = [" "] * width
    for mark in timeline.marks:
        place = _column(max(0, mark.behind), count, width)
        sign = "F" if mark.kind == "flush" else "C"
        under[place] = sign if under[place] in (" ", sign) else "*"
    lines.append(f"{'':>{margin - 2}} └{''.join(under).rstrip()}")
    return lines


def legend(timeline: Timeline) -> str:
    """The legend, with figures."""
    budget, count = timeline.budget, len(timeline.points)
    flushes = sum(mark.kind == "flush" for mark in timeline.marks)
    return (
        f"{_counted(count, 'answer', 'answers')} · ┄ flush at {_short(budget.flush_at)} · ─ compaction above "
        f"{_short(budget.compact_at)} · F {_counted(flushes, 'flush', 'flushes')} · "
        f"C {_counted(len(timeline.marks) - flushes, 'compaction', 'compactions')} · "
        f"{timeline.cost_text}"
    )


def _column(number: int, count: int, width: int) -> int:
    return number if count <= width else number * width // count


def _short(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
