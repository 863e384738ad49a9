"""An embedder and its fallback over one index: engines that come one after the other, or run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.open_embedder import FallbackEmbedder
from nacre.memory.contracts.records import SearchReport
from nacre.memory.engine import MemoryEngine
from nacre.memory.sync.fallback import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, pause_seconds
from nacre.memory.sync.syncing import VECTORS_AFTER_SECONDS
from tests.faults.drivers import SteppedLoop
from tests.memory.doubles import NOON, DeadEmbedder, WordEmbedder, open_engine, workspace

NOTES = {"memory/2026-02-10.md": "Boris keeps bees.\n", "memory/2026-02-11.md": "Anna plays chess.\n"}


class Hours:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime:
        return self.at

    def go(self, seconds: float) -> None:
        """Lets time pass."""
        self.at += timedelta(seconds=seconds)


class Named(DeadEmbedder):
    """Fails until `alive`; its vectors are of another length than the fallback's."""

    def __init__(self, *, alive: bool = False) -> None:
        super().__init__()
        self.facts = WordEmbedder(model="named", dimensions=32).facts
        self._dimensions = 32
        self.alive = alive


class OnlyShort(Named):
    """Answers a single text, and fails with several: a provider that limits how much it takes."""

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.alive = len(texts) == 1
        return await super().embed_documents(texts)


@asynccontextmanager
async def memory(
    root: Path, first: WordEmbedder, second: WordEmbedder, now: Hours
) -> AsyncIterator[MemoryEngine]:
    """An engine as a process of its own would open it."""
    both = FallbackEmbedder(first, second)
    engine = await open_engine(root, {"query": {"minScore": 0}}, embedder=both, now=now)
    both.on_switch = engine.embedder_changed
    try:
        yield engine
    finally:
        await engine.close()


def by_meaning(report: SearchReport) -> tuple[str, str, str]:
    """How a search was answered."""
    return report.mode, report.model, report.fallback.provider if report.fallback else ""


async def left(root: Path, now: Hours) -> WordEmbedder:
    """An index whose vectors a fallback made; what made them."""
    workspace(root, NOTES)
    second = WordEmbedder(model="second")
    async with memory(root, Named(), second, now) as engine:
        report = await engine.sync(reason="test")
    assert (report.embedded, report.pending_vectors) == (2, 0)
    return second


@pytest.mark.covers("SEED-13")
async def test_the_embedder_that_was_left_is_asked_again_after_its_rest(tmp_path: Path) -> None:
    """Not before; the rest doubles with each failure; when it answers, all vectors are its own again."""
    now = Hours()
    second = await left(tmp_path, now)
    first, made = Named(), len(second.asked)
    for failures in range(1, 4):
        async with memory(tmp_path, first, second, now) as engine:
            await engine.sync(reason="turn")
            assert first.calls == failures - 1, "it rests"
            now.go(pause_seconds(failures))
            await engine.sync(reason="turn")
            assert first.calls == failures
            assert by_meaning(await engine.search("bees")) == ("hybrid", "second", "test")
    assert pause_seconds(3) == 4 * FIRST_PAUSE_SECONDS
    assert pause_seconds(99) == LONGEST_PAUSE_SECONDS

    first.alive = True
    now.go(LONGEST_PAUSE_SECONDS)
    async with memory(tmp_path, first, second, now) as engine:
        report = await engine.sync(reason="turn")
        found, status = await engine.search("bees"), await engine.status()
    assert (report.embedded, report.problem, report.fallback) == (2, "", None)
    assert by_meaning(found) == ("hybrid", "named", "")
    assert (status.dimensions, status.vectors, status.pending_vectors) == (32, 2, 0)
    assert len(second.asked) == made, "the fallback made each vector once"


async def test_a_return_that_fails_at_once_counts_as_a_further_failure(tmp_path: Path) -> None:
    """A provider that takes one text and not twenty is not changed to and fro every half minute."""
    now = Hours()
    second = await left(tmp_path, now)
    made, rests = len(second.asked), []
    for _ in range(3):
        async with memory(tmp_path, OnlyShort(), second, now) as engine:
            await engine.sync(reason="cli")
            status = await engine.status()
        assert (status.vectors, status.dimensions, status.pending_vectors) == (2, 64, 0)
        assert status.fallback is not None
        rests.append((status.fallback.retry_at_seconds or 0) - now().timestamp())

    assert rests == [pause_seconds(2), pause_seconds(3), pause_seconds(4)]
    assert len(second.asked) == made, "its vectors were kept and attached again"


