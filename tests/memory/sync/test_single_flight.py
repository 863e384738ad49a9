"""One run at a time, and nobody gets one that began before they asked."""

from __future__ import annotations

import asyncio

import pytest

from nacre.memory.contracts.errors import IndexBusy, IndexClosed
from nacre.memory.contracts.records import SyncProgress
from nacre.memory.sync.syncing import SingleFlight, SyncRun


class Work:
    """Work that ends when it is let go; notes what it was called with."""

    def __init__(self) -> None:
        self.runs: list[SyncRun] = []
        self.gates: list[asyncio.Event] = []
        self.most_at_once = self._now = 0
        self._changed = asyncio.Condition()

    async def __call__(self, run: SyncRun) -> int:
        async with self._changed:
            self.runs.append(run)
            gate = asyncio.Event()
            self.gates.append(gate)
            self._changed.notify_all()
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await gate.wait()
        finally:
            self._now -= 1
        return len(self.runs)

    async def started(self, count: int) -> None:
        """Waits until `count` runs have begun."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.gates) >= count)


async def test_callers_during_a_run_share_the_next_one() -> None:
    """Three callers while one run is busy get the same second run, and never two runs at once."""
    work = Work()
    flight = SingleFlight("test", work)
    first = asyncio.create_task(flight.run("one"))
    await work.started(1)
    others = [asyncio.create_task(flight.run("later")) for _ in range(3)]
    await asyncio.sleep(0)
    work.gates[0].set()
    await work.started(2)
    work.gates[1].set()

    assert await first == 1
    assert await asyncio.gather(*others) == [2, 2, 2]
    assert work.most_at_once == 1
    assert not flight.busy


async def test_force_is_handed_to_the_next_run() -> None:
    """One of the sharers asked for force, so the shared run is forced; the running one is not touched."""
    work = Work()
    flight = SingleFlight("test", work)
    tasks = [asyncio.create_task(flight.run("one"))]
    await work.started(1)
    tasks += [asyncio.create_task(flight.run("x", force=force)) for force in (False, True, False)]
    await asyncio.sleep(0)
    for count in (1, 2):
        await work.started(count)
        work.gates[count - 1].set()
    await asyncio.gather(*tasks)

    assert [run.force for run in work.runs] == [False, True]


async def test_a_caller_that_gives_up_does_not_stop_the_run() -> None:
    """The others still get its result."""
    work = Work()
    flight = SingleFlight("test", work)
    first = asyncio.create_task(flight.run("one"))
    await work.started(1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert flight.busy
    second = asyncio.create_task(flight.run("two"))
    await asyncio.sleep(0)
    work.gates[0].set()
    await work.started(2)
    work.gates[1].set()
    assert await second == 2


@pytest.mark.covers("CLI-5", "CLI-8", "CLI-9", "Q-11")
async def test_closing_ends_what_runs_and_tells_who_waits() -> None:
    """The waiting caller gets an error with a name, and later ones as well."""
    work = Work()
    flight = SingleFlight("test", work)
    waiting = asyncio.create_task(flight.run("one"))
    await work.started(1)
    queued = asyncio.create_task(flight.run("two"))
    await asyncio.sleep(0)

    await flight.close()

    for task in (waiting, queued):
        with pytest.raises(IndexClosed):
            await task
    with pytest.raises(IndexClosed):
        await flight.run("three")


@pytest.mark.covers("IDX-7")
async def test_a_failure_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has to catch it, and the next run starts afresh."""

    async def fails(run: SyncRun) -> int:
        raise IndexBusy("The index is held by another process.")

    flight = SingleFlight("memory sync", fails)
    task = flight.start("watch")
    await asyncio.wait({task})
    await asyncio.sleep(0)

    assert "memory sync failed: The index is held" in caplog.text
    with pytest.raises(IndexBusy):
        await flight.run("again")


async def test_progress_goes_to_whoever_listens() -> None:
    """A caller's listener hears its run's progress and nothing after it."""
    told: list[int] = []

    async def counts(run: SyncRun) -> int:
        run.tell(SyncProgress(stage="index", completed=3, total=3, elapsed_seconds=1, eta_seconds=0))
        return 0

    flight = SingleFlight("test", counts)
    await flight.run("one", listener=lambda progress: told.append(progress.completed))
    await flight.run("two")

    assert told == [3]
