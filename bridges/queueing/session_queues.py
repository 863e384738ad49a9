"""The queues of all sessions: what waits in which, and what becomes of a message that is one too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.queueing.chat_commands import QueueNow
from nacre.bridges.queueing.session_queue import Answer, SessionQueue
from nacre.runtime.ledger.records import Received

Rules: TypeAlias = Callable[[Received], QueueNow]
"""What holds for a message's session now."""
Put: TypeAlias = Literal["waits", "refused", "interrupts"]


class SessionQueues:
    """`answer` answers a batch, `rules` is asked anew for each, `is_alone` says what is never joined."""

    def __init__(
        self,
        answer: Answer,
        *,
        rules: Rules,
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
        """What is being answered in a session."""
        queue = self._queues.get(key)
        return queue.running if queue is not None else ()

    def waiting(self, key: str) -> tuple[Received, ...]:
        """What waits in a session."""
        queue = self._queues.get(key)
        return queue.waiting if queue is not None else ()

    def depth(self, key: str) -> int:
        """How many messages wait in a session."""
        queue = self._queues.get(key)
        return queue.depth if queue is not None else 0

    def numbers(self) -> Iterator[int]:
        """The messages that wait or are being answered, by number."""
        for queue in self._queues.values():
            yield from queue.numbers

    def put(self, received: Received) -> tuple[Put, list[Received]]:
        """Puts a message at the end of its session; what becomes of it, and the messages that make room.

        Nothing is cut off here: `interrupts` says that whoever asked has to stop the running turn.
        """
        now = self._rules(received)
        rules = now.rules
        queue = self._queues.get(received.session_key) or self._new(received)
        if now.drop == "new" and queue.depth >= rules.cap and queue.running:
            return "refused", []
        is_said = not received.was_begun and not received.inbound.trigger
        interrupts = rules.mode == "interrupt" and bool(queue.running) and is_said
        queue.put(received)
        dropped: list[Received] = []
        if now.drop == "old" and queue.running and queue.depth > rules.cap:
            dropped = queue.oldest(queue.depth - rules.cap)
        return "interrupts" if interrupts else "waits", dropped

    def clear(self, key: str) -> list[Received]:
        """Takes out what waits in a session."""
        queue = self._queues.get(key)
        return queue.clear() if queue is not None else []

    async def finish(self, seconds: float) -> None:
        """Lets running turns end, so long at most, and begins no further one."""
        for queue in list(self._queues.values()):
            queue.clear()
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Ends all of them; what was being answered stays open in the ledger."""
        await asyncio.gather(*(queue.close() for queue in list(self._queues.values())))

    def _new(self, received: Received) -> SessionQueue:
        key = received.session_key
        queue = self._queues[key] = SessionQueue(
            self._answer,
            rules=lambda: self._rules(received).rules,
            is_alone=self._is_alone,
            clock=asyncio.get_running_loop().time,
            sleep=self._sleep,
            on_idle=lambda: self._idle(key),
        )
        return queue

    def _idle(self, key: str) -> None:
        self._queues.pop(key, None)
        self._on_idle(key)
