"""The engine with an embedder: hybrid search, degradation, identity, cache."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.engine import MemoryEngine
from nacre.memory.vectors.cosine_scale import SCALE_ROW, SCALE_SENTENCES, cosine
from tests.memory.doubles import (
    ArrayEmbedder,
    DeadEmbedder,
    RefusingEmbedder,
    WordEmbedder,
    open_engine,
    workspace,
)

NOTES = {
    "memory/2026-02-10.md": "# 2026-02-10\n\n- The automobile broke down near Lyon.\n",
    "memory/2026-02-11.md": "# 2026-02-11\n\n- Dinner with Anna, lentil soup.\n",
}


async def test_vectors_find_what_words_do_not(tmp_path: Path) -> None:
    """A question that shares no word with a note finds it by meaning."""
    workspace(tmp_path, NOTES)
    embedder = WordEmbedder(synonyms={"car": "automobile", "trouble": "broke"}, dimensions=256)
    engine = await open_engine(tmp_path, embedder=embedder)
    await engine.sync(reason="cli")

    report = await engine.search("car trouble", explain=True, min_score=0)

    assert report.hits[0].path == "memory/2026-02-10.md"
    assert (report.mode, report.provider, report.model, report.degraded) == ("hybrid", "test", "words", "")
    explain = report.hits[0].explain
    assert explain is not None
    assert (explain.lexical_rank, explain.vector_rank) == (None, 1)
    await engine.close()


async def test_vectors_may_be_arrays(tmp_path: Path) -> None:
    """An embedder that answers with numpy arrays is as good as one that answers with lists."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=ArrayEmbedder())

    report = await engine.sync(reason="cli")

    assert (report.embedded, report.problem) == (2, "")
    assert (await engine.search("lentil soup")).mode == "hybrid"
    await engine.close()


@pytest.mark.covers("Q-12")
async def test_words_are_searchable_before_any_vector_exists(tmp_path: Path) -> None:
    """A search on a new workspace asks the embedder for its question only, and finds by words."""
    workspace(tmp_path, NOTES)
    embedder = WordEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)

    report = await engine.search("lentil soup")

    assert [hit.path for hit in report.hits][:1] == ["memory/2026-02-11.md"]
    assert embedder.asked == []
    assert (await engine.status()).pending_vectors == 2
    await engine.close()


async def test_an_edit_embeds_only_what_changed(tmp_path: Path) -> None:
    """Chunks whose text is the same keep their vectors, also through a forced rebuild."""
    sections = [f"# Part {number}\n\n{f'word{number} ' * 60}\n" for number in range(6)]
    root = workspace(tmp_path, {"MEMORY.md": "".join(sections)})
    embedder = WordEmbedder()
    engine = await open_engine(tmp_path, {"chunking": {"tokens": 120, "overlap": 0}}, embedder=embedder)
    first = await engine.sync(reason="cli")
    embedder.asked.clear()
    (root / "MEMORY.md").write_text("".join([*sections[:5], f"# Part 5\n\n{'other ' * 60}\n"]))

    second = await engine.sync(reason="cli")
    third = await engine.sync(reason="cli", force=True)

    assert first.embedded == first.indexed_chunks == 6
    assert (second.embedded, second.reused_vectors, len(embedder.asked)) == (1, 0, 1)
    assert (third.embedded, third.pending_vectors) == (0, 0)
    await engine.close()


@pytest.mark.covers("SEED-6", "Q-4")
async def test_a_dead_embedder_leaves_words_and_says_why(tmp_path: Path) -> None:
    """Indexing and searching go on by words, marked degraded; when it is back, so are the vectors.

    The reason outlives the process that met it, so that `memory status` can tell it.
    """
    workspace(tmp_path, NOTES)
    embedder = DeadEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)

    sync = await engine.sync(reason="cli")
    report = await engine.search("lentil soup")
    again = await engine.search("Lyon")
    status = await engine.status(deep=True)

    assert (sync.indexed_files, sync.pending_vectors) == (2, 2)
    assert "503" in sync.problem
    assert report.hits[0].path == "memory/2026-02-11.md"
    assert (report.mode, again.mode) == ("lexical", "lexical")
    assert "503" in report.degraded
    assert "503" in again.degraded
    assert "503" in (status.embeddings_problem or "")
    calls = embedder.calls
    await engine.search("one more question")
    assert embedder.calls == calls
    await engine.close()

    embedder.alive = True
    healthy = await open_engine(tmp_path, embedder=embedder)
    assert "503" in (await healthy.status()).last_sync_problem
    assert (await healthy.sync(reason="cli")).pending_vectors == 0
    assert (await healthy.status()).last_sync_problem == ""
    assert (await healthy.search("lentil soup")).mode == "hybrid"
    await healthy.close()


