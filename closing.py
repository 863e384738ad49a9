"""Closes a store after a block, and cancels tasks and waits for their end.

All rooms use it, so this is a module of the root, which imports nothing of Nacre.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio


class Closable(Protocol):
    """Anything with a coroutine method `close`."""

    async def close(self) -> None:
        """Releases what it holds."""


C = TypeVar("C", bound=Closable)


@asynccontextmanager
async def using(opened: C) -> AsyncIterator[C]:
    """Yields `opened` and closes it after the block. `contextlib.aclosing` does so for a method `aclose`."""
    try:
        yield opened
    finally:
        await opened.close()


async def stop_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancels the tasks and waits until all have ended, however they end."""
    from asyncio import gather  # slow to import, and loaded wherever there is a task

    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await gather(*running, return_exceptions=True)
