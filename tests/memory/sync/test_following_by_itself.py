"""What an engine looks at without being asked: transcripts that grew, and files at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.engine import MemoryEngine
from nacre.memory.sync.syncing import QUIET_SECONDS
from tests.faults.drivers import SteppedLoop
from tests.memory.doubles import open_engine, workspace
from tests.memory.sync.test_transcripts import Transcripts

UNASKED = {"watch": False, "onSearch": False, "onSessionStart": False}
"""No search, no session and no change of a file starts a sync."""

Story = Callable[[SteppedLoop], Coroutine[Any, Any, None]]


class CountedTranscripts(Transcripts):
    """Counts how often it was looked at."""

    looks = 0

    async def transcripts(self) -> Any:
        """All of them."""
        self.looks += 1
        return await super().transcripts()


class FrozenLoop(SteppedLoop):
    """Its clock stands still unless a test puts it forward."""

    def time(self) -> float:
        """The loop's clock."""
        return self.ahead_seconds


def run(story: Story) -> None:
    """Runs it on a loop of its own."""
    loop = FrozenLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story(loop))


async def after(loop: SteppedLoop, engine: MemoryEngine, seconds: float) -> None:
    """Lets time pass, and waits until the engine has done what became due by that."""
    await asyncio.sleep(0)  # what was begun begins to wait
    loop.ahead_seconds += seconds
    for _ in range(3):  # a timer, what it looks at, what it starts
        await engine.status()
    while (await engine.status()).syncing:
        pass


async def found(engine: MemoryEngine, word: str) -> int:
    return len((await engine.search(word, min_score=0)).hits)


@pytest.mark.covers("SEED-12", "PART-16", "PART-23")
def test_a_transcript_that_grew_by_enough_is_indexed_unasked(tmp_path: Path) -> None:
    """Soon after the message that crossed the threshold, without a search; what grew less waits."""

    async def story(loop: SteppedLoop) -> None:
        workspace(tmp_path, {})
        said = CountedTranscripts({"s1.jsonl": ["User: my parrot is called Polly"]})
        settings = {
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "sync": UNASKED | {"sessions": {"deltaBytes": 1_000_000, "deltaMessages": 3}},
        }
        engine = await open_engine(tmp_path, settings, transcripts=said)
        await engine.sync(reason="cli")
        await engine.start_watching()

        said.said["s1.jsonl"] += ["Assistant: a zebra"]
        engine.transcripts_changed()
        await after(loop, engine, QUIET_SECONDS)
        assert await found(engine, "zebra") == 0

        said.said["s1.jsonl"] += ["User: a giraffe"]
        engine.transcripts_changed()
        await after(loop, engine, QUIET_SECONDS - 1)
        assert await found(engine, "zebra") == 0
        await after(loop, engine, 1)
        assert (await found(engine, "zebra"), await found(engine, "giraffe")) == (1, 1)
        await engine.close()

    run(story)


@pytest.mark.covers("PART-21")
def test_many_messages_cost_one_look(tmp_path: Path) -> None:
    """What is said within seconds is looked at once; without a follower nothing looks by itself."""

    async def story(loop: SteppedLoop) -> None:
        workspace(tmp_path, {})
        said = CountedTranscripts({"s1.jsonl": ["User: hello"]})
        settings = {
            "sources": ["memory", "sessions"],
            "experimental": {"sessionMemory": True},
            "sync": UNASKED,
        }
        engine = await open_engine(tmp_path, settings, transcripts=said)
        await engine.sync(reason="cli")
        for _ in range(20):
            engine.transcripts_changed()
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if task.get_name() == "memory-transcripts"] == []

        await engine.start_watching()
        looks = said.looks
        for _ in range(20):
            engine.transcripts_changed()
            await asyncio.sleep(0)
        loop.ahead_seconds += QUIET_SECONDS
        [look] = [task for task in asyncio.all_tasks() if task.get_name() == "memory-transcripts"]
        await look
        assert said.looks == looks + 1
        await engine.close()

    run(story)


@pytest.mark.covers("SEED-3", "PART-15", "PART-32")
def test_files_are_looked_at_at_intervals(tmp_path: Path) -> None:
    """With `intervalMinutes` a note that nobody told of is found when the time is up, and not before."""

    async def story(loop: SteppedLoop) -> None:
        workspace(tmp_path, {})
        engine = await open_engine(tmp_path, {"sync": UNASKED | {"intervalMinutes": 5}})
        await engine.sync(reason="cli")
        await engine.start_watching()
        for word in ("zebra", "giraffe"):
            workspace(tmp_path, {f"memory/{word}.md": f"A {word}.\n"})
            await after(loop, engine, 299)
            assert await found(engine, word) == 0
            await after(loop, engine, 1)
            assert await found(engine, word) == 1
        await engine.close()

    run(story)