@pytest.mark.covers("ATT-8", "Q-36")
async def test_engines_side_by_side_agree_without_changing_to_and_fro(tmp_path: Path) -> None:
    """When one leaves the provider, the other searches with the new vectors; when one returns, so does it."""
    now = Hours()
    workspace(tmp_path, NOTES)
    first, other, second = Named(alive=True), Named(), WordEmbedder(model="second")
    async with memory(tmp_path, first, second, now) as one, memory(tmp_path, other, second, now) as two:
        await one.sync(reason="test")
        workspace(tmp_path, {"MEMORY.md": "Clara sings.\n"})
        two.mark_dirty()
        await two.sync(reason="test")
        asked = first.calls
        assert by_meaning(await one.search("bees")) == ("hybrid", "second", "test")
        await one.sync(reason="turn")
        assert first.calls == asked
        assert by_meaning(await two.search("chess")) == ("hybrid", "second", "test")

        await one.sync(reason="cli")
        other.alive = True
        assert by_meaning(await two.search("song")) == ("hybrid", "named", "")
        await two.sync(reason="turn")
        status = await two.status()
    assert (status.vectors, status.dimensions, status.identity_problem) == (3, 32, "")


async def test_a_rebuild_keeps_whose_vectors_there_are_and_why(tmp_path: Path) -> None:
    """`--force` asks the provider again; while it fails, the next process knows of the fallback."""
    now = Hours()
    second = await left(tmp_path, now)
    async with memory(tmp_path, Named(), second, now) as engine:
        report = await engine.sync(reason="cli", force=True)
    async with memory(tmp_path, Named(), second, now) as engine:
        found, status = await engine.search("bees"), await engine.status()

    assert (bool(report.rebuilt), report.embedded) == (True, 0)
    assert by_meaning(found) == ("hybrid", "second", "test")
    assert (status.vectors, status.identity_problem) == (2, "")
    assert status.fallback is not None
    assert status.fallback.reason == "The embedding server answered 503."


async def test_another_embedder_in_the_settings_begins_without_the_fallback(tmp_path: Path) -> None:
    """The note is about the embedder that failed; one that is named since then is asked at once."""
    now = Hours()
    second = await left(tmp_path, now)
    changed = Named(alive=True)
    changed.facts = WordEmbedder(model="changed", dimensions=32).facts
    async with memory(tmp_path, changed, second, now) as engine:
        report = await engine.sync(reason="turn")
        found = await engine.search("bees")

    assert (report.embedded, report.fallback) == (2, None)
    assert by_meaning(found) == ("hybrid", "changed", "")


async def test_a_question_that_failed_does_not_keep_the_fallback_waiting(tmp_path: Path) -> None:
    """The pause after a failed question is the failed embedder's alone."""
    now = Hours()
    workspace(tmp_path, NOTES)
    first, second = Named(alive=True), WordEmbedder(model="second")
    async with memory(tmp_path, first, second, now) as engine:
        await engine.sync(reason="test")
        first.alive = False
        assert "answered 503" in (await engine.search("bees")).degraded
        workspace(tmp_path, {"MEMORY.md": "Clara sings.\n"})
        engine.mark_dirty()
        await engine.sync(reason="test")
        found = await engine.search("bees")

    assert by_meaning(found) == ("hybrid", "second", "test")


async def test_a_failure_of_the_handed_over_pass_mixes_no_vectors(tmp_path: Path) -> None:
    """What the first pass had on its way is never stored as the other's, whoever answers first."""
    now = Hours()
    workspace(tmp_path, {f"memory/2026-02-{day:02}.md": f"Day {day} was quiet.\n" for day in range(1, 29)})

    class Tiring(Named):
        """Answers twice, the second time slower than it fails afterwards."""

        async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            self.alive = self.calls < 2
            vectors = await super().embed_documents(texts)
            await asyncio.sleep(0)
            return vectors

    second = WordEmbedder(model="second")
    async with memory(tmp_path, Tiring(), second, now) as engine:
        await engine.sync(reason="test")
        status = await engine.status()
    assert (status.vectors, status.dimensions, status.pending_vectors) == (28, 64, 0)
    assert {text for text in second.asked if text.startswith("Day")} == {
        f"Day {day} was quiet." for day in range(1, 29)
    }


def test_a_running_agent_comes_back_by_itself(tmp_path: Path) -> None:
    """Nothing changes in the notes, and nobody asks: when the rest is over, the first one makes vectors."""
    loop = SteppedLoop()
    now = Hours()

    async def after(engine: MemoryEngine, seconds: float) -> None:
        now.go(seconds)
        loop.ahead_seconds += seconds
        async with asyncio.timeout(20):
            await engine.status()  # what is due begins while this waits for the store
            while (await engine.status()).syncing:
                pass

    async def follow() -> None:
        second = await left(tmp_path, now)
        first = Named()
        async with memory(tmp_path, first, second, now) as engine:
            await engine.start_watching()
            await after(engine, VECTORS_AFTER_SECONDS)
            assert first.calls == 0
            first.alive = True
            await after(engine, FIRST_PAUSE_SECONDS)
            status = await engine.status()
        assert (status.model, status.vectors, status.dimensions) == ("named", 2, 32)
        assert status.fallback is None

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(follow())


async def test_nothing_is_noted_about_an_embedder_without_a_fallback(tmp_path: Path) -> None:
    """A single embedder that fails leaves words alone, as ever."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=Named())
    report = await engine.sync(reason="test")
    found = await engine.search("bees")
    await engine.close()

    assert (report.fallback, report.embedded, report.pending_vectors) == (None, 0, 2)
    assert (found.mode, found.fallback) == ("lexical", None)
