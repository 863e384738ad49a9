"""What a score means: the share of hits that are evidence, band by band, and how often nothing is answered.

    python -m benchmarks.calibration ../shared/eval/data [--only probes] [--words]

For each data set, through the whole engine: of the first ten hits of all its questions, the share that holds
evidence in each band of the score, with Brier's score and the expected calibration error; then what the usual
`minScore` costs of recall@6, and how many questions that nothing answers get an answer at it: the set's own
(`adversarial`) and forty of the other sets. Indexes are shared with `benchmarks/recall.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.recall import Clock, Place, Query, Workspace, chosen_embedder, measures, opened_engine
from nacre.memory.engine import MemoryEngine

BANDS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.01)
HITS = 10
FOREIGN = 40
ALIKE = {"probes": ("xquad_mixed",), "xquad_mixed": ("probes",)}
"""Sets made of the same texts: questions of one may have an answer in the other."""
LEAST_IN_A_BAND = 10


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What one set gave: hits as (score, evidence), recall at 0 and at the usual least score, answers."""

    hits: list[tuple[float, bool]] = field(default_factory=list)
    recall: list[tuple[float, float]] = field(default_factory=list)
    own_answered: list[bool] = field(default_factory=list)
    foreign_answered: list[bool] = field(default_factory=list)


async def scored(workspace: Workspace, index: Path, foreign: Sequence[Query], into: Scored) -> None:
    """Asks one workspace its own questions and the `foreign` ones."""
    clock = Clock()
    embedder = None if index.stem.endswith("words") else chosen_embedder("local")
    engine = await opened_engine(workspace, "default" if embedder else "lexical", index, embedder, clock)
    try:
        await engine.sync(reason="calibration")
        for query in workspace.queries:
            clock.today = query.today
            usual = await _found(engine, query, None)
            if query.category == "adversarial":
                into.own_answered.append(bool(usual))
                continue
            everything = await _found(engine, query, 0.0)
            into.hits.extend((score, _is_evidence(place, query)) for place, score in everything)
            into.recall.append((_recall(query, everything, workspace), _recall(query, usual, workspace)))
        for query in foreign:
            clock.today = query.today
            into.foreign_answered.append(bool(await _found(engine, query, None)))
    finally:
        await engine.close()
        if embedder is not None:
            await embedder.close()


async def _found(engine: MemoryEngine, query: Query, min_score: float | None) -> list[tuple[Place, float]]:
    report = await engine.search(query.text, max_results=HITS, min_score=min_score)
    return [(Place(hit.path, hit.start_line, hit.end_line), hit.score) for hit in report.hits]


def _is_evidence(place: Place, query: Query) -> bool:
    return any(
        wanted.path == place.path
        and wanted.start_line <= place.end_line
        and place.start_line <= wanted.end_line
        for wanted in query.relevant
    )


def _recall(query: Query, found: Sequence[tuple[Place, float]], workspace: Workspace) -> float:
    return measures(query, [place for place, _ in found], workspace)["recall@6"]


def calibration_error(hits: Sequence[tuple[float, bool]]) -> float:
    """The expected calibration error: how far score and share lie apart, weighed by the hits of each band."""
    rows = (list(row) for row in _in_bands(hits))
    apart = (
        len(row)
        * abs(statistics.fmean(score for score, _ in row) - statistics.fmean(right for _, right in row))
        for row in rows
        if row
    )
    return sum(apart) / len(hits)


def _in_bands(hits: Sequence[tuple[float, bool]]) -> Iterator[list[tuple[float, bool]]]:
    for least, most in pairwise(BANDS):
        yield [(score, right) for score, right in hits if least <= score < most]


def line(name: str, result: Scored) -> str:
    """A row of the table."""
    shares = (
        f"{statistics.fmean(right for _, right in row):.2f}" if len(row) >= LEAST_IN_A_BAND else "–"
        for row in _in_bands(result.hits)
    )
    brier = statistics.fmean((score - right) ** 2 for score, right in result.hits)
    lost = statistics.fmean(whole - kept for whole, kept in result.recall)
    own, foreign = (
        f"{statistics.fmean(answered):.2f}" if answered else "–"
        for answered in (result.own_answered, result.foreign_answered)
    )
    cells = (
        name,
        *shares,
        f"{brier:.3f}",
        f"{calibration_error(result.hits):.2f}",
        f"{lost:.3f}",
        own,
        foreign,
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", action="append", help="a data set's name; may be given again")
    parser.add_argument("--words", action="store_true", help="without an embedder")
    parser.add_argument("--keep", type=Path, default=Path("build/recall"), help="where indexes are kept")
    arguments = parser.parse_args()
    sets = {
        folder.name: [Workspace(path.parent) for path in sorted(folder.glob("*/queries.jsonl"))]
        for folder in sorted(path for path in arguments.data.iterdir() if path.is_dir())
    }
    bands = " | ".join(f"{least:.2f}–" for least in BANDS[:-1])
    print(f"| set | {bands} | Brier | ECE | recall@6 lost | own unanswerable | foreign answered |")
    print("| --- " * (len(BANDS) + 5) + "|")
    for name, workspaces in sets.items():
        if arguments.only and name not in arguments.only:
            continue
        foreign = _foreign(name, sets, -(-FOREIGN // len(workspaces)))
        result = Scored()
        for number, workspace in enumerate(workspaces):
            kind = "words" if arguments.words else "vectors"
            index = arguments.keep / f"{name}-{workspace.folder.name}-{kind}.sqlite"
            asyncio.run(scored(workspace, index, foreign[number :: len(workspaces)], result))
        print(line(name, result), flush=True)


def _foreign(name: str, sets: dict[str, list[Workspace]], each: int) -> list[Query]:
    """Questions of the other sets in turn, evenly from each; `each` for every workspace of this one."""
    alike = (name.split("_")[0], *ALIKE.get(name, ()))
    pools = [
        [query for query in workspace.queries if query.category != "adversarial"]
        for other, workspaces in sets.items()
        if not other.startswith(alike)
        for workspace in workspaces
    ]
    wanted = each * len(sets[name])
    share = -(-wanted // len(pools))
    picked = (pool[at * len(pool) // share] for at in range(share) for pool in pools)
    return [query for query, _ in zip(picked, range(wanted), strict=False)]


if __name__ == "__main__":
    main()
