"""Something that is done again and again, and not too often: edits of a message, the sign of typing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Throttle(Generic[T]):
    """Does something with the newest value, at most once in so many seconds.

    It is for what may be left out: when `act` fails that is logged, and nothing more is done.
    """

    def __init__(self, act: Callable[[T], Awaitable[None]], *, seconds: float, sleep: Sleep) -> None:
        self._act = act
        self._seconds = seconds
        self._sleep = sleep
        self._newest: list[T] = []
        self._task: asyncio.Task[None] | None = None
        self._is_acting = False
        self._is_closed = False

    def put(self, value: T) -> None:
        """Has this value acted on, soon, unless a newer one comes before."""
        self._newest = [value]
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Ends it. What is being done is finished first, so that nothing of it comes later."""
        self._is_closed, task = True, self._task
        if task is None:
            return
        if not self._is_acting:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _is_ending(self) -> bool:
        return self._is_closed

    async def _run(self) -> None:
        try:
            while self._newest and not self._is_ending():
                self._is_acting = True
                await self._act(self._newest.pop())
                self._is_acting = False
                if not self._is_ending():
                    await self._sleep(self._seconds)
            self._task = None
        except Exception as error:  # noqa: BLE001 - a sign that cannot be shown must not cost the answer
            log.warning("nothing more is shown while an answer is written: %s", error)
        finally:
            self._is_acting = False


async def repeated(act: Callable[[], Awaitable[None]], *, seconds: float, sleep: Sleep) -> None:
    """Does something every so many seconds until it is cancelled, or fails once."""
    try:
        while True:
            await act()
            await sleep(seconds)
    except Exception as error:  # noqa: BLE001 - as above
        log.warning("typing is not shown: %s", error)
