"""What a cold process costs: the commands side by side, each in a process of its own, beside a bare Python.

    python -m benchmarks.process.start_up [--chunks 10000] [--rounds 15] [--folder DIR]

The commands take turns, so that a busy moment meets all of them; the table shows medians, the best run, and
the ratio to a bare Python in the same rounds. The notes' vectors are made up and stored under the name of the
model that ships, so that a large index is ready in seconds; the question is embedded by the model itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.beside.instant_embedder import InstantEmbedder
from benchmarks.corpus import write_workspace
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

QUESTION = "what did we decide about the backup drive"
WORDS_ONLY = '{agents: {defaults: {memorySearch: {provider: "none"}}}}'
NACRE = (sys.executable, "-m", "nacre")
DIMENSIONS = 384


class StandIn(InstantEmbedder):
    """Made-up vectors under the name of the model that ships."""

    def __init__(self) -> None:
        super().__init__(DIMENSIONS)
        self.facts = E5Embedder.facts


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One row of the table: a command and the state folder that it sees."""

    label: str
    command: Sequence[str]
    state: Path


def contenders(hybrid: Path, words: Path) -> list[Contender]:
    """The rows; the bare Python first, because the others are compared with it."""
    search = (*NACRE, "memory", "search", QUESTION)
    rows: list[tuple[str, Sequence[str], Path]] = [
        ("python -c pass", (sys.executable, "-c", "pass"), hybrid),
        ("nacre --help", (*NACRE, "--help"), hybrid),
        ("nacre memory search, words", search, words),
        ("nacre memory search", search, hybrid),
        ("nacre memory status", (*NACRE, "memory", "status"), hybrid),
        ("nacre memory index", (*NACRE, "memory", "index"), hybrid),
        ("nacre send", (*NACRE, "send", "-m", "What is on my list?"), hybrid),
        ("from nacre import Agent", (sys.executable, "-c", "from nacre import Agent"), hybrid),
    ]
    return [Contender(label=label, command=command, state=state) for label, command, state in rows]


async def prepare(workspace: Path, state: Path, embedder: Embedder | None) -> None:
    """Brings the index of `state` in line with the notes."""
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(workspace, lock_dir=state / "locks"),
        index_path=state / "memory" / "main.sqlite",
        settings=resolve_settings({}),
        embedder=embedder,
        now=lambda: datetime.now(UTC),
    )
    report = await engine.sync(reason="benchmark")
    print(f"{report.indexed_chunks} chunks and {report.embedded} vectors in {report.elapsed_seconds:.1f} s")
    await engine.close()


def run_seconds(contender: Contender, environment: Mapping[str, str]) -> float:
    """One cold run, in seconds.

    Raises:
        SystemExit: the command failed.
    """
    started = time.perf_counter()
    run = subprocess.run(
        contender.command,
        env={**environment, "NACRE_STATE_DIR": str(contender.state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - started
    if run.returncode:
        raise SystemExit(f"{contender.label} ended with {run.returncode}: {run.stderr.strip()}")
    return took


def measure(folder: Path, chunks: int, rounds: int) -> None:
    """Makes what is missing in `folder`, then lets the commands take turns."""
    workspace, hybrid, words = folder / "workspace", folder / "hybrid", folder / "words"
    if not (workspace / "memory").exists():
        write_workspace(workspace, chunks=chunks)
    words.mkdir(parents=True, exist_ok=True)
    (words / "nacre.json5").write_text(WORDS_ONLY, encoding="utf-8")
    asyncio.run(prepare(workspace, hybrid, StandIn()))
    asyncio.run(prepare(workspace, words, None))
    environment = {**os.environ, "HOME": str(folder), "NACRE_WORKSPACE": str(workspace)}
    # The first round also compiles the modules, which stay compiled as where Nacre is installed.
    for name in ("NACRE_MODEL", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    rows = contenders(hybrid, words)
    took: dict[str, list[float]] = {row.label: [] for row in rows}
    for number in range(rounds + 1):
        for row in rows:
            seconds = run_seconds(row, environment)
            if number:  # the first round fills the system's file cache
                took[row.label].append(seconds)
    bare = median(took[rows[0].label])
    print(f"{'':28}{'median':>9}{'best':>9}{'× python':>10}")
    for label, seconds in took.items():
        middle = median(seconds)
        print(f"{label:28}{middle * 1000:6.0f} ms{min(seconds) * 1000:6.0f} ms{middle / bare:10.1f}")


def main() -> None:
    """Measures in a folder that is kept, or in one that is not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nacre-start-up-"))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, Python {sys.version[:6]}")
    measure(folder, arguments.chunks, arguments.rounds)
    if arguments.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
