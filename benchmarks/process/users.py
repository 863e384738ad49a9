"""What the users of one runtime cost a process: memory, descriptors, threads and CPU time; feeds
docs/engineering/scale.md.

    python -m benchmarks.process.users [--users 1,100,1000] [--registered 10000]

Each number of users has a process of its own, in an empty home and with the default settings. Every user says
something that is noted, which opens the index of their notes, then all rest until they are idle, and then
each asks for it. The model is the offline responder, so that no provider is measured. `open` is the first
time, with the files of a new workspace; `again` is after the user was closed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from nacre import Runtime

IDLE_SECONDS = 0.5
COLUMNS = (
    *("users", "MB at rest", "MB a user, KB", "descriptors at rest", "most descriptors"),
    *("threads at rest", "open, CPU ms", "again, CPU ms", "turn, CPU ms", "registered, bytes each"),
)


def _memory_kb() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _threads() -> int:
    """Without the pool of the event loop, which all users share."""
    return sum(not each.name.startswith("asyncio") for each in threading.enumerate())


async def _each(users: int, work: Callable[[str], Awaitable[object]]) -> tuple[float, int]:
    """CPU milliseconds for each user, and the most descriptors meanwhile."""
    began, most = time.process_time(), 0
    for number in range(users):
        await work(f"user{number}")
        most = max(most, _descriptors())
    return 1_000 * (time.process_time() - began) / users, most


async def _rest(runtime: Runtime) -> None:
    while runtime.open_users:  # noqa: ASYNC110 - it is a measurement
        await asyncio.sleep(IDLE_SECONDS)


async def measure(users: int, registered: int, folder: Path) -> None:
    """Prints one row."""
    environment = {"HOME": str(folder)}
    async with Runtime.open(
        state_dir=folder / "state", environment=environment, user_idle_seconds=IDLE_SECONDS
    ) as runtime:

        async def look(name: str) -> None:
            async with runtime.user(name):
                pass

        async def note(name: str) -> None:
            async with runtime.user(name) as agent:
                await agent.ask("Remember that my boat is called Halcyon.")

        async def ask(name: str) -> None:
            async with runtime.user(name) as agent:
                reply = await agent.ask("What is my boat called?")
                assert reply is not None
                assert "Halcyon" in reply.text, reply.text

        await note("warm")
        await ask("warm")
        await _rest(runtime)
        before_kb, before, threads = _memory_kb(), _descriptors(), _threads()
        handles = [runtime.user(f"registered{number}") for number in range(registered)]
        registered_bytes = 1_024 * (_memory_kb() - before_kb) / max(1, len(handles))
        handles.clear()
        opening_ms, _ = await _each(users, look)
        await _rest(runtime)
        again_ms, _ = await _each(users, look)
        _, most = await _each(users, note)
        await _rest(runtime)
        asking_ms, most_again = await _each(users, ask)
        await _rest(runtime)
        memory_kb = _memory_kb()
        cells = (
            *(users, f"{memory_kb / 1_024:.0f}", f"{(memory_kb - before_kb) / users:.0f}"),
            *(_descriptors() - before, max(most, most_again), _threads() - threads),
            *(f"{opening_ms:.1f}", f"{again_ms:.1f}", f"{asking_ms:.1f}", f"{registered_bytes:.0f}"),
        )
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def main() -> None:
    """Measures each number of users in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=lambda text: [*map(int, text.split(","))], default=[1, 100, 1_000])
    parser.add_argument("--registered", type=int, default=10_000)
    told = parser.parse_args()
    if len(told.users) == 1:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(told.users[0], told.registered, Path(folder)))
        return
    print("|", " | ".join(COLUMNS), "|\n|", "---|" * len(COLUMNS), sep="", flush=True)
    for users in told.users:
        command = (sys.executable, "-m", "benchmarks.process.users", "--users", str(users))
        subprocess.run((*command, "--registered", str(told.registered)), check=True, env=dict(os.environ))


if __name__ == "__main__":
    main()