@pytest.mark.covers("Q-17")
async def test_a_refused_text_does_not_stop_the_others(tmp_path: Path) -> None:
    """Every other chunk gets its vector, the refused one is counted and not asked for again."""
    workspace(tmp_path, {f"memory/{n}.md": f"note {n} {'poison' if n == 3 else ''}" for n in range(9)})
    embedder = RefusingEmbedder("poison")
    engine = await open_engine(tmp_path, embedder=embedder)

    report = await engine.sync(reason="cli")
    again = await engine.sync(reason="cli")

    assert (report.embedded, report.refused_texts, report.pending_vectors, report.problem) == (8, 1, 0, "")
    assert (again.embedded, again.refused_texts) == (0, 0)
    assert (await engine.status()).refused == ("memory/3.md#L1",)
    assert (await engine.search("poison", min_score=0)).hits[0].path == "memory/3.md"
    await engine.close()


@pytest.mark.covers("IDX-2", "SEED-4", "PART-17")
async def test_another_model_makes_new_vectors_and_searches_words_until_then(tmp_path: Path) -> None:
    """Vectors of one model are never compared with another's; going back costs nothing."""
    workspace(tmp_path, NOTES)
    first, second = WordEmbedder(), WordEmbedder(model="other", dimensions=32)
    engine = await open_engine(tmp_path, embedder=first)
    await engine.sync(reason="cli")
    await engine.close()

    changed = await open_engine(tmp_path, {"sync": {"onSearch": False}}, embedder=second)
    before = await changed.search("lentil soup")
    assert before.mode == "lexical"
    assert "model changed" in before.degraded
    assert "model changed" in (await changed.status()).identity_problem
    assert (await changed.sync(reason="cli")).embedded == 2
    assert (await changed.search("lentil soup")).mode == "hybrid"
    assert (await changed.status()).dimensions == 32
    await changed.close()

    first.asked.clear()
    back = await open_engine(tmp_path, embedder=first)
    report = await back.sync(reason="cli")
    assert (report.embedded, report.reused_vectors, report.rebuilt) == (0, 2, "")
    await back.close()


async def test_a_cache_that_is_switched_off_keeps_nothing_unused(tmp_path: Path) -> None:
    """With `cache.enabled: false`, vectors of deleted text are deleted."""
    root = workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, {"cache": {"enabled": False}}, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    (root / "memory" / "2026-02-11.md").unlink()

    await engine.sync(reason="cli")

    status = await engine.status()
    assert (status.vectors, status.cached_vectors, status.cache_enabled) == (1, 0, False)
    await engine.close()


@pytest.mark.covers("IDX-8", "SEED-5", "PART-35")
async def test_without_the_extension_numpy_gives_the_same_hits(tmp_path: Path) -> None:
    """`store.vector.enabled: false` compares in numpy; status says so; hits and scores are the same."""
    workspace(tmp_path, NOTES)
    reports = []
    for enabled in (True, False):
        settings = {"store": {"vector": {"enabled": enabled}}}
        engine = await open_engine(tmp_path, settings, embedder=WordEmbedder())
        await engine.sync(reason="cli")
        reports.append(await engine.search("dinner soup Lyon", min_score=0))
        status = await engine.status()
        await engine.close()

    assert status.vector_engine == "numpy"
    assert "store.vector.enabled" in status.vector_problem
    fast, slow = reports
    assert [hit.path for hit in fast.hits] == [hit.path for hit in slow.hits]
    for one, other in zip(fast.hits, slow.hits, strict=True):
        assert abs(one.score - other.score) < 1e-6


@pytest.mark.covers("SEED-5", "PART-35")
async def test_an_extension_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A wrong `extensionPath` falls back to numpy with the reason."""
    workspace(tmp_path, NOTES)
    settings = {"store": {"vector": {"extensionPath": str(tmp_path / "nothing")}}}
    engine = await open_engine(tmp_path, settings, embedder=WordEmbedder())
    await engine.sync(reason="cli")

    status = await engine.status()

    assert (status.vector_engine, (await engine.search("soup")).mode) == ("numpy", "hybrid")
    assert str(tmp_path / "nothing") in status.vector_problem
    await engine.close()


async def test_with_hybrid_off_vectors_alone_decide(tmp_path: Path) -> None:
    """`query.hybrid.enabled: false` is a vector search; without an embedder it is still a word search."""
    workspace(tmp_path, NOTES)
    settings = {"query": {"hybrid": {"enabled": False}}}
    engine = await open_engine(tmp_path, settings, embedder=WordEmbedder(dimensions=256))
    await engine.sync(reason="cli")
    report = await engine.search("lentil soup", explain=True, min_score=0)
    await engine.close()
    words = await open_engine(tmp_path, settings)

    assert report.mode == "vector"
    assert all(hit.explain is not None and hit.explain.lexical_rank is None for hit in report.hits)
    assert (await words.search("lentil soup")).mode == "lexical"
    await words.close()


class InstructedEmbedder(WordEmbedder):
    """Puts another instruction before questions than before passages; fails for questions while `is_busy`."""

    is_busy = False

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question, or none."""
        if self.is_busy:
            raise EmbeddingFailed("The embedding server answered 429.")
        return await super().embed_query(f"query {text}")

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return await super().embed_documents([f"passage {text}" for text in texts])


