"""The engine with an embedder whose sentences are worth vectors of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.records import SearchHit
from tests.memory.doubles import WordEmbedder, open_engine, workspace

DINNERS = "".join(f"- Dinner number {at} was lentil soup with bread and butter.\n" for at in range(8))
NOTES = {
    "memory/2026-02-10.md": f"# Log\n\n{DINNERS}- The automobile broke down near the old bridge of Lyon.\n",
    "memory/2026-02-11.md": f"# Log\n\n{DINNERS}- Anna painted the fence behind the house in green.\n",
}
ASKED = "car trouble?"


class SentenceEmbedder(WordEmbedder):
    """Wants single sentences as well, and reads as much of a text as it is told."""

    def __init__(self, *, readable: float = 1.0) -> None:
        super().__init__(synonyms={"car": "automobile", "trouble": "broke"}, dimensions=256)
        self.facts = replace(self.facts, piece_tokens=100, sentences=True)
        self.readable = readable

    def reads(self, text: str) -> float:
        """As much as it was told."""
        return self.readable


async def _best(folder: Path, embedder: WordEmbedder, settings: dict[str, Any] | None = None) -> SearchHit:
    engine = await open_engine(folder, settings, embedder=embedder)
    await engine.sync(reason="cli")
    for _ in range(2):
        hits = (await engine.search(ASKED, explain=True, min_score=0)).hits
    await engine.close()
    return hits[0]


def _cosine(hit: SearchHit) -> float:
    assert hit.explain is not None
    assert hit.explain.cosine is not None
    return hit.explain.cosine


@pytest.mark.parametrize("settings", [{}, {"store": {"vector": {"enabled": False}}}])
async def test_one_line_among_many_is_nearer(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A sentence that a piece washes out raises its chunk, with the extension and without."""
    workspace(tmp_path, NOTES)
    whole = await _best(tmp_path, WordEmbedder(synonyms={"car": "automobile", "trouble": "broke"}), settings)

    hit = await _best(tmp_path, SentenceEmbedder(), settings)

    assert hit.path == "memory/2026-02-10.md"
    assert _cosine(hit) > 1.2 * _cosine(whole)


async def test_sentences_come_behind_all_texts_and_once(tmp_path: Path) -> None:
    """Each chunk can be found by meaning before the first sentence is read; an edit reads what is new."""
    workspace(tmp_path, NOTES)
    embedder = SentenceEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)

    await engine.sync(reason="cli")

    texts = [text for text in embedder.asked if "\n" in text]
    assert len(texts) >= 2
    first_sentence = embedder.asked.index("Anna painted the fence behind the house in green.")
    assert all(embedder.asked.index(text) < first_sentence for text in texts)
    asked = len(embedder.asked)
    await engine.sync(reason="cli")
    assert len(embedder.asked) == asked

    changed = NOTES["memory/2026-02-11.md"] + "- The fence got a second coat of paint in March.\n"
    workspace(tmp_path, {"memory/2026-02-11.md": changed})
    await engine.sync(reason="cli")
    assert "The fence got a second coat of paint in March." in embedder.asked[asked:]
    assert sum("Dinner number 0" in text for text in embedder.asked[asked:]) == 0
    await engine.close()


async def test_sentences_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    """What the model has not learned to read is not worth its time twice."""
    workspace(tmp_path, NOTES)
    embedder = SentenceEmbedder(readable=0.2)

    await _best(tmp_path, embedder)

    assert "Anna painted the fence behind the house in green." not in embedder.asked
