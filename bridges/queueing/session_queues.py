"""The queues of messages that wait for their turn, one per session, each with the task that answers them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from nacre.bridges.queueing.batches import COLLECTING, next_batch
from nacre.bridges.queueing.session_rules import QueueRules
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.ledger.records import Received

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0

Answer: TypeAlias = Callable[[tuple[Received, ...]], Awaitable[None]]
"""Answers a batch. Raises if the batch has to stay in the ledger."""
PutOutcome: TypeAlias = Literal["waits", "refused", "interrupts"]


class SessionQueue:
    """The queue of one session. `rules` is called for each batch. `clock` counts the same seconds as
    `sleep`.
    """

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
        return [received.number for received in (*self.running, *self._waiting)]

    @property
    def depth(self) -> int:
        return len(self._waiting)

    def put(self, received: Received) -> None:
        """Appends a message. If nothing runs, it is answered now."""
        self._waiting.append(received)
        self._last_put = self._clock()
        if self.task is None:
            self.task = asyncio.create_task(self._drain())

    @property
    def waiting(self) -> tuple[Received, ...]:
        return tuple(self._waiting)

    def take(self, count: int) -> list[Received]:
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def clear(self) -> list[Received]:
        return self.take(len(self._waiting))

    async def close(self) -> None:
        """Cancels the task. The batch that it was answering stays open in the ledger."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _drain(self) -> None:
        is_first = True
        try:
            while self._waiting:
                await self._debounce(is_first=is_first)
                is_first = False
                if not self._waiting:
                    break
                rules = self._rules()
                batch = next_batch(self._waiting, rules.mode, cap=rules.cap, is_alone=self._is_alone)
                self.take(len(batch))
                self.running = batch
                await self._try_answer(batch)
                self.running = ()
        finally:
            self.running = ()
            self.task = None
            self._on_idle()

    async def _try_answer(self, batch: tuple[Received, ...]) -> None:
        try:
            await self._answer(batch)
        except Exception:
            # Most likely the ledger failed. The turn is in the same state as after a kill and resumes so.
            log.exception("a turn could not be finished; the next attempt is in %g s", RETRY_SECONDS)
            turn = batch[0].number
            self._waiting[:0] = [replace(received, was_begun=True, turn=turn) for received in batch]
            self.running = ()
            await self._sleep(RETRY_SECONDS)

    async def _debounce(self, *, is_first: bool) -> None:
        """Waits until no message has arrived for as long as the rules say."""
        while self._waiting:
            rules, first = self._rules(), self._waiting[0]
            seconds = rules.first_debounce_seconds if is_first else rules.debounce_seconds
            if is_first and (rules.mode not in COLLECTING or first.was_begun or self._is_alone(first)):
                return  # no other message would join its batch
            left = self._last_put + seconds - self._clock()
            if left <= 0:
                return
            await self._sleep(left)


class SessionQueues:
    """The queues of all sessions.

    `answer` answers a batch. `rules` is called for each batch. `is_alone` tells which messages form a batch
    alone.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        rules: Callable[[Received], QueueRules],
        is_alone: Callable[[Received], bool],
        on_idle: Callable[[str], None],
        sleep: Sleep,
    ) -> None:
        self._answer = answer
        self._rules = rules
        self._is_alone = is_alone
        self._on_idle = on_idle
        self._sleep = sleep
        self._queues: dict[str, SessionQueue] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def running(self, key: str) -> tuple[Received, ...]:
        queue = self._queues.get(key)
        return queue.running if queue is not None else ()

    def waiting(self, key: str) -> tuple[Received, ...]:
        queue = self._queues.get(key)
        return queue.waiting if queue is not None else ()

    def depth(self, key: str) -> int:
        queue = self._queues.get(key)
        return queue.depth if queue is not None else 0

    def numbers(self) -> Iterator[int]:
        for queue in self._queues.values():
            yield from queue.numbers

    def put(self, received: Received) -> tuple[PutOutcome, list[Received]]:
        """Appends a message to its session's queue.

        Returns the outcome and the messages that are dropped for it. `interrupts` asks the caller to stop the
        running turn.
        """
        rules = self._rules(received)
        queue = self._queues.get(received.session_key) or self._new(received)
        if rules.drop == "new" and queue.depth >= rules.cap and queue.running:
            return "refused", []
        is_new = not received.was_begun and not received.inbound.trigger
        interrupts = rules.mode == "interrupt" and bool(queue.running) and is_new
        queue.put(received)
        dropped: list[Received] = []
        if rules.drop == "old" and queue.running and queue.depth > rules.cap:
            dropped = queue.take(queue.depth - rules.cap)
        return "interrupts" if interrupts else "waits", dropped

    def clear(self, key: str) -> list[Received]:
        queue = self._queues.get(key)
        return queue.clear() if queue is not None else []

    async def finish(self, seconds: float) -> None:
        """Starts no further batch and waits up to `seconds` for those that run."""
        for queue in list(self._queues.values()):
            queue.clear()
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Cancels all tasks. The batches that they were answering stay open in the ledger."""
        await asyncio.gather(*(queue.close() for queue in list(self._queues.values())))

    def _new(self, received: Received) -> SessionQueue:
        key = received.session_key
        queue = self._queues[key] = SessionQueue(
            self._answer,
            rules=lambda: self._rules(received),
            is_alone=self._is_alone,
            clock=asyncio.get_running_loop().time,
            sleep=self._sleep,
            on_idle=lambda: self._idle(key),
        )
        return queue

    def _idle(self, key: str) -> None:
        self._queues.pop(key, None)
        self._on_idle(key)
