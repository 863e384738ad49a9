"""After a failure the embedder is left alone for a while, whatever happens to the notes meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.memory.engine import MemoryEngine
from nacre.memory.sync.fallback import FIRST_PAUSE_SECONDS
from nacre.memory.sync.syncing import VECTORS_AFTER_SECONDS
from tests.faults.drivers import SteppedLoop
from tests.memory.doubles import DeadEmbedder, open_engine, workspace


async def _after(loop: SteppedLoop, engine: MemoryEngine, seconds: float) -> None:
    """Lets time pass, and waits until the engine has done what became due by that."""
    loop.ahead_seconds += seconds
    async with asyncio.timeout(20):
        await engine.status()  # what is due begins while this waits for the store
        while (await engine.status()).syncing:
            pass


@pytest.mark.covers("ATT-18")
def test_a_change_does_not_cut_short_the_pause_after_a_failure(tmp_path: Path) -> None:
    """A note that changes during the pause is found by words; the embedder is asked when the pause ends."""
    loop = SteppedLoop()

    async def follow() -> None:
        workspace(tmp_path, {"MEMORY.md": "Anna likes tea.\n"})
        embedder = DeadEmbedder()
        engine = await open_engine(tmp_path, {"sync": {"watch": False}}, embedder=embedder)
        await engine.sync(reason="cli")
        await engine.start_watching()
        await _after(loop, engine, VECTORS_AFTER_SECONDS)
        assert embedder.calls == 2

        workspace(tmp_path, {"memory/2026-02-10.md": "Boris keeps bees.\n"})
        engine.session_started()
        await _after(loop, engine, 0)
        await _after(loop, engine, 2 * VECTORS_AFTER_SECONDS)
        status = await engine.status()
        assert (status.files, embedder.calls) == (2, 2)

        await _after(loop, engine, 2 * FIRST_PAUSE_SECONDS)
        assert embedder.calls == 3
        await engine.close()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(follow())
