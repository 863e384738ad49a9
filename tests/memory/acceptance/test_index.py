"""Index and sync: what must hold when something fails, hangs, changes or is empty."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.memory.files.file_reader import read_batch
from nacre.memory.text.chunker import ChunkSizes
from tests.memory.doubles import NOON, WordEmbedder, open_engine, workspace
from tests.memory.files.folder_notes import notes_of

NOTES = {"memory/2026-01-12.md": "# Log\n\n- Alpha memory line.\n", "MEMORY.md": "Beta knowledge base entry."}
SESSIONS: dict[str, Any] = {
    "sources": ["memory", "sessions"],
    "experimental": {"sessionMemory": True},
    "sync": {"sessions": {"deltaBytes": 0, "deltaMessages": 0}},
}


class Transcripts:
    """One transcript; can be made to hang, or to fail in a way that nobody foresaw."""

    def __init__(self, *, age: timedelta = timedelta(), lines: Sequence[str] = ("User: hello",)) -> None:
        self.hangs = False
        self.broken = False
        self._modified = NOON - age
        self._lines = list(lines)

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """The transcript, or never."""
        if self.hangs:
            await asyncio.Event().wait()
        return [
            TranscriptInfo(
                name="s1.jsonl",
                size_bytes=sum(map(len, self._lines)),
                lines=len(self._lines),
                modified_ns=int(self._modified.timestamp() * 1e9),
                ended=False,
            )
        ]

    async def close(self) -> None:
        """Nothing to let go of."""

    async def text(self, name: str) -> TranscriptText | None:
        """Its lines, on the lines of the same number."""
        if self.broken:
            raise RuntimeError("the transcript is bewitched")
        count = len(self._lines)
        return TranscriptText(lines=self._lines, line_numbers=range(1, count + 1), days=[None] * count)


@pytest.mark.covers("IDX-3", "IDX-4", "Q-34")
async def test_a_rebuild_that_fails_leaves_the_old_index(tmp_path: Path) -> None:
    """IDX-3, 4, quirk 34: the error comes out, the old index answers, and the next sync finishes the work."""
    workspace(tmp_path, NOTES)
    source = Transcripts()
    engine = await open_engine(tmp_path, SESSIONS, transcripts=source)
    await engine.sync(reason="cli")
    before = await engine.status()
    source.broken = True

    with pytest.raises(RuntimeError, match="bewitched"):
        await engine.sync(reason="cli", force=True)

    during = await engine.status()
    assert (during.files, during.chunks) == (before.files, before.chunks) == (3, 3)
    assert (await engine.search("alpha")).hits[0].path == "memory/2026-01-12.md"
    source.broken = False
    assert (await engine.sync(reason="cli")).rebuilt
    after = await engine.status()
    assert (after.files, after.chunks, after.dirty) == (3, 3, False)
    assert not list((tmp_path / "state").glob("*.rebuild*"))
    await engine.close()


@pytest.mark.covers("IDX-6")
async def test_a_search_does_not_wait_for_a_sync_that_hangs(tmp_path: Path) -> None:
    """IDX-6, SEED-3: an answer comes from what was indexed, and closing works."""
    root = workspace(tmp_path, NOTES)
    source = Transcripts()
    engine = await open_engine(tmp_path, SESSIONS, transcripts=source)
    await engine.sync(reason="cli")
    source.hangs = True
    (root / "memory" / "new.md").write_text("gamma")
    engine.mark_dirty()

    async with asyncio.timeout(60):
        report = await engine.search("alpha")

    assert (report.hits[0].path, report.stale) == ("memory/2026-01-12.md", True)
    async with asyncio.timeout(60):
        await engine.close()


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.covers("SEED-3")
async def test_a_session_that_starts_looks_for_changes(tmp_path: Path, wanted: bool) -> None:
    """SEED-3: in the background, without a watcher and without a search, if `sync.onSessionStart`."""
    root = workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, {"sync": {"onSessionStart": wanted, "onSearch": False}})
    await engine.sync(reason="cli")
    (root / "memory" / "new.md").write_text("gamma")

    engine.session_started()

    if wanted:
        async with asyncio.timeout(60):
            while (await engine.status()).pending_files:
                pass
    assert len((await engine.search("gamma", min_score=0)).hits) == wanted
    await engine.close()


@pytest.mark.covers("IDX-10", "Q-6")
async def test_a_new_source_is_added_without_a_rebuild(tmp_path: Path) -> None:
    """IDX-10, quirk 6: transcripts join what is there, and a later rebuild for any reason keeps them."""
    workspace(tmp_path, NOTES)
    plain = await open_engine(tmp_path)
    await plain.sync(reason="cli")
    await plain.close()
    engine = await open_engine(tmp_path, SESSIONS, transcripts=Transcripts())

    first = await engine.sync(reason="session-start")
    forced = await engine.sync(reason="watch", force=True)

    assert (first.rebuilt, first.indexed_files) == ("", 1)
    assert forced.rebuilt
    counts = [(item.source, item.files) for item in (await engine.status()).source_counts]
    assert counts == [("memory", 2), ("sessions", 1)]
    await engine.close()


@pytest.mark.covers("IDX-16")
async def test_an_index_of_words_becomes_one_of_vectors_and_back(tmp_path: Path) -> None:
    """IDX-16: without a provider words are indexed; a provider later adds vectors without a rebuild."""
    workspace(tmp_path, NOTES)
    words = await open_engine(tmp_path)
    await words.sync(reason="cli")
    assert ((await words.status()).mode, (await words.status()).provider) == ("lexical", "none")
    await words.close()

    both = await open_engine(tmp_path, embedder=WordEmbedder())
    report = await both.sync(reason="cli")
    assert (report.rebuilt, report.embedded, report.indexed_files) == ("", 2, 0)
    assert (await both.search("alpha")).mode == "hybrid"
    await both.close()

    back = await open_engine(tmp_path)
    assert (await back.search("alpha")).hits[0].path == "memory/2026-01-12.md"
    assert (await back.sync(reason="cli")).rebuilt == ""
    await back.close()


@pytest.mark.covers("CHUNK-2", "Q-7")
async def test_an_empty_workspace_is_not_rebuilt_again_and_again(tmp_path: Path) -> None:
    """Quirk 7: without a single note a second sync does nothing, and status is clean."""
    workspace(tmp_path, {"memory/blank.md": "\n\n  \n"})
    embedder = WordEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)
    first = await engine.sync(reason="cli")
    asked = list(embedder.asked)

    second = await engine.sync(reason="cli")

    assert (first.rebuilt, second.rebuilt, second.indexed_files) == ("", "", 0)
    assert (first.indexed_chunks, embedder.asked) == (0, asked)
    assert all(text.strip() for text in asked)
    status = await engine.status()
    assert (status.dirty, status.files, status.chunks) == (False, 1, 0)
    await engine.close()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.covers("Q-15")
async def test_a_wrong_number_of_vectors_is_not_taken(tmp_path: Path, count: int) -> None:
    """Quirk 15: chunks without a vector of their own stay pending and are asked for again."""

    class Miscounts(WordEmbedder):
        wrong = True

        async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            vectors = await super().embed_documents(texts)
            return list(vectors[:1]) * count if self.wrong else vectors

    workspace(tmp_path, NOTES)
    embedder = Miscounts()
    engine = await open_engine(tmp_path, embedder=embedder)

    first = await engine.sync(reason="cli")
    embedder.wrong = False
    second = await engine.sync(reason="cli")

    assert (first.pending_vectors, second.pending_vectors, second.embedded) == (2, 0, 2)
    assert "none is used" in first.problem
    await engine.close()


@pytest.mark.covers("Q-15")
async def test_an_empty_vector_is_no_vector(tmp_path: Path) -> None:
    """Quirk 15: an answer with a hole in it is not taken for done; words are searched meanwhile."""

    class Holes(WordEmbedder):
        broken = True

        async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            vectors = await super().embed_documents(texts)
            hole: Sequence[float] = []
            return [hole if self.broken else vector for vector in vectors]

    workspace(tmp_path, NOTES)
    embedder = Holes()
    engine = await open_engine(tmp_path, embedder=embedder)

    first = await engine.sync(reason="cli")
    embedder.broken = False
    second = await engine.sync(reason="cli")

    assert (first.embedded, first.pending_vectors) == (0, 2)
    assert "empty vector" in first.problem
    assert (second.embedded, second.pending_vectors, second.problem) == (2, 0, "")
    await engine.close()


@pytest.mark.covers("DISC-7")
async def test_a_file_that_vanishes_before_it_is_read_is_no_failure(tmp_path: Path) -> None:
    """DISC-7: it is simply not there; a file that cannot be read is a failure with a sentence."""
    root = workspace(tmp_path, NOTES | {"memory/link.md": "x"})
    notes = notes_of(root)
    found = [note.name for note in (await notes.listing()).notes]
    (root / "MEMORY.md").unlink()
    (root / "memory" / "link.md").unlink()
    (root / "memory" / "link.md").symlink_to(root / "memory" / "2026-01-12.md")

    batch = read_batch(await notes.read(found), {}, sizes=ChunkSizes(), read_at_ns=0)

    assert [file.state.path for file in batch.changed] == ["memory/2026-01-12.md"]
    assert [path for path, _ in batch.problems] == ["memory/link.md"]


@pytest.mark.covers("SEED-9", "Q-31")
async def test_transcripts_fade_by_their_last_change(tmp_path: Path) -> None:
    """SEED-9, quirk 31: with decay on, a conversation of 30 days ago counts half."""
    workspace(tmp_path, NOTES)
    settings = SESSIONS | {"query": {"hybrid": {"temporalDecay": {"enabled": True}}}}
    source = Transcripts(age=timedelta(days=30), lines=["User: my parrot is called Polly"])
    engine = await open_engine(tmp_path, settings, transcripts=source)
    await engine.sync(reason="cli")

    (hit,) = (await engine.search("parrot", explain=True, min_score=0)).hits

    assert hit.explain is not None
    assert hit.explain.decay_factor == pytest.approx(0.5)
    await engine.close()


@pytest.mark.covers("CHUNK-8", "SESS-2")
async def test_a_transcript_without_words_is_indexed_as_empty(tmp_path: Path) -> None:
    """SESS-2: no lines, no chunks, no failure."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, SESSIONS, transcripts=Transcripts(lines=[]))

    report = await engine.sync(reason="cli")

    assert (report.failed, report.problem, report.indexed_chunks) == ((), "", 2)
    await engine.close()
