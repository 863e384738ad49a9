"""Transcripts as a source: opt-in, by thresholds, with the transcript's own line numbers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.settings import SessionSyncSettings
from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.memory.sync.transcripts import is_due
from tests.memory.doubles import WordEmbedder, open_engine, workspace

OPTED_IN: dict[str, Any] = {
    "sources": ["memory", "sessions"],
    "experimental": {"sessionMemory": True},
    "sync": {"sessions": {"deltaBytes": 0, "deltaMessages": 0}},
}


class Transcripts:
    """Transcripts in memory; line n of the text stands on line 2n + 1 of its file."""

    def __init__(self, said: dict[str, list[str]]) -> None:
        self.said = said
        self.broken = self.is_closed = False
        self.unreadable: set[str] = set()
        self.failing: set[str] = set()
        self.ended: set[str] = set()

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All of them."""
        if self.broken:
            raise PermissionError("not now")
        return [
            TranscriptInfo(
                name=name,
                size_bytes=sum(map(len, lines)),
                lines=len(lines),
                modified_ns=1,
                ended=name in self.ended,
            )
            for name, lines in self.said.items()
        ]

    async def close(self) -> None:
        """Notes that nobody asks it any more."""
        self.is_closed = True

    async def text(self, name: str) -> TranscriptText | None:
        """What one of them says."""
        if name in self.failing:
            raise OSError("a bad block")
        if name in self.unreadable:
            return None
        lines = self.said[name]
        return TranscriptText(
            lines=lines,
            line_numbers=[2 * number + 1 for number in range(len(lines))],
            days=[date(2026, 2, 10)] * len(lines),
        )


@pytest.mark.covers("CHUNK-8")
async def test_transcripts_are_found_when_opted_in(tmp_path: Path) -> None:
    """A hit names the transcript, its own lines and its day; memory_get does not open it."""
    workspace(tmp_path, {"MEMORY.md": "Max likes tea."})
    said = Transcripts({"s1.jsonl": ["User: hello", "Assistant: hi", "User: my parrot is called Polly"]})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)
    await engine.sync(reason="cli")

    hits = (await engine.search("parrot", sources=["sessions"], after=date(2026, 2, 10))).hits

    assert [(hit.path, hit.source, hit.start_line, hit.end_line) for hit in hits] == [
        ("sessions/s1.jsonl", "sessions", 1, 5)
    ]
    assert (await engine.search("parrot", sources=["memory"], min_score=0)).hits == ()
    assert [(c.source, c.files) for c in (await engine.status()).source_counts] == [
        ("memory", 1),
        ("sessions", 1),
    ]
    await engine.close()


@pytest.mark.covers("IDX-10", "SEED-12")
async def test_without_opting_in_transcripts_are_not_even_asked_for(tmp_path: Path) -> None:
    """The default sources leave them out, a caller cannot bring them in, and switching off forgets them."""
    workspace(tmp_path, {"MEMORY.md": "Max likes tea."})
    said = Transcripts({"s1.jsonl": ["User: my parrot is called Polly"]})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)
    await engine.sync(reason="cli")
    await engine.close()
    plain = await open_engine(tmp_path, transcripts=said)

    assert (await plain.search("parrot", sources=["sessions"], min_score=0)).hits == ()
    await plain.sync(reason="cli")
    assert (await plain.status()).chunks == 1
    await plain.close()
    again = await open_engine(tmp_path, OPTED_IN)
    assert (await again.search("parrot", sources=["sessions"], min_score=0)).hits == ()
    await again.close()


async def test_a_deleted_session_is_forgotten(tmp_path: Path) -> None:
    """Its words and lines are gone with the next sync; a list that fails forgets nothing."""
    workspace(tmp_path, {})
    said = Transcripts({"s1.jsonl": ["User: my parrot is called Polly"]})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)
    await engine.sync(reason="cli")
    said.broken = True
    problem = (await engine.sync(reason="cli")).problem
    forced = await engine.sync(reason="cli", force=True)

    assert "cannot be listed" in problem
    assert forced.rebuilt
    assert len((await engine.search("parrot", min_score=0)).hits) == 1
    said.broken = False
    del said.said["s1.jsonl"]
    await engine.sync(reason="cli")
    assert (await engine.search("parrot", min_score=0)).hits == ()
    await engine.close()


async def test_a_transcript_that_cannot_be_read_survives_a_rebuild(tmp_path: Path) -> None:
    """What was indexed of it is found after the rebuild; when it can be read, what is new is found too."""
    workspace(tmp_path, {})
    said = Transcripts({"s1.jsonl": ["User: my parrot is called Polly"], "s2.jsonl": ["User: tea"]})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)
    await engine.sync(reason="cli")
    said.unreadable = {"s1.jsonl"}
    said.said["s1.jsonl"].append("User: and the zebra is called Zoe")

    assert (await engine.sync(reason="cli", force=True)).rebuilt

    assert len((await engine.search("parrot", min_score=0)).hits) == 1
    said.unreadable = set()
    await engine.sync(reason="cli")
    assert "Zoe" in (await engine.search("zebra", min_score=0)).hits[0].snippet
    assert (await engine.status()).chunks == 2
    await engine.close()


async def test_what_could_not_be_read_is_cut_anew_when_it_can_be(tmp_path: Path) -> None:
    """Chunks that outlived a rebuild in their old cut do not stay: the unchanged text is read again."""
    workspace(tmp_path, {})
    said = Transcripts({"s1.jsonl": [f"User: number {number} is a parrot" for number in range(60)]})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)
    await engine.sync(reason="cli")
    whole = (await engine.status()).chunks
    await engine.close()
    said.unreadable = {"s1.jsonl"}
    finer = await open_engine(
        tmp_path, OPTED_IN | {"chunking": {"tokens": 50, "overlap": 0}}, transcripts=said
    )
    assert "chunking changed" in (await finer.sync(reason="cli")).rebuilt
    assert (await finer.status()).chunks == whole
    said.unreadable = set()

    await finer.sync(reason="cli")

    assert (await finer.status()).chunks > 2 * whole
    await finer.close()


