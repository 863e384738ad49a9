"""Blocking work for one object, one piece after the other, on threads. Knows no file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class OrderedWorker:
    """Runs blocking work on a thread in the order of the calls.

    Work that has been asked for is always finished: cancelling the caller waits for it first, so that
    an object and its file never disagree. A second cancellation stops the waiting, not the work.
    """

    def __init__(self) -> None:
        self._last: asyncio.Future[Any] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was asked for is done."""
        return self._last is None or self._last.done()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or its exception."""
        before = self._last
        mine: asyncio.Future[T]
        if before is None or before.done():
            mine = _on_a_thread(work)
        else:
            mine = asyncio.ensure_future(_behind(before, work))
        self._last = mine
        return await to_its_end(mine)


async def to_its_end(work: asyncio.Future[T]) -> T:
    """The result of work that others may wait for too. A caller that is cancelled waits for its end first."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({work})
        if work.done() and not work.cancelled() and work.exception():
            log.warning("work of a cancelled call failed: %s", work.exception())
        raise


def _on_a_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)


async def _behind(before: asyncio.Future[Any], work: Callable[[], T]) -> T:
    await asyncio.wait({before})
    return await _on_a_thread(work)
