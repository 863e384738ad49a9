"""Runs one sync at a time; callers that arrive during a run share the next one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from nacre.memory.contracts.errors import IndexClosed, MemoryIndexError
from nacre.memory.contracts.records import SyncProgress

log = logging.getLogger(__name__)

T = TypeVar("T")
ProgressListener = Callable[[SyncProgress], None]


@dataclass
class SyncRun:
    """A run in progress: its reason, whether it starts afresh, and its progress listeners."""

    reason: str
    force: bool
    listeners: list[ProgressListener] = field(default_factory=list)

    def tell(self, progress: SyncProgress) -> None:
        """Passes progress to the listeners."""
        for listener in self.listeners:
            listener(progress)

    def advance(self, stage: Literal["index", "embed"]) -> Callable[[int, int], None]:
        """A function that takes how much of a stage is done, and estimates the remaining time."""
        started = time.perf_counter()

        def advance(done: int, total: int) -> None:
            elapsed = time.perf_counter() - started
            self.tell(
                SyncProgress(
                    stage=stage,
                    completed=done,
                    total=total,
                    elapsed_seconds=elapsed,
                    eta_seconds=elapsed / done * (total - done) if done else None,
                )
            )

        return advance


class SingleFlight(Generic[T]):
    """Runs `work` one at a time. Each caller gets a run that started after its call, shared with others."""

    def __init__(self, name: str, work: Callable[[SyncRun], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._running: tuple[SyncRun, asyncio.Task[T]] | None = None
        self._queued: tuple[SyncRun, asyncio.Task[T]] | None = None
        self._started = 0.0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return self._running is not None and not self._running[1].done()

    @property
    def running_seconds(self) -> float:
        """How long the present run has been running; 0 without one."""
        return time.monotonic() - self._started if self.busy else 0.0

    async def run(self, reason: str, *, force: bool = False, listener: ProgressListener | None = None) -> T:
        """Waits for a run of its own or a shared one. Cancelling the caller does not cancel the run.

        Raises:
            IndexClosed: the engine is closed, or was closed during the run.
        """
        run, task = self._join(reason, force=force)
        if listener is not None:
            run.listeners.append(listener)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise IndexClosed("The memory engine was closed while it was syncing.") from None
            raise
        finally:
            if listener is not None:
                run.listeners.remove(listener)

    def start(self, reason: str) -> asyncio.Task[T]:
        """Starts a run in the background, or joins the next one. A failure is logged as a warning."""
        _, task = self._join(reason, force=False)
        task.add_done_callback(self._log_failure)
        return task

    async def close(self) -> None:
        """Cancels all runs and waits until they have released the store."""
        self._closed = True
        tasks = [pair[1] for pair in (self._queued, self._running) if pair and not pair[1].done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _join(self, reason: str, *, force: bool) -> tuple[SyncRun, asyncio.Task[T]]:
        if self._closed:
            raise IndexClosed("The memory engine is closed; open it again to sync.")
        if self._running is None or self._running[1].done():
            run = SyncRun(reason=reason, force=force)
            task = asyncio.create_task(self._work(run), name=f"{self._name}-{reason}")
            self._running = (run, task)
            self._started = time.monotonic()
            return self._running
        if self._queued is None:
            run = SyncRun(reason=reason, force=force)
            task = asyncio.create_task(self._after(self._running[1], run), name=f"{self._name}-{reason}")
            self._queued = (run, task)
        self._queued[0].force |= force
        return self._queued

    async def _after(self, before: asyncio.Task[T], run: SyncRun) -> T:
        await asyncio.wait({before})
        self._running, self._queued = self._queued, None
        self._started = time.monotonic()
        return await self._work(run)

    def _log_failure(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, MemoryIndexError):
            log.warning("%s failed: %s", self._name, error)
        elif error is not None:
            log.error("%s failed", self._name, exc_info=error)
