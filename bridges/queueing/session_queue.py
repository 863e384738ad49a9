"""The messages of one session that wait, and the one task that answers them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.queueing.waiting import COLLECTING, next_batch
from nacre.record import Record
from nacre.runtime.ledger.records import Received
from nacre.runtime.settings.sections.channels import QueueMode

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0

Answer = Callable[[tuple[Received, ...]], Awaitable[None]]
"""Answers a batch; raises when it is to stay in the ledger for the next start."""


class QueueRules(Record):
    """What holds for a session's queue now."""

    mode: QueueMode
    debounce_seconds: float
    first_debounce_seconds: float
    """How long an idle session waits for more before it answers."""
    cap: int


class SessionQueue:
    """One session's. `rules` is asked anew for each batch, `clock` counts seconds as `sleep` does."""

    def __init__(
        self,
        answer: Answer,
        *,
        rules: Callable[[], QueueRules],
        is_alone: Callable[[Received], bool],
        clock: Callable[[], float],
        sleep: Sleep,
        on_idle: Callable[[], None],
    ) -> None:
        self._answer = answer
        self._rules = rules
        self._is_alone = is_alone
        self._clock = clock
        self._sleep = sleep
        self._on_idle = on_idle
        self._waiting: list[Received] = []
        self._last_put = 0.0
        self.running: tuple[Received, ...] = ()
        """What is being answered now."""
        self.task: asyncio.Task[None] | None = None

    @property
    def numbers(self) -> list[int]:
        """The messages that wait or are being answered, by number."""
        return [received.number for received in (*self.running, *self._waiting)]

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def put(self, received: Received) -> None:
        """Puts a message at the end, and has it answered: now, if nothing runs."""
        self._waiting.append(received)
        self._last_put = self._clock()
        if self.task is None:
            self.task = asyncio.create_task(self._drain())

    @property
    def waiting(self) -> tuple[Received, ...]:
        """What waits."""
        return tuple(self._waiting)

    def oldest(self, count: int) -> list[Received]:
        """Takes so many of the oldest out."""
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def clear(self) -> list[Received]:
        """Takes everything out that waits."""
        return self.oldest(len(self._waiting))

    async def close(self) -> None:
        """Ends the task; what it was answering stays open in the ledger."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _drain(self) -> None:
        is_first = True
        try:
            while self._waiting:
                await self._quiet(is_first=is_first)
                is_first = False
                if not self._waiting:
                    break
                rules = self._rules()
                batch = next_batch(self._waiting, rules.mode, cap=rules.cap, is_alone=self._is_alone)
                self.oldest(len(batch))
                self.running = batch
                await self._answered(batch)
                self.running = ()
        finally:
            self.running = ()
            self.task = None
            self._on_idle()

    async def _answered(self, batch: tuple[Received, ...]) -> None:
        try:
            await self._answer(batch)
        except Exception:
            # The ledger refused, most likely. The turn is as it is after a kill, and is finished like that.
            log.exception("a turn could not be finished; it is tried again in %g s", RETRY_SECONDS)
            turn = batch[0].number
            self._waiting[:0] = [replace(received, was_begun=True, turn=turn) for received in batch]
            self.running = ()
            await self._sleep(RETRY_SECONDS)

    async def _quiet(self, *, is_first: bool) -> None:
        """Waits until nothing has come for as long as the rules say."""
        while self._waiting:
            rules, first = self._rules(), self._waiting[0]
            seconds = rules.first_debounce_seconds if is_first else rules.debounce_seconds
            if is_first and (rules.mode not in COLLECTING or first.was_begun or self._is_alone(first)):
                return  # nothing would be put together with it
            left = self._last_put + seconds - self._clock()
            if left <= 0:
                return
            await self._sleep(left)
