"""The index over the notes of all pages: how pages are cut, and how well notes fit a query.

The index is opened when it is first needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING

from nacre.closing import stop_tasks
from nacre.extensions.facts.page import Page
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Chunk, Day, Question, SearchReport
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, storable
from nacre.memory.text.lexical import lexical_fields
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.engine import MemoryEngine

_MORE_HITS = 4
"""Extra hits, because notes may have been deleted since they were indexed."""
VECTOR_WAIT_SECONDS = 3.0
"""How long a recall waits for the vectors of the latest notes; without them, words find these notes."""
_STALE_SEARCHES = 8
"""How often a search that has not seen the latest note is repeated; each one waits half a second for it."""

log = logging.getLogger(__name__)


class NotesFound(Record):
    """Scores of notes, 0 to 1, by page and number; `degraded` as in a `SearchReport`, or why no notes were
    searched."""

    by_page: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    degraded: str = ""

    def score(self, page: str, number: int) -> float | None:
        """The score of a note, or `None` if it was not found."""
        return self.by_page.get(page, {}).get(number)


NOTHING_FOUND = NotesFound()


class NoteScores:
    """Opens the index on the first recall or note, and keeps it up to date until it is closed.

    The `start_line` of a hit of the index is the number of its note; see `notes_of_page`.
    """

    def __init__(self, open_index: Callable[[], Coroutine[None, None, MemoryEngine]]) -> None:
        self._open_index = open_index
        self._opening: asyncio.Task[MemoryEngine] | None = None
        self._following: asyncio.Task[None] | None = None
        self._seen: dict[str, str] = {}

    async def scores(
        self, query: str, pages: Mapping[str, bytes], *, k: int, min_score: float, before: Day | None
    ) -> NotesFound:
        """The best notes of each of these pages in their present state. Raises nothing."""
        if not pages:
            return NOTHING_FOUND
        try:
            index = await self._opened()
            marks = {page: hashlib.sha256(data).hexdigest() for page, data in pages.items()}
            if any(self._seen.get(page) != mark for page, mark in marks.items()):
                index.mark_dirty()
                self.follow()
            if self._following is not None:
                await asyncio.wait({self._following}, timeout=VECTOR_WAIT_SECONDS)
            reports: dict[str, SearchReport] = {}
            question = Question(text=query, max_results=k + _MORE_HITS, min_score=min_score, before=before)
            for page in pages:
                for _ in range(_STALE_SEARCHES):
                    reports[page] = await index.search(replace(question, below=page.rpartition("/")[0]))
                    if not reports[page].stale:
                        self._seen[page] = marks[page]
                        break
        except MemoryIndexError as error:
            log.warning("notes could not be searched: %s", error)
            return NotesFound(degraded=f"Notes were not searched. {error}")
        return NotesFound(
            by_page={
                page: {hit.start_line: hit.score for hit in reversed(report.hits)}
                for page, report in reports.items()
            },
            degraded=next((report.degraded for report in reports.values() if report.degraded), ""),
        )

    async def sync(self) -> None:
        """Waits until all notes and their vectors are indexed."""
        index = await self._opened()
        index.mark_dirty()
        await index.sync(reason="facts")

    def follow(self) -> None:
        """Indexes new notes in the background."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._followed(), name="facts-index")

    async def close(self) -> None:
        """Stops the background work and closes the index."""
        await stop_tasks(self._following)
        if self._opening is not None:
            with suppress(MemoryIndexError):
                await (await self._opening).close()

    async def _opened(self) -> MemoryEngine:
        """The open index. Opening is tried again after a failure."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._open_index(), name="facts-index-opening")
        return await asyncio.shield(self._opening)

    async def _followed(self) -> None:
        try:
            await self.sync()
        except MemoryIndexError as error:
            log.warning("notes could not be indexed: %s", error)


def notes_of_page(state: FileState, data: bytes, sizes: ChunkSizes) -> IndexedFile:
    """The notes of a page as chunks; a long note is several chunks.

    The line numbers of a chunk are the number of its note, because text above a note moves its lines, and an
    index that has not seen this must still identify the note.
    """
    chunks = list(_chunks(state, data, sizes))
    return IndexedFile(state=state, chunks=chunks, fields=[lexical_fields(chunk) for chunk in chunks])


def _chunks(state: FileState, data: bytes, sizes: ChunkSizes) -> Iterator[Chunk]:
    ordinal = 0
    for note in Page(data, identity="", zone=None).notes():
        if note.number is None or note.tail is None:
            continue
        lines = storable(note.text).split("\n")
        document = Document(source="memory", path=state.path, lines=lines, day=note.tail.at.date())
        for chunk in chunk_document(document, sizes):
            yield replace(
                chunk, start_line=note.number, end_line=note.number, heading_path=(), ordinal=ordinal
            )
            ordinal += 1
