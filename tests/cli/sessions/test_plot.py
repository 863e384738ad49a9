"""`nacre sessions plot`: how full the context was, with the flush and the compaction that made room."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nacre.cli.sessions.plot import chart_lines, legend
from nacre.runtime.agent.insight.timeline import Point, Timeline, timeline
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage
from nacre.sessions.entries.entries import Entry
from tests.cli.program import WAIT_SECONDS, environment, run_here, run_nacre
from tests.runtime.agents import TODAY, opened, said, window_settings, write_settings
from tests.runtime.turn.test_window import LONG, SUMMARY

BUDGET = ContextBudget(
    window_tokens=1_000,
    window_source="model",
    reserve_tokens=200,
    soft_threshold_tokens=300,
    keep_recent_tokens=100,
)


def used(tokens: int) -> Usage:
    """What a provider counted."""
    return Usage(input_tokens=tokens - 10, output_tokens=10, cost_usd=0.01)


async def _talk(state_dir: Path) -> None:
    write_settings(state_dir, window_settings())
    model = ScriptedModel(
        says("noted", usage=used(3_000)),
        says("noted", usage=used(13_500)),
        calls(("append", {"path": TODAY, "text": "- sugar before frost"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says(SUMMARY, purpose="compaction"),
        says("here we go on", usage=used(5_000)),
    )
    async with opened(state_dir, model) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("and now?"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder with a session of three answers, a flush and a compaction."""
    folder = tmp_path_factory.mktemp("plot")
    asyncio.run(_talk(folder / ".nacre"))
    return folder


def test_the_terminal_shows_bars_lines_and_marks(home: Path) -> None:
    """A bar for each answer; flush and compaction stand behind the second one; the figures are in words."""
    shown = run_here(home, "sessions", "plot", COLUMNS="60")
    told = json.loads(run_here(home, "sessions", "plot", "main", "--json").stdout)

    *rows, under, words = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert rows[0].startswith("13.5k ┤ █")
    assert rows[-1].startswith(" 1.1k ┤███")
    assert any("┄" in row for row in rows)
    assert any("─" in row for row in rows)
    assert max(map(len, rows)) <= 60
    assert under.split("└")[1] == " *"
    assert words.startswith(
        "3 answers · ┄ flush at 8.0k · ─ compaction above 12.0k · F 1 flush · C 1 compaction"
    )
    assert words.endswith("$0.03")
    assert [point["tokens"] for point in told["points"]] == [3_000, 13_500, 5_000]
    assert [(mark["type"], mark["behindPoint"]) for mark in told["marks"]] == [
        ("flush", 1),
        ("compaction", 1),
    ]
    assert (told["flushAtTokens"], told["compactAboveTokens"]) == (8_000, 12_000)


def test_a_picture_is_a_new_file_of_a_known_kind(home: Path) -> None:
    """SVG and PNG are what their names say, nothing is overwritten, and another name is refused."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed: make extras")
    for name in ("context.svg", "context.png"):
        assert run_here(home, "sessions", "plot", "-o", str(home / name)).returncode == 0
    again = run_here(home, "sessions", "plot", "-o", str(home / "context.svg"))
    other = run_nacre(home, "sessions", "plot", "-o", str(home / "context.pdf"))

    assert ElementTree.parse(home / "context.svg").getroot().tag.endswith("svg")
    assert (home / "context.png").read_bytes().startswith(b"\x89PNG")
    assert (again.returncode, "was not overwritten" in again.stderr) == (1, True)
    assert (other.returncode, "no .svg and no .png" in other.stderr) == (2, True)


_ENDLESS = """
import os, signal, sys, threading
from nacre.cli.main import main

number = signal.Signals[sys.argv[1]]

def watched(frame, event, _argument):
    if event == "call" and frame.f_code.co_name == "timeline":
        os.kill(os.getpid(), number)
        threading.Event().wait()

threading.setprofile(watched)
sys.argv[1:] = ["sessions", "plot"]
sys.exit(main())
"""
"""The program with a count that never ends, and that sends the signal when it begins."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_count_that_does_not_end(home: Path, number: signal.Signals) -> None:
    """The process is gone at once, whatever is still to be counted."""
    ended = subprocess.run(
        [sys.executable, "-c", _ENDLESS, number.name],
        cwd=home,
        env=environment(home),
        capture_output=True,
        timeout=WAIT_SECONDS,
    )
    assert (ended.returncode, ended.stdout) == (128 + number, b"")


def test_answers_without_a_known_price_are_counted_apart() -> None:
    """A sum is of the others alone and says so; where nothing is known there are no dollars."""
    points = tuple(
        Point(entry_id=str(cost), timestamp="", tokens=100, cost_usd=cost) for cost in (0.25, None, None)
    )
    some = Timeline(points=points, marks=(), budget=BUDGET)

    assert legend(some).endswith(" · $0.25 without 2 of unknown price")
    assert legend(replace(some, points=points[1:])).endswith(" · no price known")


def _calls_for(answers: int) -> int:
    """How many functions are called, Python's own included, to lay out so many answers."""
    said = AssistantMessage(
        content=(Text(text="ok"),),
        api="",
        provider="",
        model="",
        usage=used(1_000),
        stop_reason="stop",
        timestamp_ms=1,
    )
    branch = [Entry(id=f"{number}", parent_id=None, timestamp="", body=said) for number in range(answers)]
    calls = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        points = timeline(branch, BUDGET, has_price=bool).points
    finally:
        sys.setprofile(None)
    assert len(points) == answers
    return calls


def test_a_long_session_is_counted_once() -> None:
    """Four times the answers take four times the work, and not sixteen times."""
    assert _calls_for(2_000) < 4.5 * _calls_for(500)


@pytest.mark.parametrize("columns", [10, 60, 200])
@pytest.mark.parametrize("count", [1, 59, 1_000])
def test_any_number_of_answers_fits_any_width(columns: int, count: int) -> None:
    """Of answers that share a column the fullest is drawn; the drawing has its least width where need be."""
    points = tuple(
        Point(entry_id=f"{number}", timestamp="", tokens=900 if number == count // 2 else 100, cost_usd=0)
        for number in range(count)
    )
    lines = chart_lines(Timeline(points=points, marks=(), budget=BUDGET), columns=columns)

    assert max(map(len, lines)) <= max(columns, 26)
    assert sum("█" in line or "▅" in line for line in lines) >= 12 - 1
