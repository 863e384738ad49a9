"""The quiet line of a chat: model, window, next flush, cost, as far as there is room."""

from __future__ import annotations

from dataclasses import replace

from nacre.cli.talk.display.status_line import status_line, window_bar
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.contracts.budget import ContextBudget

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


def test_what_does_not_fit_goes_from_the_end() -> None:
    """Cost, flush and numbers go before the bar and the model that answers."""
    whole = "b/two  █████░░░░░░░░░┆░░░│░  50.0k/200k  flush in 90.0k  $0.0040 · today $1.30"
    shown = {
        columns: status_line(STATUS, "a/one", columns, turn_usd=0.004, day_usd=1.3)
        for columns in (120, 60, 30, 10)
    }
    assert shown == {
        120: whole,
        60: whole.partition("  $")[0],
        30: whole.partition("  50")[0],
        10: "b/two  ██…",
    }
    assert status_line(None, "a/one", 60, turn_usd=0, day_usd=0) == "a/one"


def test_a_price_that_nobody_knows_is_not_zero() -> None:
    """It is said so, beside what other models cost today."""
    assert status_line(STATUS, "a/one", 120, turn_usd=None, day_usd=0).endswith("  no price known")
    assert status_line(STATUS, "a/one", 120, turn_usd=None, day_usd=1.3).endswith(
        "  no price known · today $1.30"
    )


def test_a_full_window_has_both_lines() -> None:
    """The lines are seen also behind what is full, and where they are close together."""
    full = replace(STATUS, context_tokens=190_000)
    assert "flush due" in status_line(full, "", 120, turn_usd=0, day_usd=0)
    without = replace(full, budget=replace(BUDGET, flush_enabled=False))
    assert "flush" not in status_line(without, "", 120, turn_usd=0, day_usd=0)
    assert window_bar(200_000, BUDGET) == "██████████████┆███│█"
    assert window_bar(0, replace(BUDGET, soft_threshold_tokens=1_000)) == "░░░░░░░░░░░░░░░░░┆│░"
