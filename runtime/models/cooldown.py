"""The time for which a failed model is not asked.

The numbers are OpenClaw's: 1, 5, 25, then 60 minutes for failures in a row, and 5 hours doubling to 24 for an
account without credit. An answer, or a day without a failure, resets them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import FailureReason, ModelError, RateLimited
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import locked, read_plain, replace_file, set_aside

log = logging.getLogger(__name__)

FORGOTTEN_AFTER_SECONDS = 24 * 60 * 60
_STORED_NAMES = {
    "failures": "failures",
    "reason": "reason",
    "failed_at_ms": "failedAtMs",
    "until_ms": "untilMs",
}


class Cooldown(Record):
    """Failures in a row: their number, the reason and time of the last one, and the end of the pause."""

    failures: int
    reason: FailureReason
    failed_at_ms: int
    until_ms: int


def cooldown_key(model_name: str, reason: FailureReason) -> str:
    """The key of a failure: the provider's account for a bad key or no credit, else the model."""
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
    """The cool-down after one more failure; `None` if nothing cools down.

    A malformed request does not count, because one broken session must not block a model for all others. A
    request that began before the last failure counts as the same one, because several sessions can hit a
    limit together. `retry_after_seconds` is the provider's wish.
    """
    if reason == "format":
        return None
    if previous is not None and is_forgotten(previous, now_ms=now_ms):
        previous = None
    if previous is not None and asked_at_ms < previous.failed_at_ms:
        return previous
    failures = 1 if previous is None else previous.failures + 1
    hour = 60 * 60
    first, factor, longest = (5 * hour, 2, 24 * hour) if reason == "billing" else (60, 5, hour)
    pause_seconds = min(first * float(factor) ** min(failures - 1, 10), longest)
    seconds = max(pause_seconds, retry_after_seconds or 0.0)
    return Cooldown(
        failures=failures, reason=reason, failed_at_ms=now_ms, until_ms=now_ms + round(seconds * 1000)
    )


def is_forgotten(cooldown: Cooldown, *, now_ms: int) -> bool:
    """Whether the last failure is too old to count, or the clock was set back."""
    age_ms = now_ms - cooldown.failed_at_ms
    return age_ms < 0 or (age_ms >= FORGOTTEN_AFTER_SECONDS * 1000 and now_ms >= cooldown.until_ms)


def cooling(cooldowns: Mapping[str, Cooldown], model_name: str, *, now_ms: int) -> Cooldown | None:
    """The current cool-down of a model or of its provider, whichever is longer."""
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
    """The free models in their order, then the cooling ones by the end of their pause.

    Cooling models are asked last, because all others may fail.
    """

    def until_ms(name: str) -> int:
        cooldown = cooling(cooldowns, name, now_ms=now_ms)
        return cooldown.until_ms if cooldown else 0

    return tuple(sorted(names, key=until_ms))


def to_json(cooldown: Cooldown) -> dict[str, Any]:
    return {stored: getattr(cooldown, name) for name, stored in _STORED_NAMES.items()}


def from_json(raw: object) -> Cooldown | None:
    """Parses a stored cool-down; `None` if it is invalid."""
    if not isinstance(raw, Mapping) or raw.get("reason") not in get_args(FailureReason):
        return None
    found: dict[str, Any] = {name: raw.get(stored) for name, stored in _STORED_NAMES.items()}
    numbers = [value for name, value in found.items() if name != "reason"]
    return Cooldown(**found) if all(isinstance(value, int) and value > 0 for value in numbers) else None


VERSION = 1


class CooldownFile:
    """The cool-downs of one state folder. `path` need not exist."""

    def __init__(self, path: Path, *, now: Clock) -> None:
        self._path = path
        self._now = now
        self._here: dict[str, Cooldown] = {}

    async def read(self) -> Mapping[str, Cooldown]:
        """All cool-downs by key; those of this process take precedence."""
        try:
            stored = await asyncio.to_thread(self._stored)
        except SessionError as error:
            log.warning("the cool-downs of models cannot be read: %s", error)
            stored = {}
        return {**stored, **self._here}

    async def failed(self, model_name: str, error: ModelError, *, asked_at_ms: int) -> None:
        """Counts a failure. `asked_at_ms` is the start of the failed request."""
        reason = error.reason
        if reason is None:
            return
        key = cooldown_key(model_name, reason)
        now_ms = epoch_ms(self._now())
        wish = error.retry_after_seconds if isinstance(error, RateLimited) else None

        def counted(cooldowns: dict[str, Cooldown]) -> None:
            cooldown = after_failure(
                cooldowns.get(key), reason, asked_at_ms=asked_at_ms, now_ms=now_ms, retry_after_seconds=wish
            )
            if cooldown is not None:
                cooldowns[key] = cooldown
                log.warning("%s is not asked until %d (%s)", key, cooldown.until_ms, reason)

        if reason == "auth":
            counted(self._here)
        elif reason != "format":
            await self._change(counted)

    async def answered(self, model_name: str) -> None:
        """Removes the failures of a model that answered, and of its account."""
        keys = {model_name, cooldown_key(model_name, "auth")}
        for key in keys:
            self._here.pop(key, None)
        if keys & (await self.read()).keys():
            await self._change(lambda cooldowns: [cooldowns.pop(key, None) for key in keys])

    async def _change(self, change: Callable[[dict[str, Cooldown]], object]) -> None:
        try:
            await asyncio.to_thread(self._changed, change)
        except SessionError as error:
            log.warning("the cool-downs of models are kept in this process only: %s", error)
            change(self._here)

    def _changed(self, change: Callable[[dict[str, Cooldown]], object]) -> None:
        with locked(self._path):
            cooldowns = self._stored(sets_aside=True)
            change(cooldowns)
            now_ms = epoch_ms(self._now())
            kept = {
                key: to_json(cooldown)
                for key, cooldown in cooldowns.items()
                if not is_forgotten(cooldown, now_ms=now_ms)
            }
            text = json.dumps({"version": VERSION, "cooldowns": kept}, indent=2)
            replace_file(self._path, text.encode("utf-8"))

    def _stored(self, *, sets_aside: bool = False) -> dict[str, Cooldown]:
        found = read_plain(self._path)
        if found is None:
            return {}
        try:
            raw = json.loads(found[0])
            if raw["version"] != VERSION:
                raise ValueError(raw["version"])
            read = {key: from_json(value) for key, value in raw["cooldowns"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("the cool-downs in %s cannot be read", self._path)
            if sets_aside:
                set_aside(self._path, found[0], now=self._now)
            return {}
        return {key: cooldown for key, cooldown in read.items() if cooldown is not None}
