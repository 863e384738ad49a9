"""How fast the index follows the files: first index, nothing changed, one file changed, and vectors.

    python -m benchmarks.index_speed [--chunks 10000 100000] [--dimensions 384] [--folder DIR]

Each measurement runs in a process of its own, so that the memory it tells is its own. One line for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.beside.instant_embedder import InstantEmbedder
from benchmarks.corpus import write_workspace
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

MEASURES = ("words: first index", "words: nothing changed", "words: one file changed", "vectors: first index")


async def measure(name: str, folder: Path, dimensions: int) -> dict[str, float]:
    """One measurement: time, chunks, memory, and the size of the index against text and vectors once."""
    embedder = InstantEmbedder(dimensions) if name.startswith("vectors") else None
    index = folder / ("vectors" if embedder else "words") / "main.sqlite"
    if "first" in name:
        shutil.rmtree(index.parent, ignore_errors=True)
    elif "one file" in name:
        note = next(iter(sorted((folder / "memory").iterdir())))
        note.write_text(note.read_text(encoding="utf-8") + "- one more line\n", encoding="utf-8")
    started, processor, before_mb = time.perf_counter(), time.process_time(), _peak_mb()
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(folder, lock_dir=index.parent / "locks"),
        index_path=index,
        settings=MemorySearchSettings(),
        embedder=embedder,
        now=lambda: datetime.now(UTC),
    )
    report = await engine.sync(reason="benchmark")
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    peak_mb = _peak_mb()
    status = await engine.status()
    await engine.close()
    text_bytes = sum(path.stat().st_size for path in (folder / "memory").iterdir())
    content_bytes = text_bytes + status.vectors * dimensions * 4
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "chunks": status.chunks,
        "chunks_per_second": report.indexed_chunks / seconds,
        "peak_mb": peak_mb,
        "added_mb": peak_mb - before_mb,
        "size_ratio": status.index_bytes / content_bytes,
    }


def _peak_mb() -> float:
    """The most memory that this process had so far, pages of mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Runs all measurements for each size, or with `--measure` one of them in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--folder", type=Path, help="where the workspaces stay, one for each size")
    parser.add_argument("--measure", choices=MEASURES)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asyncio.run(measure(arguments.measure, arguments.folder, arguments.dimensions))))
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nacre-index-speed-"))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for chunks in arguments.chunks:
        workspace = folder / str(chunks)
        if not (workspace / "memory").exists():
            write_workspace(workspace, chunks=chunks)
        for name in MEASURES:
            _run(name, workspace, arguments.dimensions)
    if arguments.folder is None:
        shutil.rmtree(folder)


def _run(name: str, workspace: Path, dimensions: int) -> None:
    """One measurement in a process of its own, as a line."""
    command = [sys.executable, "-m", "benchmarks.index_speed", "--measure", name, "--folder", str(workspace)]
    command += ["--dimensions", str(dimensions)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout)
    print(
        f"{name:22} {told['chunks']:7.0f} chunks {told['seconds']:6.2f} s "
        f"({told['processor_seconds']:5.2f} of processor) {told['chunks_per_second']:6.0f}/s, "
        f"peak {told['peak_mb']:4.0f} MB, {told['added_mb']:4.0f} of it while indexing, "
        f"index {told['size_ratio']:.2f} × content"
    )


if __name__ == "__main__":
    main()
