"""Words and vectors together, through the whole engine: weights, missing sides, thresholds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.contracts.records import SearchHit
from tests.memory.doubles import WordEmbedder, open_engine, workspace

NOTES = {
    "memory/by-meaning.md": "- The automobile broke down near Lyon.",
    "memory/by-word.md": "- Invoice for car parts arrived.",
    "memory/neither.md": "- Dinner with Anna, lentil soup.",
}
ENGLISH = {"car": "automobile", "trouble": "broke"}


class ScriptedQuestions(WordEmbedder):
    """Embeds documents by their words, and answers every question with one given vector."""

    def __init__(self, vector: Sequence[float]) -> None:
        super().__init__(dimensions=64)
        self._vector_for_all = vector

    async def embed_query(self, text: str) -> Sequence[float]:
        """The given vector."""
        return self._vector_for_all


class Apart(WordEmbedder):
    """Puts what speaks of Lyon, and every question, in a direction of its own; other texts by their words."""

    async def embed_query(self, text: str) -> Sequence[float]:
        """The direction of Lyon."""
        self.queries.append(text)
        return [1.0, *[0.0] * 64]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The direction of Lyon, or the words in the other directions."""
        words = await super().embed_documents(texts)
        return [
            [1.0, *[0.0] * 64] if "Lyon" in text else [0.0, *vector]
            for text, vector in zip(texts, words, strict=True)
        ]


class Nearness(WordEmbedder):
    """Texts are as near to any question as the number says that stands in them."""

    async def embed_query(self, text: str) -> Sequence[float]:
        """The direction that nearness is measured from."""
        return [1.0, *[0.0] * 64]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The number in that direction, the words in the others; of length 1."""
        words = await super().embed_documents(texts)
        found = [re.search(r"0\.\d+", text) for text in texts]
        cosines = [float(number[0]) if number else 0.0 for number in found]
        return [
            [near, *(math.sqrt(1 - near**2) / math.hypot(*vector) * value for value in vector)]
            for near, vector in zip(cosines, words, strict=True)
        ]


def _hybrid(**hybrid: Any) -> dict[str, Any]:
    return {"query": {"hybrid": hybrid}}


async def _hits(root: Path, settings: dict[str, Any], embedder: WordEmbedder, query: str) -> list[SearchHit]:
    engine = await open_engine(root, settings, embedder=embedder)
    await engine.sync(reason="cli")
    report = await engine.search(query, min_score=0)
    await engine.close()
    return list(report.hits)


@pytest.mark.parametrize("fusion", ["default", "seed"])
@pytest.mark.parametrize(
    ("vector_weight", "text_weight", "first"),
    [(0.99, 0.01, "memory/by-meaning.md"), (0.01, 0.99, "memory/by-word.md")],
)
@pytest.mark.covers("SRCH-6", "SRCH-7")
async def test_weights_decide_between_the_sides(
    tmp_path: Path, fusion: str, vector_weight: float, text_weight: float, first: str
) -> None:
    """SRCH-6, 7: the heavier side's note comes first, and the other one is there as well."""
    workspace(tmp_path, NOTES)
    settings = _hybrid(fusion=fusion, vectorWeight=vector_weight, textWeight=text_weight)

    paths = [hit.path for hit in await _hits(tmp_path, settings, Apart(), "car")]

    assert paths[0] == first
    assert {"memory/by-meaning.md", "memory/by-word.md"} <= set(paths)


