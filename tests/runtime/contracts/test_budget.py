"""The window's lines and what is decided at each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.budget import ContextBudget, WindowSource, resolve_budget
from nacre.runtime.contracts.errors import ConfigError


def budget_for(window_tokens: int | None, **changes: int) -> ContextBudget:
    numbers = {
        "reserve_tokens": 16_384,
        "reserve_floor_tokens": 20_000,
        "soft_threshold_tokens": 4_000,
        "keep_recent_tokens": 20_000,
        **changes,
    }
    return resolve_budget(configured_window_tokens=None, model_window_tokens=window_tokens, **numbers)


@pytest.mark.covers("A9-5", "A12-4")
def test_the_seeds_numbers_put_the_flush_at_176000_of_200000() -> None:
    """window − reserve floor − soft threshold, with the seeds' defaults."""
    budget = budget_for(None)
    assert (budget.window_source, budget.flush_at, budget.compact_at) == ("fallback", 176_000, 180_000)


@pytest.mark.parametrize(
    ("tokens", "flushed", "action"),
    [
        (175_999, False, "nothing"),
        (176_000, False, "flush"),
        (176_000, True, "nothing"),
        (180_000, False, "flush"),
        (180_001, False, "flush_then_compact"),
        (180_001, True, "compact"),
    ],
)
@pytest.mark.covers("A9-3", "A12-2", "A12-3")
def test_the_flush_line_is_inclusive_and_the_compaction_line_is_not(
    tokens: int, flushed: bool, action: str
) -> None:
    """One flush a cycle, and never a compaction without one before it."""
    assert budget_for(200_000).decide(tokens, flushed_this_cycle=flushed).action == action


@pytest.mark.parametrize(
    ("tokens", "said", "action"),
    [
        (176_000, 1_999, "nothing"),
        (176_000, 2_000, "flush"),
        (176_000, None, "flush"),
        (180_001, 0, "flush_then_compact"),
    ],
)
@pytest.mark.covers("ASK-11")
def test_a_compaction_is_not_followed_by_a_flush_of_the_same(
    tokens: int, said: int | None, action: str
) -> None:
    """What a compaction kept was flushed before it; the next flush waits for something new to save."""
    decision = budget_for(200_000).decide(tokens, flushed_this_cycle=False, said_since_compaction_tokens=said)
    assert decision.action == action


@pytest.mark.parametrize(
    ("window", "reserve", "soft"),
    [
        (4_096, 1_024, 682),
        (8_192, 2_048, 1_365),
        (16_000, 4_000, 2_666),
        (24_000, 12_000, 4_000),
        (32_000, 16_000, 4_000),
        (40_000, 20_000, 4_000),
    ],
)
@pytest.mark.covers("W8-1")
def test_a_small_window_gets_a_smaller_reserve(window: int, reserve: int, soft: int) -> None:
    """Half of the window at most, and a quarter of the smallest."""
    budget = budget_for(window)
    assert (budget.reserve_tokens, budget.soft_threshold_tokens) == (reserve, soft)


@pytest.mark.covers("A9-6")
def test_a_window_under_4000_tokens_is_refused_with_the_number() -> None:
    """The message names the size, where it came from and the minimum."""
    with pytest.raises(ConfigError, match=r"too small \(2048 tokens, from model\). Minimum is 4000"):
        budget_for(2_048)


@pytest.mark.parametrize(("source", "window"), [("server", 8_192), ("refusal", 8_192), ("model", 32_000)])
@pytest.mark.covers("A9-6")
def test_what_a_server_has_counts_where_the_owner_says_more(source: WindowSource, window: int) -> None:
    """A price map may be wrong, and gives way to the owner."""
    budget = resolve_budget(
        configured_window_tokens=32_000,
        model_window_tokens=8_192,
        model_source=source,
        reserve_tokens=16_384,
        reserve_floor_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
    )
    assert budget.window_tokens == window


@pytest.mark.covers("A9-5", "W7-6", "W9-2", "ASK-8", "ASK-12")
def test_the_larger_of_reserve_and_floor_counts_for_flush_and_compaction_alike() -> None:
    """A reserve above the floor moves both lines."""
    budget = budget_for(200_000, reserve_tokens=50_000)
    assert (budget.flush_at, budget.compact_at) == (146_000, 150_000)


@pytest.mark.parametrize("switch", ["flush_enabled", "compaction_enabled"])
@pytest.mark.covers("A9-3", "A12-4", "ASK-7")
def test_what_is_switched_off_says_so(switch: str) -> None:
    """A decision not to act names the switch and the numbers."""
    budget = resolve_budget(
        configured_window_tokens=100_000,
        model_window_tokens=None,
        reserve_tokens=0,
        reserve_floor_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
        **{switch: False},
    )
    decision = budget.decide(90_000, flushed_this_cycle=False)
    assert "switched off" in decision.reason
    assert "90000 tokens of 100000" in decision.reason
    assert decision.action == ("compact" if switch == "flush_enabled" else "nothing")


@given(
    window=st.integers(4_000, 2_000_000),
    reserve=st.integers(0, 3_000_000),
    floor=st.integers(0, 3_000_000),
    soft=st.integers(0, 3_000_000),
    keep=st.integers(0, 3_000_000),
)
@pytest.mark.covers("A9-5", "W7-6", "W9-1")
def test_any_settings_leave_room_to_talk_flush_and_keep(
    window: int, reserve: int, floor: int, soft: int, keep: int
) -> None:
    """The lines are in order, and the kept tail with a summary fits below the compaction line."""
    budget = budget_for(
        window,
        reserve_tokens=reserve,
        reserve_floor_tokens=floor,
        soft_threshold_tokens=soft,
        keep_recent_tokens=keep,
    )
    assert 0 < budget.flush_at <= budget.compact_at <= window
    assert budget.keep_recent_tokens + budget.summary_tokens < budget.compact_at


def test_a_smaller_window_has_smaller_lines_and_a_larger_one_changes_nothing() -> None:
    """Of a window of 200,000 that turned out to be smaller; 4,000 is the least."""
    budget = resolve_budget(
        configured_window_tokens=None,
        model_window_tokens=None,
        reserve_tokens=16_384,
        reserve_floor_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
    )
    smaller = budget.within(24_000)
    assert (smaller.compact_at, smaller.flush_at, smaller.keep_recent_tokens) == (12_000, 8_000, 6_000)
    assert budget.within(900).window_tokens == 4_000
    assert budget.within(300_000) == budget
