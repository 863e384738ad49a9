"""Floors for what is found: questions about a small workspace of our own, through the whole engine."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.records import SearchHit
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.embedders.e5 import E5Embedder
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace

FIXTURES = Path(__file__).parents[2] / "fixtures"
QUESTIONS: list[dict[str, Any]] = tomllib.loads(
    (FIXTURES / "golden_questions.toml").read_text(encoding="utf-8")
)["question"]


def wednesday() -> datetime:
    return datetime(2026, 2, 18, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Outcome:
    first: int
    shown: int
    asked: int
    noisy: tuple[str, ...]
    missed: tuple[str, ...]


def _covers(hit: SearchHit, question: dict[str, Any]) -> bool:
    return hit.path == question["path"] and hit.start_line <= question["line"] <= hit.end_line


async def _ask(tmp_path: Path, embedder: Embedder | None, *, words_only: bool) -> Outcome:
    workspace = tmp_path / "workspace"
    shutil.copytree(FIXTURES / "notes", workspace)
    settings = resolve_settings({"sync": {"watch": False, "onSearch": False}})
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(workspace, lock_dir=tmp_path / "locks"),
        index_path=tmp_path / "index.sqlite",
        settings=settings,
        embedder=embedder,
        now=wednesday,
    )
    first = shown = asked = 0
    noisy, missed = [], []
    try:
        await engine.sync(reason="test")
        for question in QUESTIONS:
            hits = (await engine.search(question["text"])).hits
            if "path" not in question:
                noisy += [question["text"]] if hits else []
                continue
            if words_only and not question["words"]:
                continue
            asked += 1
            first += bool(hits) and _covers(hits[0], question)
            found = any(_covers(hit, question) for hit in hits)
            shown += found
            missed += [] if found else [question["text"]]
    finally:
        await engine.close()
    return Outcome(first=first, shown=shown, asked=asked, noisy=tuple(noisy), missed=tuple(missed))


async def test_words_alone_find_what_was_written(tmp_path: Path) -> None:
    """Every question that shares words with its answer is answered, nearly always first, with no noise."""
    outcome = await _ask(tmp_path, None, words_only=True)
    assert outcome.missed == ()
    assert outcome.first >= outcome.asked - 1
    assert outcome.noisy == ()


async def test_the_shipped_model_adds_what_is_meant(tmp_path: Path) -> None:
    """With vectors, a paraphrase without a shared word is found, and most of five strangers get nothing."""
    embedder = E5Embedder()
    outcome = await _ask(tmp_path, embedder, words_only=False)
    await embedder.close()
    assert len(outcome.missed) <= 1, outcome.missed
    assert "how much is the paddling society's yearly fee?" not in outcome.missed
    assert outcome.first >= outcome.asked - 4
    assert len(outcome.noisy) <= 2, outcome.noisy


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["text"][:24])
def test_the_questions_point_at_real_lines(question: dict[str, Any]) -> None:
    """A golden answer is a line that says something."""
    if "path" in question:
        lines = (FIXTURES / "notes" / question["path"]).read_text(encoding="utf-8").split("\n")
        assert lines[question["line"] - 1].startswith("- ")