@pytest.mark.parametrize("fusion", ["default", "seed"])
@pytest.mark.parametrize("vector", [[0.0] * 64, [], [0.0] * 63 + [float("nan")], [1.0] * 7])
@pytest.mark.covers("SRCH-5", "SEED-6", "Q-8")
async def test_a_question_without_direction_is_answered_by_words(
    tmp_path: Path, fusion: str, vector: list[float]
) -> None:
    """SRCH-5, SEED-6, quirk 8: zeros, nothing, no numbers or another length leave the words and the index."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, _hybrid(fusion=fusion), embedder=ScriptedQuestions(vector))
    await engine.sync(reason="cli")

    report = await engine.search("lentil soup")

    assert [hit.path for hit in report.hits] == ["memory/neither.md"]
    assert (await engine.status()).vectors == 3
    await engine.close()


@pytest.mark.covers("Q-43")
async def test_asking_for_one_result_gives_the_first_of_many(tmp_path: Path) -> None:
    """Quirk 43: a note that is second by words and second by meaning is first, however few are asked for."""
    filler = {f"memory/{n}.md": f"- Walked along the river on day {n}, mild weather." for n in range(30)}
    notes = {
        "memory/words.md": "- kayak kayak, nearness 0.01",
        "memory/meaning.md": "- canoe, nearness 0.95",
        "memory/both.md": "- kayak trip, nearness 0.90",
    }
    workspace(tmp_path, filler | notes)
    engine = await open_engine(tmp_path, embedder=Nearness())
    await engine.sync(reason="cli")

    firsts = [
        (await engine.search("kayak", max_results=number, min_score=0)).hits[0] for number in (1, 2, 100)
    ]

    assert [hit.path for hit in firsts] == ["memory/both.md"] * 3
    assert len({hit.score for hit in firsts}) == 1
    await engine.close()


@pytest.mark.covers("SRCH-8", "Q-2")
async def test_an_exact_word_is_never_dropped(tmp_path: Path) -> None:
    """SRCH-8, quirks 1 and 2: a rare name that only words find passes the default least score."""
    filler = {f"memory/{n}.md": f"- Walked along the river on day {n}, mild weather." for n in range(30)}
    workspace(tmp_path, filler | {"memory/mail.md": "- Error E_CONN_RESET came back after the update."})

    engine = await open_engine(tmp_path, embedder=Apart())
    await engine.sync(reason="cli")
    report = await engine.search("E_CONN_RESET")

    assert [hit.path for hit in report.hits][:1] == ["memory/mail.md"]
    assert report.hits[0].score >= 0.6
    await engine.close()


@pytest.mark.covers("SRCH-14")
async def test_the_reply_has_whole_fields_and_no_whole_file(tmp_path: Path) -> None:
    """SRCH-14, SEED-8: with diversity and decay on, every hit keeps its place, lines, score and source."""
    long = "\n".join(f"- line {n} about the automobile in Lyon" for n in range(200))
    workspace(tmp_path, NOTES | {"memory/long.md": long})
    settings = _hybrid(mmr={"enabled": True}, temporalDecay={"enabled": True})

    hits = await _hits(tmp_path, settings, WordEmbedder(synonyms=ENGLISH), "car trouble in Lyon")

    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({(hit.path, hit.start_line, hit.end_line) for hit in hits}) == len(hits) == 6
    for hit in hits:
        assert 1 <= hit.start_line <= hit.end_line
        assert 0 <= hit.score <= 1
        assert 0 < len(hit.snippet) <= 700
        assert hit.citation.startswith(f"{hit.path}#L{hit.start_line}")


@pytest.mark.covers("CHUNK-7")
async def test_a_very_long_question_is_cut_before_it_is_embedded(tmp_path: Path) -> None:
    """CHUNK-7: a pasted page is asked by its beginning, whole characters of it; a short one as it is."""
    workspace(tmp_path, NOTES)
    embedder = Apart()
    engine = await open_engine(tmp_path, embedder=embedder)
    await engine.sync(reason="cli")

    report = await engine.search("lentil soup " + "😀" * 60_000)
    await engine.search("lentil soup")

    assert report.hits[0].path == "memory/neither.md"
    long, short = embedder.queries[-2:]
    assert long.startswith("lentil soup 😀")
    assert len(long) <= 2_000
    assert len(long.encode()) <= 8_000
    assert short == "lentil soup"
    await engine.close()


@pytest.mark.covers("SEED-7", "PART-18")
async def test_the_literal_formula_takes_the_seeds_pool(tmp_path: Path) -> None:
    """SEED-7: with `fusion: seed` both lists offer `maxResults` times the multiplier, and no more."""
    workspace(tmp_path, {f"memory/{n}.md": f"- the cat {'sat ' * n}" for n in range(1, 30)})
    settings = _hybrid(fusion="seed", candidateMultiplier=2) | {}
    engine = await open_engine(tmp_path, settings, embedder=Apart())
    await engine.sync(reason="cli")

    report = await engine.search("cat", max_results=3, min_score=0, explain=True)

    ranks = [hit.explain.lexical_rank for hit in report.hits if hit.explain and hit.explain.lexical_rank]
    assert len(report.hits) == 3
    assert max(ranks) <= 6
    await engine.close()


@pytest.mark.covers("Q-19")
async def test_a_provider_that_fails_in_the_middle_keeps_what_was_paid(tmp_path: Path) -> None:
    """Quirk 19: what was embedded before the failure is stored, and only the rest is asked for again."""

    class Stops(WordEmbedder):
        batch_texts = 1
        answers = 5

        async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if self.answers == 0:
                raise EmbeddingFailed("The embedding server answered 502.")
            self.answers -= 1
            return await super().embed_documents(texts)

    workspace(tmp_path, {f"memory/{n}.md": f"note {n}" for n in range(9)})
    embedder = Stops()
    embedder.answers = 6  # one call goes to the measuring of cosines
    engine = await open_engine(tmp_path, embedder=embedder)

    first = await engine.sync(reason="cli")
    embedder.answers = 99
    second = await engine.sync(reason="cli")

    assert "502" in first.problem
    assert (first.embedded, first.pending_vectors) == (5, 4)
    assert (second.embedded, second.pending_vectors, second.problem) == (4, 0, "")
    await engine.close()
