"""A turn's deadline, and what does not count against it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(deadline: asyncio.Timeout) -> Iterator[None]:
    """Stops a deadline that is running, and goes on with what was left of it.

    For work that has limits of its own and takes as long as a history is: a compaction that the turn's
    time ended each time would never be done.
    """
    loop = asyncio.get_running_loop()
    ends_at = deadline.when()
    left_seconds = None if ends_at is None else ends_at - loop.time()
    deadline.reschedule(None)
    try:
        yield
    finally:
        deadline.reschedule(None if left_seconds is None else loop.time() + left_seconds)
