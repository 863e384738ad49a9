"""A timeline as a picture, drawn by matplotlib: the only file that knows it."""

from __future__ import annotations

import io

from nacre.runtime.agent.insight.timeline import Timeline

FORMATS = ("svg", "png")


def picture(timeline: Timeline, form: str, *, title: str) -> bytes:
    """The timeline as SVG or PNG: tokens over answers, both lines, flushes and compactions.

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
        # A flush goes before its compaction: beside it, so that both are seen.
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
