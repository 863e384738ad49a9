"""What runs in a session can be stopped; what has ended cannot."""

from __future__ import annotations

import asyncio

from nacre.runtime.agent.opening.agent_parts import Running


async def test_work_that_has_ended_is_not_stopped_although_it_is_still_listed() -> None:
    """A task is done one step of the loop before it is forgotten; there is nothing to stop in it."""
    running = Running()
    found: list[bool | str] = []

    async def work() -> None:
        found.append(running.stop("other", "now"))
        asyncio.get_running_loop().call_soon(
            lambda: found.extend([*running.keys, running.stop("main", "now")])
        )

    await running.start("main", work())

    assert found == [False, "main", False]
    assert list(running.keys) == []
