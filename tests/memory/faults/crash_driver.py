"""A process of its own that works on an index, and dies or is killed at a chosen moment.

    python -m tests.memory.faults.crash_driver index|rebuild <folder> [statement|"publish <seconds>"]
    python -m tests.memory.faults.crash_driver migrate <folder> <version>
    python -m tests.memory.faults.crash_driver churn <folder> <seconds>
    python -m tests.memory.faults.crash_driver limited <folder> <bytes> [force]

`index` and `rebuild` print how many statements SQLite ran; with a number they kill themselves at that
statement, full-text index's own included, with `publish` so long after a rebuilt index began to be copied.
`migrate` kills itself inside the migration to a version. `churn` writes notes, syncs and searches until its
time is over, and prints what went wrong. `limited` syncs while no file may grow above so many bytes, and
prints what that raises and what a search finds then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import apsw

from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.stores.sqlite.connection import open_connection
from nacre.memory.stores.sqlite.schema import migrate
from tests.memory.doubles import WordEmbedder, open_engine

ROOT = Path(__file__).parents[3]


def start(mode: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    """Starts a driver; what it tells comes out of `stdout`."""
    command = [sys.executable, "-m", "tests.memory.faults.crash_driver", mode, str(folder), *more]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )


def tell(*words: object) -> None:
    """One line to the test that watches, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Watch:
    """Counts the statements of every connection, and kills the process at the chosen moment."""

    def __init__(self, moment: str) -> None:
        self.statements = 0
        word, _, seconds = moment.partition(" ")
        self._die_at = int(word) if word.isdigit() else 0
        self._die_after_seconds = float(seconds) if word == "publish" else None
        self._copies = 0

    def connected(self, connection: apsw.Connection) -> None:
        """Follows one more connection."""
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._statement)

    def _statement(self, event: dict[str, Any]) -> None:
        self.statements += 1
        if self.statements == self._die_at:
            _die()
        if event["sql"] == "DETACH live":
            self._copies += 1
            # Vectors are copied into the hidden index when it is begun, and again before it is published.
            if self._copies == 2 and self._die_after_seconds is not None:
                threading.Timer(self._die_after_seconds, _die).start()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def sync(root: Path, *, force: bool, moment: str) -> None:
    """Syncs once, unless it dies in the middle."""
    watch = Watch(moment)
    apsw.connection_hooks.append(watch.connected)
    engine = await open_engine(root, embedder=WordEmbedder())
    await engine.sync(reason="cli", force=force)
    await engine.close()
    tell("statements", watch.statements)


def die_in_migration(root: Path, version: int) -> None:
    """Kills itself after the tables of a version were made and before they were committed."""

    def between(reached: int) -> None:
        if reached == version:
            _die()

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


async def sync_limited(root: Path, limit_bytes: int, *, force: bool) -> None:
    """Syncs where the system refuses to let a file grow, as it does on a full disk."""
    import resource  # there is none on Windows, where the other modes work

    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
    engine = await open_engine(root, {"sync": {"onSearch": False}})
    try:
        await engine.sync(reason="cli", force=force)
    except IndexUnusable as error:
        tell("refused:", error)
    report = await engine.search("giraffe", min_score=0)
    tell("found:", *(hit.path for hit in report.hits))
    await engine.close()


def main() -> None:
    """Runs one mode."""
    mode, root = sys.argv[1], Path(sys.argv[2])
    if mode == "migrate":
        die_in_migration(root, int(sys.argv[3]))
    elif mode == "churn":
        asyncio.run(churn(root, float(sys.argv[3])))
    elif mode == "limited":
        asyncio.run(sync_limited(root, int(sys.argv[3]), force=sys.argv[4:] == ["force"]))
    else:
        asyncio.run(sync(root, force=mode == "rebuild", moment=" ".join(sys.argv[3:])))


if __name__ == "__main__":
    main()
