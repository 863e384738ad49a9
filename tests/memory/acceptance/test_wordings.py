"""One question in several wordings: one search, in which no wording takes anything from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.engine import MemoryEngine
from tests.memory.doubles import WordEmbedder, open_engine, workspace

NOTES = {
    "memory/2026-02-10.md": "- Мы купили новую лодку за две тысячи евро, и мачта у неё из дерева.\n",
    "memory/2026-02-11.md": "- The dentist moved the appointment to Thursday.\n",
    "memory/2026-02-12.md": "- Пирог с яблоками: сахар, мука и корица, как у бабушки.\n",
}


async def indexed(tmp_path: Path, embedder: Embedder | None = None) -> MemoryEngine:
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=embedder)
    await engine.sync(reason="cli")
    return engine


@pytest.mark.parametrize("has_vectors", [False, True])
async def test_each_wording_finds_what_it_finds_alone(tmp_path: Path, has_vectors: bool) -> None:
    """With the score that it has alone, and the lines that it looked for."""
    engine = await indexed(tmp_path, WordEmbedder() if has_vectors else None)
    alone = await engine.search("Сколько евро за лодку?", min_score=0)
    both = await engine.search("Boat price?", also=["Сколько евро за лодку?"], min_score=0)
    await engine.close()

    assert alone.hits[0].path == both.hits[0].path == "memory/2026-02-10.md"
    assert both.hits[0].score == pytest.approx(alone.hits[0].score)
    assert both.hits[0].snippet == alone.hits[0].snippet
    assert len({hit.citation for hit in both.hits}) == len(both.hits)


async def test_hits_of_different_wordings_stand_in_one_order(tmp_path: Path) -> None:
    """Best first, no more than asked for; empty wordings and repeats cost nothing and say nothing."""
    engine = await indexed(tmp_path)
    wordings = ["dentist appointment", "  ", "dentist  appointment", *["сахар корица"] * 9]
    found = await engine.search("лодку", also=wordings, min_score=0)
    first = await engine.search("лодку", also=wordings, min_score=0, max_results=1)
    await engine.close()

    assert {hit.path for hit in found.hits} == set(NOTES)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert first.hits == found.hits[:1]


async def test_the_languages_of_the_notes_are_known_from_the_first_pass_on(tmp_path: Path) -> None:
    """Also by the next process, before it looks at any file; and they follow the notes."""
    root = workspace(tmp_path, {})
    engine = await open_engine(tmp_path)
    assert engine.languages == ()
    await engine.close()
    engine = await indexed(tmp_path)
    assert engine.languages == ("English", "Russian")
    await engine.close()

    engine = await open_engine(tmp_path)
    assert engine.languages == ("English", "Russian")
    (root / "memory" / "2026-02-11.md").unlink()
    await engine.sync(reason="cli")
    assert engine.languages == ("Russian",)
    await engine.close()
