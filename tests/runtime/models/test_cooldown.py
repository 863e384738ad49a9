"""How long a failed model is left alone: the numbers, what counts, and what is forgotten."""

from __future__ import annotations

import pytest

from nacre.runtime.contracts.errors import (
    BadModelReply,
    ContextOverflow,
    FailureReason,
    ModelAuthError,
    ModelError,
    ModelTimedOut,
    ModelUnavailable,
    NoCredit,
    RateLimited,
    RequestRefused,
)
from nacre.runtime.models.cooldown import (
    Cooldown,
    after_failure,
    asking_order,
    cooldown_key,
    cooling,
    from_json,
    to_json,
)

NOW_MS = 1_773_500_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def failing(reason: FailureReason, times: int) -> list[float]:
    """The minutes of each cool-down when a model fails again as soon as it is free."""
    cooldown: Cooldown | None = None
    now_ms, minutes = NOW_MS, []
    for _ in range(times):
        cooldown = after_failure(cooldown, reason, asked_at_ms=now_ms, now_ms=now_ms)
        assert cooldown is not None
        minutes.append((cooldown.until_ms - now_ms) / MINUTE_MS)
        now_ms = cooldown.until_ms
    return minutes


@pytest.mark.covers("A20-2")
def test_a_model_cools_for_1_5_25_and_60_minutes() -> None:
    """Each failure in a row takes five times as long, up to an hour."""
    assert failing("rate_limit", 5) == [1, 5, 25, 60, 60]
    assert failing("timeout", 2) == [1, 5]


@pytest.mark.covers("A20-2")
def test_an_empty_account_cools_for_5_hours_doubling_to_24() -> None:
    """Credit does not come back by itself."""
    assert failing("billing", 4) == [300, 600, 1200, 1440]


def test_the_providers_own_wish_can_make_it_longer() -> None:
    """A quota that opens in ten minutes is not asked after one."""
    cooldown = after_failure(None, "rate_limit", asked_at_ms=NOW_MS, now_ms=NOW_MS, retry_after_seconds=600.0)
    assert cooldown is not None
    assert cooldown.until_ms == NOW_MS + 10 * MINUTE_MS


@pytest.mark.covers("W16-1")
def test_a_malformed_transcript_never_cools_a_model_down() -> None:
    """W16-1: one broken session must not take the model from all the others."""
    assert after_failure(None, "format", asked_at_ms=NOW_MS, now_ms=NOW_MS) is None
    assert BadModelReply("HTTP 400").reason == "format"


def test_sessions_that_hit_a_limit_together_count_once() -> None:
    """A request that was begun before the last failure is part of it; one begun after it is not."""
    first = after_failure(None, "rate_limit", asked_at_ms=NOW_MS, now_ms=NOW_MS + 10)
    same = after_failure(first, "rate_limit", asked_at_ms=NOW_MS + 5, now_ms=NOW_MS + 20)
    later = after_failure(first, "rate_limit", asked_at_ms=NOW_MS + 30, now_ms=NOW_MS + 40)
    assert same == first
    assert later is not None
    assert later.failures == 2


@pytest.mark.covers("A20-2")
def test_a_day_without_a_failure_forgets_them_all() -> None:
    """The count begins anew, and so it does when the clock was put back."""
    third = Cooldown(failures=3, reason="timeout", failed_at_ms=NOW_MS, until_ms=NOW_MS + 25 * MINUTE_MS)
    for now_ms in (NOW_MS + 24 * HOUR_MS, NOW_MS - 1):
        again = after_failure(third, "timeout", asked_at_ms=now_ms, now_ms=now_ms)
        assert again is not None
        assert again.failures == 1


@pytest.mark.covers("A20-2")
def test_a_cooling_model_is_asked_last() -> None:
    """Free ones keep their order; of the others the one that is free soonest comes first."""
    cooldowns = {
        "a/one": Cooldown(failures=1, reason="timeout", failed_at_ms=NOW_MS, until_ms=NOW_MS + HOUR_MS),
        "b/*": Cooldown(failures=1, reason="billing", failed_at_ms=NOW_MS, until_ms=NOW_MS + 5 * HOUR_MS),
        "d/four": Cooldown(failures=1, reason="timeout", failed_at_ms=NOW_MS, until_ms=NOW_MS + 1),
    }
    names = ("a/one", "b/two", "b/three", "c/free", "d/four")
    later_ms = NOW_MS + 10
    assert asking_order(names, cooldowns, now_ms=later_ms) == (
        "c/free",
        "d/four",
        "a/one",
        "b/two",
        "b/three",
    )
    assert cooling(cooldowns, "d/four", now_ms=later_ms) is None
    assert asking_order(names, {}, now_ms=later_ms) == names


def test_a_key_is_the_whole_providers_affair() -> None:
    """A refused key or an empty account stands against every model of the provider, a limit does not."""
    assert cooldown_key("openai/gpt-5", "auth") == "openai/*"
    assert cooldown_key("openai/gpt-5", "billing") == "openai/*"
    assert cooldown_key("openai/gpt-5", "rate_limit") == "openai/gpt-5"
    assert cooldown_key("gpt-5", "auth") == "gpt-5"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RateLimited("x"), "rate_limit"),
        (ModelTimedOut("x"), "timeout"),
        (ModelUnavailable("x"), "unavailable"),
        (ModelAuthError("x"), "auth"),
        (NoCredit("x"), "billing"),
        (BadModelReply("x"), "format"),
        (ContextOverflow("x"), None),
        (RequestRefused("x"), None),
        (ModelError("x"), None),
    ],
)
def test_what_another_model_may_do_better(error: ModelError, reason: FailureReason | None) -> None:
    """A full window, a refused image and our own mistakes are no reason to ask another model."""
    assert error.reason == reason


def test_stored_cool_downs_are_read_back_and_nonsense_is_not() -> None:
    """A file that somebody edited cannot stop a turn."""
    cooldown = Cooldown(failures=2, reason="billing", failed_at_ms=NOW_MS, until_ms=NOW_MS + 1)
    assert from_json(to_json(cooldown)) == cooldown
    assert from_json({**to_json(cooldown), "reason": "mood"}) is None
    assert from_json({**to_json(cooldown), "untilMs": "soon"}) is None
    assert from_json([]) is None
