"""How long a model that failed is left alone. Pure: failures and moments in, moments out.

Numbers are OpenClaw's: 1, 5, 25, then 60 minutes for failures in a row, and 5 hours doubling to 24 for
an account without credit. A day without a failure, or an answer, makes it all forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from nacre.records.record import Record
from nacre.runtime.contracts.errors import FailureReason

FORGOTTEN_AFTER_SECONDS = 24 * 60 * 60
_STORED_NAMES = {
    "failures": "failures",
    "reason": "reason",
    "failed_at_ms": "failedAtMs",
    "until_ms": "untilMs",
}


class Cooldown(Record):
    """What is known of failures in a row: their number, the last one's reason and moment, and the end."""

    failures: int
    reason: FailureReason
    failed_at_ms: int
    until_ms: int


def cooldown_key(model_name: str, reason: FailureReason) -> str:
    """Whom a failure is held against: the provider's account for a key or credit, else the model."""
    provider, slash, _ = model_name.partition("/")
    return f"{provider}/*" if slash and reason in ("auth", "billing") else model_name


def after_failure(
    previous: Cooldown | None,
    reason: FailureReason,
    *,
    asked_at_ms: int,
    now_ms: int,
    retry_after_seconds: float | None = None,
) -> Cooldown | None:
    """The cool-down after one more failure; `None` when nothing is cooled down.

    A malformed request says nothing about the model: one broken session must not take it from all the
    others. A request that was under way before the last failure is part of that failure: ten sessions that
    hit one limit together count once. `retry_after_seconds` is the provider's own wish.
    """
    if reason == "format":
        return None
    if previous is not None and is_forgotten(previous, now_ms=now_ms):
        previous = None
    if previous is not None and asked_at_ms < previous.failed_at_ms:
        return previous
    failures = 1 if previous is None else previous.failures + 1
    seconds = max(_seconds(failures, reason), retry_after_seconds or 0.0)
    return Cooldown(
        failures=failures, reason=reason, failed_at_ms=now_ms, until_ms=now_ms + round(seconds * 1000)
    )


def is_forgotten(cooldown: Cooldown, *, now_ms: int) -> bool:
    """Whether so long has passed without a failure that it counts no more, or the clock went back."""
    age_ms = now_ms - cooldown.failed_at_ms
    return age_ms < 0 or (age_ms >= FORGOTTEN_AFTER_SECONDS * 1000 and now_ms >= cooldown.until_ms)


def cooling(cooldowns: Mapping[str, Cooldown], model_name: str, *, now_ms: int) -> Cooldown | None:
    """What keeps a model cool at this moment, of its own and its provider's the longer one."""
    keys = (model_name, cooldown_key(model_name, "auth"))
    found = [
        cooldown
        for key in keys
        if (cooldown := cooldowns.get(key)) is not None
        and cooldown.until_ms > now_ms
        and not is_forgotten(cooldown, now_ms=now_ms)
    ]
    return max(found, key=lambda cooldown: cooldown.until_ms, default=None)


def asking_order(names: Sequence[str], cooldowns: Mapping[str, Cooldown], *, now_ms: int) -> tuple[str, ...]:
    """The models that are free, in their order, then those cooling down, the soonest free one first.

    A cooling model stays in the list: when everything else has failed too, the person's words are worth
    one more try.
    """

    def place(name: str) -> int:
        cooldown = cooling(cooldowns, name, now_ms=now_ms)
        return cooldown.until_ms if cooldown else 0

    return tuple(sorted(names, key=place))


def to_json(cooldown: Cooldown) -> dict[str, Any]:
    return {stored: getattr(cooldown, name) for name, stored in _STORED_NAMES.items()}


def from_json(raw: object) -> Cooldown | None:
    """Reads one stored cool-down; `None` when its shape is not ours."""
    if not isinstance(raw, Mapping) or raw.get("reason") not in get_args(FailureReason):
        return None
    found: dict[str, Any] = {name: raw.get(stored) for name, stored in _STORED_NAMES.items()}
    numbers = [value for name, value in found.items() if name != "reason"]
    return Cooldown(**found) if all(isinstance(value, int) and value > 0 for value in numbers) else None


def _seconds(failures: int, reason: FailureReason) -> float:
    hour = 60 * 60
    first, factor, longest = (5 * hour, 2, 24 * hour) if reason == "billing" else (60, 5, hour)
    return min(first * float(factor) ** min(failures - 1, 10), longest)
