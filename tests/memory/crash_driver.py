"""A process of its own that works on an index, to be killed by a test at any moment.

    python -m tests.memory.crash_driver index|rebuild|migrate|churn <folder> [version or seconds]

`index` and `rebuild` print a line for each step; `migrate` kills itself inside the migration to a version;
`churn` writes notes, syncs and searches until its time is over, and prints what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from nacre.memory.schema import migrate
from nacre.memory.sqlite_connection import open_connection
from tests.memory.doubles import WordEmbedder, open_engine

ROOT = Path(__file__).parents[2]


def start(mode: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    """Starts a driver; what it tells comes out of `stdout`."""
    command = [sys.executable, "-m", "tests.memory.crash_driver", mode, str(folder), *more]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )


def tell(*words: object) -> None:
    """One line to the test that watches, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def sync(root: Path, *, force: bool) -> None:
    """Syncs once and tells each step."""
    engine = await open_engine(root, embedder=WordEmbedder())
    tell("open")
    await engine.sync(reason="cli", force=force, progress=lambda step: tell(step.stage, step.completed))
    await engine.close()
    tell("done")


def die_in_migration(root: Path, version: int) -> None:
    """Kills itself after the tables of a version were made and before they were committed."""

    def between(reached: int) -> None:
        if reached == version:
            os.kill(os.getpid(), signal.SIGKILL)

    (root / "state").mkdir(exist_ok=True)
    migrate(open_connection(root / "state" / "main.sqlite"), between=between)


async def churn(root: Path, seconds: float) -> None:
    """Writes, syncs and searches against whoever else works on the same folder."""
    engine = await open_engine(root, embedder=WordEmbedder())
    name = f"process{os.getpid()}"
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        rounds += 1
        note = root / "workspace" / "memory" / f"{name}.md"
        note.write_text(f"# Notes\n\n- {name} saw zebra{rounds}.\n")
        engine.mark_dirty()
        await engine.sync(reason="cli", force=rounds % 7 == 0)
        hits = (await engine.search(f"zebra{rounds} {name}", min_score=0)).hits
        if not any(hit.path == f"memory/{name}.md" and f"zebra{rounds}." in hit.snippet for hit in hits):
            tell(f"wrong: zebra{rounds} of {name} was not found, but {[hit.path for hit in hits]}")
        fixed = (await engine.search("fixed giraffe", min_score=0)).hits
        if not fixed or fixed[0].path != "memory/fixed.md":
            tell(f"wrong: the fixed note was not found, but {[hit.path for hit in fixed]}")
    await engine.close()
    tell("rounds", rounds)


def main() -> None:
    """Runs one mode."""
    mode, root = sys.argv[1], Path(sys.argv[2])
    if mode == "migrate":
        die_in_migration(root, int(sys.argv[3]))
    elif mode == "churn":
        asyncio.run(churn(root, float(sys.argv[3])))
    else:
        asyncio.run(sync(root, force=mode == "rebuild"))


if __name__ == "__main__":
    main()
