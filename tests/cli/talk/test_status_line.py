"""The quiet line of a chat: model, window, next flush, cost, as far as there is room."""

from __future__ import annotations

from dataclasses import replace

from nacre.cli.talk.conversation import status_line, window_bar
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.contracts.budget import ContextBudget
from nacre.sessions.contracts.messages import Usage

BUDGET = ContextBudget(
    window_tokens=200_000,
    window_source="model",
    reserve_tokens=20_000,
    soft_threshold_tokens=40_000,
    keep_recent_tokens=20_000,
)
STATUS = SessionStatus(
    key="agent:main:main",
    session_id="s",
    model_name="a/one",
    answering_model_name="b/two",
    context_tokens=50_000,
    is_estimated=False,
    budget=BUDGET,
    compaction_count=0,
    last_flush=None,
    started_at=None,
    last_said_at=None,
    next_reset=None,
    last_usage=None,
)


USAGE = Usage(input_tokens=1_200, cache_read_tokens=2_000, output_tokens=80, cost_usd=0.004)


def test_what_does_not_fit_goes_by_its_worth() -> None:
    """Tokens and cost of the last turn are still there in 80 columns; model and bar go last."""
    shown = {
        columns: status_line(STATUS, "a/one", columns, turn=USAGE, day_usd=1.3)
        for columns in (120, 100, 80, 60, 35, 10)
    }
    assert shown == {
        120: "b/two  █████░░░░░░░░░┆░░░│░  50.0k/200k  flush in 90.0k  "
        "3.2k in (2.0k cached), 80 out, $0.0040 · today $1.30",
        100: "b/two  █████░░░░░░░░░┆░░░│░  50.0k/200k  3.2k in (2.0k cached), 80 out, $0.0040 · today $1.30",
        80: "b/two  █████░░░░░░░░░┆░░░│░  50.0k/200k  3.2k in (2.0k cached), 80 out, $0.0040",
        60: "b/two  █████░░░░░░░░░┆░░░│░  50.0k/200k  flush in 90.0k",
        35: "b/two  ███░░░░┆░│",
        10: "b/two  ██…",
    }
    assert status_line(None, "a/one", 60, turn=USAGE, day_usd=0) == "a/one"


def test_a_price_that_nobody_knows_is_not_zero() -> None:
    """It is said so, beside what other models cost today."""
    turn = replace(USAGE, cost_usd=0.0)
    line = status_line(STATUS, "a/one", 120, turn=turn, is_priced=False, day_usd=1.3)
    assert line.endswith("80 out, no price known · today $1.30")


def test_a_full_window_has_both_lines() -> None:
    """The lines are seen also behind what is full, and where they are close together."""
    full = replace(STATUS, context_tokens=190_000)
    assert "flush due" in status_line(full, "", 120)
    without = replace(full, budget=replace(BUDGET, flush_enabled=False))
    assert "flush" not in status_line(without, "", 120)
    assert window_bar(200_000, BUDGET) == "██████████████┆███│█"
    assert window_bar(0, replace(BUDGET, soft_threshold_tokens=1_000)) == "░░░░░░░░░░░░░░░░░┆│░"
