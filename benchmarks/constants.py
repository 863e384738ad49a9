"""What each constant of the ranking is worth: recall@6 and MRR of held-out questions with another value.

    python -m benchmarks.constants ../shared/eval/data [--only probes] [--keep build/recall]

Each question is searched once through the engine. The ranking then runs over its candidates again, with one
constant at its neutral value, or at a smaller and a larger one where it has none. The usual `minScore`
applies, so that constants of the score count too. What decides which candidates are found is not replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType

from benchmarks import recall
from benchmarks.recall import Clock, Place, Query, Workspace, is_held_out, measures
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.contracts.store import Snapshot, Vector
from nacre.memory.search import contradiction, ranking, scoring, searching
from nacre.memory.search.finding import SearchContext, WordingResult, find

OFF = (
    *("_LESS_BY_WORDS", "_BEST_LINE", "_AS_CODE", "_DAY", "_STRENGTH", "_COVERED", "_RELATED"),
    *("_UNRELATED_PER_DECADE", "_CHANCE", "_CHANCE_PER_TERM", "_VERY_FEW", "EXACT_FLOOR"),
)
"""Constants of `scoring.py` that do nothing at 0."""
OTHERS: tuple[tuple[ModuleType, str, tuple[float, ...]], ...] = (
    *((scoring, name, (0.0,)) for name in OFF),
    (scoring, "_ANSWER", (1.0,)),
    (scoring, "FEW_CHUNKS", (1,)),
    (scoring, "ABSENT_CEILING", (1.0,)),
    (ranking, "USUAL_MIN_SCORE", (0.0,)),
    (ranking, "LEAST_SHARE", (0.0,)),
    (contradiction, "LINES", (1, 4)),
    (scoring, "_VECTORS", (0.75, 0.99)),
    (scoring, "EXAMINED", (3, 12)),
    (scoring, "_NEEDED", (1.375, 5.5)),
    (scoring, "_MOST_TERMS", (10, 40)),
    (scoring, "_NO_CHANCE", (37, 150)),
)
"""The constants, each with its neutral value, or with a smaller and a larger one if it has none."""
HYBRID = resolve_settings({}).query.hybrid
COUNT = 10


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What one search had found before it ranked; `now` is the time of the question."""

    query: Query
    now: datetime
    found: WordingResult
    chunks: Mapping[int, Chunk]


def found_again(item: Recorded) -> list[Place]:
    """The hits of a recorded question, by the ranking as it is now."""
    found, count = item.found, COUNT + searching.MOST_REPEATED
    ranked = ranking.rank(found.candidates, found.facts, HYBRID, count=count, min_score=None, now=item.now)
    ids = [one.chunk_id for one in ranked]
    ranked = ranking.placed(ranked, item.chunks)
    groups = searching.grouped(ranked, item.chunks, dict.fromkeys(ids, found.finder))
    groups, _ = contradiction.corrected_order(groups, item.chunks, dict.fromkeys(ids, found.intent), count)
    shown = [item.chunks[one.chunk_id] for one, _ in groups[:COUNT]]
    return [Place(chunk.path, chunk.start_line, chunk.end_line) for chunk in shown]


async def recorded(workspace: Workspace, index: Path) -> list[Recorded]:
    """The candidates of each held-out question that has an answer."""
    clock, kept = Clock(), []
    found: list[tuple[WordingResult, Mapping[int, Chunk]]] = []

    def find_and_keep(
        snapshot: Snapshot, context: SearchContext, text: str, asked: Future[Vector | None] | None, count: int
    ) -> WordingResult:
        one = find(snapshot, context, text, asked, count)
        found.append((one, snapshot.chunks(list(one.candidates.ids))))
        return one

    embedder = recall.chosen_embedder("local")
    engine = await recall.opened_engine(workspace, "default", index, embedder, clock)
    vars(searching)["find"] = find_and_keep
    try:
        await engine.sync(reason="constants")
        for query in workspace.queries:
            if query.category != "adversarial" and is_held_out(query.text):
                clock.today = query.today
                await engine.search(query.text, max_results=COUNT)
                one, chunks = found.pop()
                kept.append(Recorded(query=query, now=clock(), found=one, chunks=chunks))
    finally:
        vars(searching)["find"] = find
        await engine.close()
    return kept


def measured(sets: Mapping[str, Sequence[tuple[Workspace, Sequence[Recorded]]]]) -> dict[str, list[float]]:
    """recall@6 and MRR of each set."""
    numbers: dict[str, list[float]] = {}
    for name, recordings in sets.items():
        rows = [
            measures(item.query, found_again(item), place) for place, items in recordings for item in items
        ]
        numbers[name] = [statistics.fmean(row[key] for row in rows) for key in ("recall@6", "mrr")]
    return numbers


def line_of(name: str, numbers: Mapping[str, Sequence[float]], usual: Mapping[str, Sequence[float]]) -> str:
    """A row of the table: the means over the sets, and the sets whose recall@6 differs by .005 or more."""
    means = [statistics.fmean(row[at] for row in numbers.values()) for at in (0, 1)]
    moved = {each: numbers[each][0] - usual[each][0] for each in numbers}
    told = ", ".join(f"{each} {by:+.3f}" for each, by in moved.items() if abs(by) >= 0.005)
    return f"| {name} | {means[0]:.4f} | {means[1]:.4f} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", action="append", help="a data set's name; may be given again")
    parser.add_argument("--keep", type=Path, default=Path("build/recall"), help="where indexes are kept")
    arguments = parser.parse_args()
    sets: dict[str, list[tuple[Workspace, list[Recorded]]]] = {}
    for data_set in sorted(path for path in arguments.data.iterdir() if path.is_dir()):
        if arguments.only and data_set.name not in arguments.only:
            continue
        for path in sorted(data_set.glob("*/queries.jsonl")):
            workspace = Workspace(path.parent)
            index = arguments.keep / f"{data_set.name}-{workspace.folder.name}-vectors.sqlite"
            kept = asyncio.run(recorded(workspace, index))
            sets.setdefault(data_set.name, []).append((workspace, kept))
    usual = measured(sets)
    print("| constant | recall@6 | MRR | sets |", "| --- | --- | --- | --- |", sep="\n")
    print(line_of("as it is", usual, usual), flush=True)
    for module, name, others in OTHERS:
        value = vars(module)[name]
        for other in others:
            vars(module)[name] = other
            print(line_of(f"`{name}` {value:g} → {other:g}", measured(sets), usual), flush=True)
        vars(module)[name] = value


if __name__ == "__main__":
    main()