def scale_in(root: Path) -> tuple[float, float] | None:
    """The numbers for strangers and for paraphrases that the index keeps."""
    with closing(sqlite3.connect(root / "state/main.sqlite")) as index:
        row = index.execute("SELECT value FROM meta WHERE key = ?", (SCALE_ROW,)).fetchone()
    kept = json.loads(row[0]) if row else None
    return kept and (kept["unrelated"], kept["related"])


async def synced(root: Path, embedder: WordEmbedder) -> tuple[int, str]:
    """One pass of an engine of its own: how many vectors it made, and its problem."""
    engine = await open_engine(root, embedder=embedder)
    report = await engine.sync(reason="cli")
    await engine.close()
    return report.embedded, report.problem


async def test_a_scale_compares_questions_with_passages(tmp_path: Path) -> None:
    """It is measured once for an index, as a search compares: two passages share their instruction."""
    workspace(tmp_path, NOTES)
    embedder = InstructedEmbedder(dimensions=256)
    await synced(tmp_path, embedder)

    kept = scale_in(tmp_path)
    instructed = [
        (await embedder.embed_query(left), (await embedder.embed_documents([right]))[0])
        for left, right in SCALE_SENTENCES
    ]
    assert kept is not None
    assert kept[1] == pytest.approx(fmean(cosine(left, right) for left, right in instructed))
    asked = len(embedder.queries)
    workspace(tmp_path, {"memory/2026-02-12.md": "A new note.\n"})
    await synced(tmp_path, embedder)
    assert len(embedder.queries) == asked


async def test_vectors_are_made_while_questions_get_none(tmp_path: Path) -> None:
    """The usual scale stands in until the provider answers questions again."""
    workspace(tmp_path, NOTES)
    embedder = InstructedEmbedder()
    embedder.is_busy = True
    assert await synced(tmp_path, embedder) == (2, "")
    assert scale_in(tmp_path) is None

    embedder.is_busy = False
    await synced(tmp_path, embedder)
    assert scale_in(tmp_path) is not None


class _Computing(WordEmbedder):
    """Computes the vector of a question in this process, once it may."""

    def __init__(self) -> None:
        super().__init__(synonyms={"car": "automobile"})
        self.facts = replace(self.facts, in_process=True)
        self.may_answer = asyncio.Event()

    async def embed_query(self, text: str) -> Sequence[float]:
        """Waits until it may answer."""
        await self.may_answer.wait()
        return await super().embed_query(text)


async def computing_engine(root: Path) -> tuple[MemoryEngine, _Computing]:
    """An engine with all vectors in memory, whose embedder answers no question until it may."""
    workspace(root, NOTES)
    embedder = _Computing()
    engine = await open_engine(root, embedder=embedder)
    embedder.may_answer.set()
    await engine.sync(reason="cli")
    await engine.search("soup")  # the first one reads the vectors from the file
    embedder.may_answer.clear()
    return engine, embedder


async def test_a_late_vector_finds_as_much_as_an_early_one(tmp_path: Path) -> None:
    """Words are read while this process computes the vector; the hits and their scores are the same."""
    engine, embedder = await computing_engine(tmp_path)

    async with asyncio.timeout(60):
        late = asyncio.create_task(engine.search("car of Lyon", explain=True, min_score=0))
        await engine.sync(reason="cli")  # does not wait for the vector
        assert not late.done()
        embedder.may_answer.set()
        found = await late
    early = await engine.search("car of Lyon", explain=True, min_score=0)

    assert found.mode == "hybrid"
    assert found.hits
    assert found.hits == early.hits
    await engine.close()


async def test_a_search_ends_when_its_engine_closes(tmp_path: Path) -> None:
    """A question whose vector never comes is answered with words, and nobody waits for it."""
    engine, _ = await computing_engine(tmp_path)

    async with asyncio.timeout(60):
        search = asyncio.create_task(engine.search("lentil soup"))
        await engine.sync(reason="cli")
        await engine.close()
        report = await search

    assert report.mode == "lexical"
    assert [hit.path for hit in report.hits] == ["memory/2026-02-11.md"]
