"""What `memory-lancedb` recalls of the sets of `benchmarks/recall.py`: each line of the notes is a memory.

    python -m benchmarks.beside.memories ../shared/eval/data --only madial_en --only cjk_seams

Prints the rows that `benchmarks/recall.py` prints, for the way `ltm`. Lines have no file, heading or day
here, so sets that ask for these find less.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.recall import Place, Query, Result, Workspace, line_of, measures
from nacre.extensions.lancedb.memories import Memories
from nacre.extensions.lancedb.records import PRIVATE, Memory, Origin
from nacre.extensions.lancedb.table import MemoryTable
from nacre.memory.embedders.e5 import E5Embedder

MOST_LINES = 6_000
_ORIGIN = Origin(session_key="", session_id="", channel="", said_by="owner", written_by="import")


def lines_of(workspace: Workspace) -> Iterator[Place]:
    """Each line of the notes that says something, where it stands."""
    for file in sorted(workspace.folder.glob("memory/*.md")):
        path = file.relative_to(workspace.folder).as_posix()
        for number, line in enumerate(workspace.lines(path), 1):
            if line.strip() and not line.startswith("#"):
                yield Place(path, number, number, line.strip().removeprefix("- "))


async def run_ltm(workspace: Workspace, least_score: float) -> Result:
    """Stores every line, makes the vectors, and asks every question."""
    places = {str(number): place for number, place in enumerate(lines_of(workspace))}
    if len(places) > MOST_LINES:
        raise SystemExit(f"{workspace.folder} has {len(places)} lines, and {MOST_LINES} are the most here.")
    ids = map(str, count())
    result = Result(rows=[], answered=[], milliseconds=[])
    embedder = E5Embedder()
    with tempfile.TemporaryDirectory() as folder:
        table = await MemoryTable.open(folder, agent_id="main", storage_options={})
        for memory_id, place in places.items():
            await table.add(_memory(memory_id, place.snippet), None, "")
        memories = Memories(table, embedder, agent_id="main", now_ms=lambda: 0, new_id=lambda: next(ids))
        await memories.make_vectors()
        for query in workspace.queries:
            started = time.perf_counter()
            hits = await memories.recall(
                query.text, memories.scope(PRIVATE), limit=10, least_score=least_score
            )
            result.milliseconds.append((time.perf_counter() - started) * 1_000)
            _note(result, query, [places[hit.memory.id] for hit in hits], workspace)
        await memories.table.close()
    await embedder.close()
    return result


def _note(result: Result, query: Query, found: list[Place], workspace: Workspace) -> None:
    result.answered.append((query.category, bool(found)))
    if query.relevant:
        result.rows.append((query.category, measures(query, found, workspace)))


def _memory(memory_id: str, text: str) -> Memory:
    return Memory(
        id=memory_id,
        text=text,
        importance=0.7,
        category="other",
        created_at_ms=0,
        audience=PRIVATE,
        origin=_ORIGIN,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--only", action="append", required=True, help="a data set's name; may be given again"
    )
    parser.add_argument("--min-score", type=float, default=0.0)
    arguments = parser.parse_args()
    for name in arguments.only:
        workspaces = [
            Workspace(path.parent) for path in sorted((arguments.data / name).glob("*/queries.jsonl"))
        ]
        results = [asyncio.run(run_ltm(workspace, arguments.min_score)) for workspace in workspaces]
        print(line_of(name, "ltm", results, False), flush=True)


if __name__ == "__main__":
    main()
