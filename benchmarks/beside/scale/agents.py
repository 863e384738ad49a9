"""What it costs a worker that many agents are listed, and that one more is open in it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.beside.scale.processes import resident_bytes
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings

LISTED = (10, 1_000, 10_000)
OPENED = 10


async def agents_cost(url: str) -> list[dict[str, float]]:
    """For each number of listed agents: seconds to read the settings and to open an agent, bytes of one."""
    return [await _cost(url, listed) for listed in LISTED]


async def _cost(url: str, listed: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOME": folder, "NACRE_DATABASE_URL": url}
        write_settings(Path(folder), {"agents": {"list": [{"id": f"a{number}"} for number in range(listed)]}})
        began = time.perf_counter()
        load_config(environment, state_dir=Path(folder))
        read = time.perf_counter() - began
        opened = min(listed, OPENED)
        async with await Runtime.open(state_dir=folder, environment=environment) as runtime:
            await runtime.agent("a0")  # what all of them share
            before, began = resident_bytes(), time.perf_counter()
            for number in range(1, opened):
                await runtime.agent(f"a{number}")
            took = time.perf_counter() - began
            grown = resident_bytes() - before
    return {
        "listed": listed,
        "settings_seconds": read,
        "opening_seconds": took / (opened - 1),
        "open_bytes": grown / (opened - 1),
    }
