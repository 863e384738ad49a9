"""What memory search finds: recall@6, nDCG@10 and MRR for each data set and each way of searching.

    python -m benchmarks.recall ../shared/eval/data [--only locomo_all] [--embedder gguf=model.gguf]

A data set is a folder of workspaces, each with `memory/*.md` and `queries.jsonl` (`query`, `category`,
`relevant` lines, perhaps `date`, perhaps `also`: the question in the notes' language, which the way `also`
asks as well). recall@6 is told for both halves of the questions, too. Every way goes through the real engine;
only grep is done here. Vectors are kept in `build/recall`, or in BENCHMARK_DATABASE_URL. Nothing is ever
copied from the data.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from os import environ
from pathlib import Path
from typing import Any, NamedTuple

from nacre.extensions.postgres.memory_store import PostgresIndexPlace
from nacre.extensions.postgres.server.database import shared_database
from nacre.extensions.providers.embedding.open_embedder import embedder_for
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.settings import MemorySearchSettings, resolve_settings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

CLIP_CHARS = 2400
"""A result longer than this counts only for its first lines, so that whole files earn nothing."""
SNIPPET_RESULTS = 6
WAYS = ("grep", "lexical", "vector", "seed", "default", "also")


class Place(NamedTuple):
    """Lines of a file, 1-based and inclusive, with what is shown of them."""

    path: str
    start_line: int
    end_line: int
    snippet: str = ""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question of a data set; `relevant` is where the answer stands, empty when there is none."""

    text: str
    category: str
    relevant: tuple[Place, ...]
    today: date
    also: tuple[str, ...]


class Clock:
    """The moment that the engine takes for now: the day of the question in hand."""

    def __init__(self) -> None:
        self.today = date(2026, 11, 20)

    def __call__(self) -> datetime:
        return datetime(self.today.year, self.today.month, self.today.day, 12, tzinfo=UTC)


class Workspace:
    """One workspace of a data set: its questions and the text of its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.queries = list(_queries(folder / "queries.jsonl"))
        self._lines: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        """The lines of a file."""
        if path not in self._lines:
            self._lines[path] = (self.folder / path).read_text(encoding="utf-8").split("\n")
        return self._lines[path]

    def clipped(self, place: Place) -> Place:
        """The place, no longer than `CLIP_CHARS` but at least a line."""
        chars, last = 0, place.start_line
        for number in range(place.start_line, min(place.end_line, len(self.lines(place.path))) + 1):
            chars += len(self.lines(place.path)[number - 1]) + 1
            if chars > CLIP_CHARS and number > place.start_line:
                break
            last = number
        return place._replace(end_line=last)


def _queries(path: Path) -> Iterator[Query]:
    for line in path.read_text(encoding="utf-8").splitlines():
        raw: dict[str, Any] = json.loads(line)
        yield Query(
            text=raw["query"],
            category=raw["category"],
            relevant=tuple(Place(at["path"], at["startLine"], at["endLine"]) for at in raw["relevant"]),
            today=date.fromisoformat(raw["date"]) if raw.get("date") else date(2026, 11, 20),
            also=tuple(raw.get("also", ())),
        )


def measures(query: Query, found: Sequence[Place], workspace: Workspace) -> dict[str, float]:
    """The numbers for one question. A line of evidence counts once, at the best rank that covers it."""
    ranks: dict[Place, int] = {}
    for rank, place in enumerate(map(workspace.clipped, found[:10]), start=1):
        for wanted in query.relevant:
            if wanted.path == place.path and _overlap(wanted, place):
                ranks.setdefault(wanted, rank)
    count = len(query.relevant)
    gains = Counter(ranks.values())
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(count, 10) + 1))
    gained = sum(hits / math.log2(rank + 1) for rank, hits in gains.items())
    return {
        "recall@6": sum(rank <= 6 for rank in ranks.values()) / count,
        "ndcg@10": min(1.0, gained / ideal),
        "mrr": 1 / min(ranks.values()) if ranks else 0.0,
        "visible": sum(_visible(wanted, found, workspace) for wanted in query.relevant) / count,
    }


def _overlap(left: Place, right: Place) -> bool:
    return left.start_line <= right.end_line and right.start_line <= left.end_line


def _visible(wanted: Place, found: Sequence[Place], workspace: Workspace) -> bool:
    """Whether the evidence's words, or a long beginning or end of them, are in a snippet."""
    text = _plain(" ".join(workspace.lines(wanted.path)[wanted.start_line - 1 : wanted.end_line]))[:160]
    shown = [_plain(place.snippet) for place in found[:SNIPPET_RESULTS] if place.path == wanted.path]
    return any(text[:80] in snippet or text[-80:] in snippet for snippet in shown)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def is_held_out(question: str) -> bool:
    """Whether nothing is chosen by this question: the half by which choices are checked."""
    return hashlib.sha256(question.encode()).digest()[0] % 2 == 1


