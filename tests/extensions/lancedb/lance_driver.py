"""A process of its own that stores memories, and is killed, or has no room on its disk.

    python -m tests.extensions.lancedb.lance_driver store <folder> <agent>
    python -m tests.extensions.lancedb.lance_driver full <folder>

`store` prints each text once it is stored, and goes on until it is killed. `full` stores one, then another
while no file may grow, then a third with room again, and prints what came of each.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from itertools import count
from pathlib import Path

from nacre.extensions.lancedb.plugin import LanceMemory
from nacre.runtime.tools.toolbox import ToolFailed
from tests.extensions.lancedb.homes import call, home, owner, started, texts

NO_BYTES = 64


def tell(text: str) -> None:
    """One line to the test that watches, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def store(folder: Path, agent_id: str) -> None:
    """Stores until it is killed."""
    where = home(folder, agent_id=agent_id, config={"dbPath": "shared"})
    async with started(where) as engine:
        for number in count():
            text = f"Parcel {agent_id}{number} has arrived."
            await call(engine, "memory_store", owner(agent_id=agent_id), text=text)
            tell(text)


async def full(folder: Path) -> None:
    """Stores with room, without, and with room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with started(home(folder)) as engine:
        tell(await _stored(engine, "The first parcel."))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (NO_BYTES, hard))
        tell(await _stored(engine, "The second parcel."))
        tell(str(sorted(await texts(engine, "parcel"))))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        tell(await _stored(engine, "The third parcel."))
        tell(str(sorted(await texts(engine, "parcel"))))


async def _stored(engine: LanceMemory, text: str) -> str:
    try:
        return str((await call(engine, "memory_store", text=text))["action"])
    except ToolFailed as failed:
        return str(failed)


if __name__ == "__main__":
    mode, folder, *more = sys.argv[1:]
    asyncio.run(store(Path(folder), *more) if mode == "store" else full(Path(folder)))