async def test_a_transcript_with_broken_characters_is_indexed(tmp_path: Path) -> None:
    """Halves of characters and NULs, which JSON can hold, neither stop the sync nor hide the words beside."""
    workspace(tmp_path, {})
    said = Transcripts(
        {"s1.jsonl": ["User: \ud800 zebra \x00 and \ud83d\ude00"], "s2.jsonl": ["User: giraffe"]}
    )
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said, embedder=WordEmbedder())

    report = await engine.sync(reason="cli")

    assert (report.indexed_files, report.embedded, report.problem) == (2, 2, "")
    (hit,) = (await engine.search("zebra", min_score=0.2)).hits
    assert hit.snippet == "User: \ufffd zebra \ufffd and 😀"
    assert (await engine.sync(reason="cli")).indexed_files == 0
    await engine.close()


async def test_one_transcript_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    """An error of the file system while reading one is told in the log, and it is read again later."""
    workspace(tmp_path, {})
    said = Transcripts({"s1.jsonl": ["User: zebra"], "s2.jsonl": ["User: giraffe"]})
    said.failing = {"s1.jsonl"}
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=said)

    first = await engine.sync(reason="cli")
    said.failing = set()
    second = await engine.sync(reason="cli")

    assert (first.indexed_files, second.indexed_files) == (1, 1)
    assert len((await engine.search("zebra", min_score=0)).hits) == 1
    await engine.close()


@pytest.mark.covers("Q-13")
async def test_status_counts_what_the_next_sync_would_do_to_transcripts(tmp_path: Path) -> None:
    """Those that grew by enough or ended, and deleted ones, are pending; those that grew a little wait."""
    workspace(tmp_path, {})
    said = Transcripts({f"s{number}.jsonl": ["User: hello"] for number in range(4)})
    settings = OPTED_IN | {"sync": {"sessions": {"deltaBytes": 0, "deltaMessages": 0}}}
    engine = await open_engine(tmp_path, settings, transcripts=said)
    assert (await engine.status()).pending_files == 4
    await engine.sync(reason="cli")
    await engine.close()

    engine = await open_engine(tmp_path, OPTED_IN | {"sync": {}}, transcripts=said)
    assert ((await engine.status()).pending_files, (await engine.status()).dirty) == (0, False)
    said.said["s0.jsonl"] += ["User: again"] * 50
    said.said["s1.jsonl"] += ["User: more"]
    said.said["s2.jsonl"] += ["User: goodbye"]
    said.ended.add("s2.jsonl")
    del said.said["s3.jsonl"]

    status = await engine.status()

    assert (status.pending_files, status.waiting_transcripts, status.dirty) == (3, 1, True)
    await engine.sync(reason="cli")
    status = await engine.status()
    assert (status.pending_files, status.waiting_transcripts, status.dirty) == (0, 1, False)
    said.broken = True
    assert (await engine.status()).pending_files == 0
    await engine.close()


@pytest.mark.covers("SESS-5")
async def test_a_session_below_the_thresholds_is_indexed_when_it_ends(tmp_path: Path) -> None:
    """Growth waits for 100 KB or 50 messages; the end of the session does not."""
    workspace(tmp_path, {})
    said = Transcripts({"s1.jsonl": ["User: my parrot is called Polly"]})
    settings = OPTED_IN | {"sync": {}}
    engine = await open_engine(tmp_path, settings, transcripts=said)

    await engine.sync(reason="cli")
    assert (await engine.search("parrot", min_score=0)).hits == ()
    said.ended.add("s1.jsonl")
    await engine.sync(reason="cli")
    assert len((await engine.search("parrot", min_score=0)).hits) == 1
    await engine.close()


@pytest.mark.parametrize(
    ("size_bytes", "lines", "due"),
    [(99_999, 49, False), (100_000, 1, True), (1, 50, True), (0, 0, False)],
)
@pytest.mark.covers("SEED-12", "PART-23")
def test_thresholds_count_growth(size_bytes: int, lines: int, due: bool) -> None:
    """100 KB or 50 lines since the last time make a transcript due; no growth never does."""
    info = TranscriptInfo(name="s", size_bytes=size_bytes, lines=lines, modified_ns=1, ended=False)

    assert is_due(info, None, SessionSyncSettings()) is due


async def test_an_engine_closes_where_its_transcripts_come_from(tmp_path: Path) -> None:
    """What the source holds, such as an index of sessions, is brought up to date and let go of."""
    source = Transcripts({})
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=source)
    assert not source.is_closed
    await engine.close()
    assert source.is_closed


async def test_others_go_on_while_a_long_transcript_is_indexed(tmp_path: Path) -> None:
    """A pass over a long transcript leaves the event loop free; turns of other sessions run there."""
    workspace(tmp_path, {"MEMORY.md": "Max likes tea."})
    lines = [f"User: the parrot in cage-{number} said {'polly ' * 60}" for number in range(6_000)]
    engine = await open_engine(tmp_path, OPTED_IN, transcripts=Transcripts({"s1.jsonl": lines}))
    # Processor time of the loop's own thread: what other programs take from it is no fault of the pass.
    began, last, longest = time.process_time(), time.thread_time(), 0.0
    indexing = asyncio.create_task(engine.sync(reason="cli"))
    while not indexing.done():
        await asyncio.sleep(0)
        longest, last = max(longest, time.thread_time() - last), time.thread_time()
    assert longest < (time.process_time() - began) / 4
    await engine.close()
