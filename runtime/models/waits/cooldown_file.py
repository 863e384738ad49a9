"""Cool-downs that outlast a restart and hold for every process of a state folder: one small JSON file.

    {"version": 1, "cooldowns": {"openai/gpt-5": {"failures": 2, "reason": "rate_limit",
                                                 "failedAtMs": 1773500000000, "untilMs": 1773500300000}}}

A refused key is remembered in this process only: after a restart the owner may have put in a better one.
A file that cannot be read is set aside, one that cannot be written costs no turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ModelError, RateLimited
from nacre.runtime.models.waits.cooldown import (
    Cooldown,
    after_failure,
    cooldown_key,
    from_json,
    is_forgotten,
    to_json,
)
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import read_plain, replace_file, set_aside
from nacre.sessions.disk.locks import locked

log = logging.getLogger(__name__)

VERSION = 1


class CooldownFile:
    """The cool-downs of one state folder. `path` need not exist."""

    def __init__(self, path: Path, *, now: Clock) -> None:
        self._path = path
        self._now = now
        self._here: dict[str, Cooldown] = {}

    async def read(self) -> Mapping[str, Cooldown]:
        """All cool-downs by whom they are held against; those of this process only win."""
        try:
            stored = await asyncio.to_thread(self._stored)
        except SessionError as error:
            log.warning("the cool-downs of models cannot be read: %s", error)
            stored = {}
        return {**stored, **self._here}

    async def failed(self, model_name: str, error: ModelError, *, asked_at_ms: int) -> None:
        """Counts a failure. `asked_at_ms` is when the request that failed was begun."""
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
                log.warning("%s is left alone until %d (%s)", key, cooldown.until_ms, reason)

        if reason == "auth":
            counted(self._here)
        elif reason != "format":
            await self._change(counted)

    async def answered(self, model_name: str) -> None:
        """Forgets the failures of a model that answered, and its account's."""
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
            log.warning("%s holds no cool-downs that can be read", self._path)
            if sets_aside:
                set_aside(self._path, found[0], now=self._now)
            return {}
        return {key: cooldown for key, cooldown in read.items() if cooldown is not None}