def grep(workspace: Workspace) -> Callable[[Query], list[Place]]:
    """What a careful person gets from grep: the lines with most of the question's longer words."""
    files = sorted(
        path.relative_to(workspace.folder).as_posix() for path in workspace.folder.glob("memory/*.md")
    )
    lines = [
        (path, number, line.lower()) for path in files for number, line in enumerate(workspace.lines(path), 1)
    ]

    def search(query: Query) -> list[Place]:
        words = {
            word for word in re.findall(r"\w+", query.text.lower()) if len(word) > 3 or not word.isascii()
        }
        scored = [(sum(word in line for word in words), path, number) for path, number, line in lines]
        best = sorted((item for item in scored if item[0]), key=lambda item: -item[0])[:10]
        return [
            Place(path, number, number, workspace.lines(path)[number - 1][:700]) for _, path, number in best
        ]

    return search


def _settings(way: str) -> MemorySearchSettings:
    hybrid = {"enabled": way != "vector", "fusion": "seed" if way == "seed" else "default"}
    return resolve_settings({"query": {"hybrid": hybrid}, "sync": {"onSearch": False, "watch": False}})


@dataclass(frozen=True, kw_only=True)
class Result:
    """All questions of one workspace, searched one way."""

    rows: list[tuple[str, dict[str, float]]]
    answered: list[tuple[str, bool]]
    milliseconds: list[float]


def chosen_embedder(name: str) -> Embedder | None:
    """`local`, or a provider with its model behind `=`: a GGUF file, or a name that the provider knows."""
    provider, _, model = name.partition("=")
    asked = {"local": {"modelPath": model}} if provider == "gguf" else {"model": model or None}
    settings = resolve_settings({"provider": provider, **asked})
    folder = Path("build/models")
    return embedder_for(settings, {}, now_seconds=time.time, home=Path.home(), models_folder=folder)


async def opened_engine(
    workspace: Workspace, way: str, index: Path, embedder: Embedder | None, clock: Clock
) -> MemoryEngine:
    """The engine over one workspace, which asks `clock` for the day."""
    notes, settings = FolderWorkspace(workspace.folder, lock_dir=index.parent / "locks"), _settings(way)
    url = environ.get("BENCHMARK_DATABASE_URL")
    place = PostgresIndexPlace(shared_database(url), str(index)) if url else None
    return await MemoryEngine.open(
        workspace=notes, index_path=index, settings=settings, embedder=embedder, now=clock, place=place
    )


async def run_engine(
    workspace: Workspace, way: str, index: Path, min_score: float | None, embedder_name: str
) -> Result:
    """Searches through the engine; indexes first, which is quick when `index` has the vectors already."""
    clock = Clock()
    embedder = None if way == "lexical" else chosen_embedder(embedder_name)
    engine = await opened_engine(workspace, way, index, embedder, clock)
    result = Result(rows=[], answered=[], milliseconds=[])
    try:
        await engine.sync(reason="recall benchmark")
        for query in workspace.queries:
            clock.today = query.today
            started = time.perf_counter()
            also = query.also if way == "also" else ()
            report = await engine.search(query.text, also=also, max_results=10, min_score=min_score)
            result.milliseconds.append((time.perf_counter() - started) * 1000)
            if report.degraded:
                raise SystemExit(f"{way} on {workspace.folder}: {report.degraded}")
            found = [Place(hit.path, hit.start_line, hit.end_line, hit.snippet) for hit in report.hits]
            _note(result, query, found, workspace)
    finally:
        await engine.close()
        if embedder is not None:
            await embedder.close()
    return result


