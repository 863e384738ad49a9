"""A row of `benchmarks/recall.py` for each installed memory engine, asked as `nacre memory bench` does.

    python -m benchmarks.recall ../shared/eval/data --only cjk_seams --way grep --engine memory-lancedb
    PATH=build/qmd/node_modules/.bin:$PATH python -m benchmarks.recall … --engine qmd

An engine gets copies of the notes and its default settings, and gives six results at most, which is all that
nDCG and MRR are of. Engines without Markdown are handed each line, which takes minutes for the larger sets.
"""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from nacre.extensions.memory_bench.command import (
    EngineResult,
    Notes,
    installed_engines,
    labeled_questions,
    run_engine,
)
from nacre.extensions.memory_bench.scoring import Answer, Question
from nacre.memory.embedders.e5 import E5Embedder
from nacre.runtime.settings.config import load_config


def engine_row(name: str, engine: str, folders: Sequence[Path]) -> str:
    """The row of one engine over the workspaces of a data set."""
    told = [asyncio.run(_told(engine, _notes(folder), _labeled(folder))) for folder in folders]
    problems = [each.problem for each in told if each.problem]
    if problems:
        raise SystemExit(f"{engine} on {name}: {problems[0]}")
    answers = [answer for each in told for answer in each.answers]
    asked = [answer for answer in answers if answer.question.answers]
    adversarial = [not answer.is_empty for answer in answers if not answer.question.answers]
    times = sorted(answer.milliseconds for answer in answers)
    means = [statistics.fmean(map(measure, asked)) for measure in (_recall, _gain, _reciprocal)]
    given = f"{statistics.fmean(adversarial):.2f}" if adversarial else "–"
    return (
        f"| {name} | {engine} | {means[0]:.3f} | {means[1]:.3f} | {means[2]:.3f} | – | {given} "
        f"| {times[len(times) // 2]:.1f} | {times[int(len(times) * 0.95)]:.1f} |"
    )


def _notes(folder: Path) -> Notes:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.md"))}
    return Notes(files=files, lines={name: data.decode("utf-8").split("\n") for name, data in files.items()})


def _labeled(folder: Path) -> list[Question]:
    return list(labeled_questions((folder / "queries.jsonl").read_text(encoding="utf-8")))


async def _told(engine: str, notes: Notes, questions: Sequence[Question]) -> EngineResult:
    embedder = E5Embedder()
    try:
        with tempfile.TemporaryDirectory() as place:
            variables = {"HOME": place, "PATH": os.environ.get("PATH", os.defpath)}
            config = load_config(variables, state_dir=Path(place))
            engines = installed_engines(config)
            if engine not in engines:
                raise SystemExit(f"There is no engine {engine!r}. There are {', '.join(engines)}.")
            return await run_engine(
                engine,
                engines[engine],
                notes,
                questions,
                config=config,
                embedder=embedder,
                now=lambda: datetime(2026, 11, 20, 12, tzinfo=UTC),
                folder=Path(place),
            )
    finally:
        await embedder.close()


def _recall(answer: Answer) -> float:
    return sum(rank > 0 for rank in answer.ranks) / len(answer.ranks)


def _gain(answer: Answer) -> float:
    gains = Counter(rank for rank in answer.ranks if rank)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(answer.ranks), 10) + 1))
    return min(1.0, sum(hits / math.log2(rank + 1) for rank, hits in gains.items()) / ideal)


def _reciprocal(answer: Answer) -> float:
    found = [rank for rank in answer.ranks if rank]
    return 1 / min(found) if found else 0.0
