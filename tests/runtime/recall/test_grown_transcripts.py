"""An agent that runs indexes what was said in it as soon as that is enough, although nobody searches."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.memory.sync.syncing import QUIET_SECONDS
from nacre.runtime.models.scripted import ScriptedModel, says
from tests.faults.drivers import SteppedLoop
from tests.runtime.agents import engine_of, opened, said, write_settings


def test_a_turn_that_crosses_the_threshold_is_found_unasked(tmp_path: Path) -> None:
    """The first turn writes five lines, the second two: the index has the transcript after the second."""
    search = {
        "provider": "none",
        "sources": ["memory", "sessions"],
        "experimental": {"sessionMemory": True},
        "sync": {
            "watch": False,
            "onSearch": False,
            "onSessionStart": False,
            "sessions": {"deltaBytes": 10_000_000, "deltaMessages": 6},
        },
    }
    write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": search}}})
    loop = SteppedLoop()

    async def story() -> None:
        async with opened(tmp_path, ScriptedModel(says("A fine name."), says("Noted.")), watch=True) as agent:
            engine = engine_of(agent._parts)
            await agent.respond(said("My parrot is called Polly."))
            await looked(loop)
            status = await engine.status()
            assert (status.waiting_transcripts, status.syncing) == (1, False)
            await agent.respond(said("She likes seeds."))
            await looked(loop)
            while (await engine.status()).syncing:
                pass
            assert len((await engine.search("parrot", min_score=0)).hits) == 1

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())


async def looked(loop: SteppedLoop) -> None:
    """Lets the quiet seconds pass, and waits until the transcripts were looked at."""
    await asyncio.sleep(0)
    [look] = [task for task in asyncio.all_tasks() if task.get_name() == "memory-transcripts"]
    loop.ahead_seconds += QUIET_SECONDS
    await look
