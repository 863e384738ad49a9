"""Run by `test_soak.py`: answers the chats of a line server until it is killed, or told to end on stdin.

soak_driver.py <state folder> <port> <ids>

Prints `ready`, and at its end how much memory it holds, in MiB.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.bridges.chats import FOLLOW_UP, Answering, gateway
from tests.bridges.line_channel import ALL, LineBridge

SETTINGS = {
    **FOLLOW_UP,
    "plugins": {"slots": {"memory": "none"}},
    "session": {"maintenance": {"maxEntries": 2_000}},
}
"""More chats than the index keeps by default."""


class Forgetful(Answering):
    """A model that keeps no requests, so that the memory measured is the program's."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = _Nothing()


class _Nothing(list):  # type: ignore[type-arg]
    def append(self, _request: object) -> None:
        """Drops it."""


def resident_mib() -> float:
    """The memory of this process that is in use."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the system does not tell")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def answer(state_dir: Path, port: int, ids: str) -> None:
    """Answers until a line comes on stdin, and then tells the memory for each line."""
    async with gateway(
        state_dir, Forgetful(), [LineBridge(port, capabilities=ALL)], settings=SETTINGS, ids=ids
    ):
        _tell("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            _tell(f"{resident_mib():.1f}")
            if line.strip() == "end":
                return


if __name__ == "__main__":
    asyncio.run(answer(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
