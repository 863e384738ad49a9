"""What a change did to memory search, set by set: recall@6 before and after, with paired intervals.

    python -m benchmarks.beside.paired measure ../shared/eval/data before.json [--only probes] [--min-score 0]
    python -m benchmarks.beside.paired compare before.json after.json

The same questions are asked of both programs, so the interval is that of the mean of the differences: the
middle 95 % of 2,000 bootstrap samples (Efron, 1979). The numbers are those of `benchmarks/recall.py`, by
half. `--way simple` orders the same candidates by .5 BM25 + .5 meaning + .25 days + .5 best line alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recall import Workspace, run_engine
from nacre.memory.search import ranking, searching
from nacre.memory.search.scoring import Candidates, QueryFacts
from nacre.memory.text.days.query_dates import closeness
from nacre.memory.text.evidence import best_line_share, rarity, share

SAMPLES = 2_000
SEED = 12
EDGE = 0.025


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Between which values the mean of `differences` lies, 95 times of 100."""
    chance = random.Random(SEED)
    count = len(differences)
    means = sorted(statistics.fmean(chance.choices(differences, k=count)) for _ in range(SAMPLES))
    return means[int(SAMPLES * EDGE)], means[int(SAMPLES * (1 - EDGE)) - 1]


def simple(found: Candidates, facts: QueryFacts) -> dict[int, float]:
    """The scores of a simple hybrid: half by words, half by vectors, with days and the best line."""
    top, low = max(found.words.values(), default=0.0) or 1.0, min(found.nearest.values(), default=0.0)
    reach = max(found.cosines.values(), default=0.0) - low
    rare = rarity(facts.term_counts or (), facts.chunk_count)
    values = {}
    for at in found.ids:
        meaning = max(0.0, (found.cosines.get(at, low) - low) / reach) if reach > 0 else 1.0
        values[at] = 0.5 * found.words.get(at, 0.0) / top + 0.5 * meaning
        if facts.days and at in found.places:
            values[at] += 0.25 * closeness(found.places[at].date, facts.days)
        if at in found.evidence:
            values[at] += 0.5 * best_line_share(found.evidence[at], lambda terms: share(terms, rare))
    best = max(values.values(), default=0.0) or 1.0
    return {at: value / best for at, value in values.items()}


def measured(folder: Path, way: str, min_score: float | None, keep: Path) -> dict[str, list[float]]:
    """Of one data set, recall@6 of each question, and whether each that has no answer was answered."""
    recall: dict[str, list[float]] = {"seen": [], "held out": []}
    answered: list[float] = []
    if way == "simple":
        ranking.fuse = simple
        searching.corrected_order = lambda groups, _chunks, _intents, count: (list(groups[:count]), [])
    for path in sorted(folder.glob("*/queries.jsonl")):
        workspace = Workspace(path.parent)
        kind = "words" if way == "lexical" else "vectors"
        index = keep / f"{folder.name}-{workspace.folder.name}-{kind}.sqlite"
        result = asyncio.run(
            run_engine(workspace, way.replace("simple", "default"), index, min_score, "local")
        )
        for _, row in result.rows:
            recall["held out" if row["held out"] else "seen"].append(row["recall@6"])
        answered += [float(got) for category, got in result.answered if category == "adversarial"]
    return {**recall, "unanswerable answered": answered}


def line(name: str, before: Sequence[float], after: Sequence[float]) -> str:
    """A row of the table."""
    differences = [new - old for old, new in zip(before, after, strict=True)]
    low, high = interval(differences)
    return (
        f"| {name} | {len(before)} | {statistics.fmean(before):.3f} | {statistics.fmean(after):.3f} "
        f"| {statistics.fmean(differences):+.3f} | {low:+.3f} … {high:+.3f} |"
    )


def compare(before: Path, after: Path) -> None:
    """Prints a row for each measure of each set that both files have."""
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    print("| set | questions | before | after | difference | 95 % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in (name for name in old if name in new):
        for measure, values in old[name].items():
            if values:
                print(line(f"{name}, {measure}", values, new[name][measure]))


def measure(arguments: argparse.Namespace) -> None:
    """Writes what each question gave; after each set, so that an interrupted run keeps the others."""
    min_score = None if arguments.min_score < 0 else arguments.min_score
    found: dict[str, dict[str, list[float]]] = {}
    for folder in sorted(path for path in arguments.data.iterdir() if path.is_dir()):
        if not arguments.only or folder.name in arguments.only:
            found[folder.name] = measured(folder, arguments.way, min_score, arguments.keep)
            arguments.into.write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure", help="search all sets and write down each question's recall")
    measuring.add_argument("data", type=Path)
    measuring.add_argument("into", type=Path)
    measuring.add_argument("--only", action="append", help="a data set's name; may be given again")
    measuring.add_argument("--way", choices=("lexical", "default", "also", "simple"), default="default")
    measuring.add_argument("--min-score", type=float, default=-1, help="the usual one unless given")
    measuring.add_argument("--keep", type=Path, default=Path("build/recall"), help="where indexes are kept")
    comparing = verbs.add_parser("compare", help="what changed between two such files")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "measure":
        measure(arguments)
    else:
        compare(arguments.before, arguments.after)


if __name__ == "__main__":
    main()
