"""Blocking work for one object, one piece after the other, on threads. Knows no file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class OrderedWorker:
    """Runs blocking work on a thread in the order of the calls.

    Work that has been asked for is always finished: cancelling the caller waits for it first, so that
    an object and its file never disagree. A second cancellation stops the waiting, not the work.
    """

    def __init__(self) -> None:
        self._order = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or its exception."""
        task = asyncio.create_task(self._in_order(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
            if task.done() and not task.cancelled() and task.exception():
                log.warning("work of a cancelled call failed: %s", task.exception())
            raise

    async def _in_order(self, work: Callable[[], T]) -> T:
        async with self._order:
            return await asyncio.to_thread(work)