def run_grep(workspace: Workspace) -> Result:
    """Searches by grep."""
    search, result = grep(workspace), Result(rows=[], answered=[], milliseconds=[])
    for query in workspace.queries:
        started = time.perf_counter()
        found = search(query)
        result.milliseconds.append((time.perf_counter() - started) * 1000)
        _note(result, query, found, workspace)
    return result


def _note(result: Result, query: Query, found: Sequence[Place], workspace: Workspace) -> None:
    result.answered.append((query.category, bool(found)))
    if query.category != "adversarial":
        numbers = {**measures(query, found, workspace), "held out": float(is_held_out(query.text))}
        result.rows.append((query.category, numbers))


def line_of(name: str, way: str, results: Sequence[Result], categories: bool) -> str:
    rows = [row for result in results for row in result.rows]
    means = {key: statistics.fmean(row[key] for _, row in rows) for key in rows[0][1]}
    adversarial = [got for each in results for kind, got in each.answered if kind == "adversarial"]
    given = f"{statistics.fmean(adversarial):.2f}" if adversarial else "–"
    times = sorted(ms for result in results for ms in result.milliseconds)
    share = means["visible"] / means["recall@6"] if means["recall@6"] else 0.0
    line = (
        f"| {name} | {way} | {means['recall@6']:.3f} | {means['ndcg@10']:.3f} | {means['mrr']:.3f} "
        f"| {share:.2f} | {given} | {times[len(times) // 2]:.1f} | {times[int(len(times) * 0.95)]:.1f} |"
    )
    halves = ([row["recall@6"] for _, row in rows if row["held out"] == half] for half in (0, 1))
    line += f" {' / '.join(f'{statistics.fmean(half):.3f}' if half else '–' for half in halves)} |"
    if not categories:
        return line
    by_category = sorted({category for category, _ in rows})
    parts = (
        f"{one} {statistics.fmean(row['recall@6'] for category, row in rows if category == one):.3f}"
        for one in by_category
    )
    return f"{line} {' · '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", action="append", help="a data set's name; may be given again")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--engine", action="append", default=[], help="a row for this engine too; its id")
    parser.add_argument("--min-score", type=float, default=0.0, help="-1 for the usual setting")
    parser.add_argument("--categories", action="store_true", help="recall@6 by category as well")
    parser.add_argument("--embedder", default="local", help="local, sentence-transformers=…, gguf=…")
    parser.add_argument("--keep", type=Path, default=Path("build/recall"), help="where indexes are kept")
    arguments = parser.parse_args()
    head = (
        "| set | way | recall@6 | nDCG@10 | MRR | shown | adversarial answered | p50 ms | p95 ms "
        "| seen / held out |"
    )
    print(head, re.sub(r"[^| ][^|]*[^| ]", "---", head), sep="\n")
    for data_set in sorted(path for path in arguments.data.iterdir() if path.is_dir()):
        if arguments.only and data_set.name not in arguments.only:
            continue
        workspaces = [Workspace(path.parent) for path in sorted(data_set.glob("*/queries.jsonl"))]
        has_wordings = any(query.also for workspace in workspaces for query in workspace.queries)
        for way in arguments.way or WAYS[: len(WAYS) - (not has_wordings)]:
            results = []
            for workspace in workspaces:
                kind = "words" if way == "lexical" else "vectors"
                if way != "lexical" and arguments.embedder != "local":
                    kind += "-" + re.sub(r"\W+", "-", arguments.embedder)[-60:]
                index = arguments.keep / f"{data_set.name}-{workspace.folder.name}-{kind}.sqlite"
                limit = None if arguments.min_score < 0 else arguments.min_score
                asked = (workspace, way, index, limit, arguments.embedder)
                results.append(run_grep(workspace) if way == "grep" else asyncio.run(run_engine(*asked)))
            print(line_of(data_set.name, way, results, arguments.categories), flush=True)
        for engine in arguments.engine:
            from benchmarks.beside.engines import engine_row

            print(engine_row(data_set.name, engine, [each.folder for each in workspaces]), flush=True)


if __name__ == "__main__":
    main()
