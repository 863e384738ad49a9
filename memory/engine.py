"""The memory engine: what the runtime holds. Opens, keeps in step with the files, searches, reads, closes.

Markdown is the truth; the index that this keeps can be deleted at any time. A search reads what is published:
it never rebuilds, and gives a pending word-only update a fraction of a second before it answers without it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nacre.memory.contracts.embedder import fallback_of, language_part_of
from nacre.memory.contracts.records import Question, SearchReport
from nacre.memory.contracts.store import Scope, Snapshot
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.search.rerankers.reranker import Reranking, reranking_of
from nacre.memory.stores.index_file import index_in_file
from nacre.memory.sync.file_sync import Corpus
from nacre.memory.sync.indexing import IndexPlan
from nacre.memory.sync.syncing import Syncing
from nacre.memory.sync.triggers import IndexTriggers
from nacre.memory.text.chunker import ChunkSizes
from nacre.memory.text.days.day_limits import day_limits

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.index_place import IndexPlace
    from nacre.memory.contracts.records import Excerpt, MemoryStatus, SyncProgress, SyncReport
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.transcripts import TranscriptSource
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.search.finding import EmbedderInUse
    from nacre.memory.search.rerankers.reranker import Reranker

T = TypeVar("T")
MAX_RESULTS = 1_000
"""Most hits of one search, whatever is asked for."""
FIRST_WAIT_SECONDS = 3.0
"""What a search grants the very first update, because an empty index has nothing to answer with."""


class MemoryEngine:
    """Search over one agent's memory. Make it with `MemoryEngine.open`; close it when done."""

    freshness_wait_seconds = 0.5
    """What a search grants a pending word-only update, so that a note written a moment ago is found."""

    def __init__(
        self,
        plan: IndexPlan,
        syncing: Syncing,
        now: Callable[[], datetime],
        *,
        owns_embedder: bool,
        reranking: Reranking | None,
    ) -> None:
        self._plan = plan
        self._owns_embedder = owns_embedder
        self._settings = plan.settings
        self._syncing = syncing
        self._now = now
        self._reranking = reranking
        self._following = IndexTriggers(plan.settings.sync, start=syncing.start, changed=self.mark_dirty)
        self._check: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        workspace: Workspace,
        index_path: Path,
        settings: MemorySearchSettings,
        embedder: Embedder | None,
        now: Callable[[], datetime],
        count_tokens: Callable[[str], int] | None = None,
        transcripts: TranscriptSource | None = None,
        owns_embedder: bool = False,
        reranker: Reranker | None = None,
        place: IndexPlace | None = None,
        corpus: Callable[[ChunkSizes], Corpus] | None = None,
    ) -> MemoryEngine:
        """Opens the index, creating it when there is none; a damaged one is set aside. Reads no Markdown yet.

        The engine closes `transcripts`, `reranker`, and `embedder` only if it `owns_embedder`. `count_tokens`
        makes chunk sizes exact and indexing slower; without it sizes are estimated. `corpus` makes what is
        indexed in the place of the agent's notes. The index is in the file
        `index_path` unless it has a `place`.

        Raises:
            IndexUnusable: the index cannot be opened, and no fresh one can take its place.
            IndexBusy: another process kept the index locked.
        """
        sizes = ChunkSizes(
            tokens=settings.chunking.tokens,
            overlap_tokens=settings.chunking.overlap,
            count_tokens=count_tokens,
        )
        place = place or index_in_file(index_path, settings, now)
        plan = IndexPlan(
            corpus=(corpus or partial(_agents_notes, workspace, settings))(sizes),
            settings=settings,
            embedder=embedder,
            transcripts=transcripts,
            analysis=place.analysis,
        )
        syncing = Syncing(plan, place, await place.open(), now)
        await syncing.know_languages()
        reranking = reranking_of(reranker, settings.query.rerank)
        return cls(plan, syncing, now, owns_embedder=owns_embedder, reranking=reranking)

    @property
    def languages(self) -> tuple[str, ...]:
        """In which languages the notes are, by their English names; empty until that is known."""
        return self._syncing.languages

    async def search(self, question: Question | str, /, **limits: Any) -> SearchReport:
        """The up to `MAX_RESULTS` passages that fit a question best.

        A text with `limits`, such as `max_results=3`, stands for a `Question` with these fields.

        Raises:
            IndexUnusable, IndexClosed: the index cannot be read, and could not be repaired.
            DayUnknown: `after`, `before` or `as_of` does not name a day.
        """
        # Indexing and status do not need these imports.
        from nacre.memory.search.finding import SearchContext
        from nacre.memory.search.searching import search

        if isinstance(question, str):
            question = Question(text=question, **limits)
        started, now, settings = time.perf_counter(), self._now(), self._settings.query
        days = day_limits(
            after=question.after, before=question.before, as_of=question.as_of, today=now.date()
        )
        await self._freshen()
        await self._syncing.follow_index()
        embedder = self._plan.embedder.facts if self._plan.embedder else None
        count = settings.max_results if question.max_results is None else question.max_results
        least = question.min_score
        context = SearchContext(
            question=question,
            max_results=min(MAX_RESULTS, max(1, count)),
            min_score=settings.min_score if least is None else min(1.0, max(0.0, least)),
            scope=Scope(
                sources=tuple(
                    source
                    for source in self._settings.sources
                    if question.sources is None or source in question.sources
                ),
                after=days.after,
                before=days.before,
                below=question.below,
            ),
            settings=settings,
            embedder=self._embedder_in_use(),
            reranking=self._reranking,
            now=datetime.combine(days.today, now.timetz()),
        )
        report = await search(self._search, context)
        return replace(
            report,
            limited=days.sentence,
            provider=embedder.provider if embedder else "none",
            model=embedder.model if embedder else "",
            fallback=fallback_of(self._plan.embedder),
            stale=self._syncing.stale,
            elapsed_ms=(time.perf_counter() - started) * 1000,
        )

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """Lines of a memory file, straight from the workspace; with `below`, of one in that folder.

        Raises:
            ReadRefused: the path is not one of memory's.
        """
        from nacre.memory.files.note_files import read_excerpt

        return await read_excerpt(
            self._plan.corpus.notes, path, from_line=from_line, lines=lines, below=below
        )

    async def sync(
        self,
        *,
        reason: str,
        force: bool = False,
        progress: Callable[[SyncProgress], None] | None = None,
    ) -> SyncReport:
        """Brings the index in line with the files and waits for it, vectors included.

        `force` builds everything again behind the index that answers, also when a sync is running. Then, and
        for the reason `cli`, an embedder that was left for its fallback is asked again at once.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """
        return await self._syncing.run(reason, force=force, listener=progress)

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """What is indexed, what is not and why. `deep` also asks the models and reads the index through."""
        found = await self._syncing.status(deep=deep, watching=self._following.watching)
        if self._reranking is None:
            return found
        problem = await self._reranking.ask_now() if deep else self._reranking.problem
        return replace(found, reranker=self._reranking.name, reranker_problem=problem)

    def mark_dirty(self) -> None:
        """Says that a memory file may have changed; the next search or sync looks."""
        self._syncing.mark_dirty()

    def transcripts_changed(self) -> None:
        """Says that something was said: the next search or sync looks.

        Of an engine that follows the files, a transcript that has grown by enough is indexed soon after it.
        """
        self._syncing.mark_dirty()
        self._following.transcripts_changed()

    def embedder_changed(self) -> None:
        """Says that the embedder is another now: all vectors are made again, and a sync that runs waits."""
        self._syncing.hand_over()

    def session_started(self) -> None:
        """Says that a conversation begins: looks for changes in the background, if `sync.onSessionStart`."""
        if self._settings.sync.on_session_start:
            self._syncing.mark_dirty()
            self._syncing.start("session-start")

    async def start_watching(self) -> None:
        """Follows files and transcripts: as they change, and every `sync.intervalMinutes`, by the settings.

        Also begins, in the background, to read a large index through for damage and to load the re-ranker.
        """
        if self._check is not None:
            return
        self._syncing.keep_vectors_current()
        self._check = asyncio.create_task(self._syncing.heal_if_damaged(), name="memory-check")
        if self._reranking is not None:
            self._reranking.load_ahead()
        source, due = self._plan.transcripts, None
        if source is not None:
            from nacre.memory.sync.transcripts import any_due  # past conversations are opt-in

            any_is_due = partial(any_due, source=source, settings=self._settings.sync.sessions)
            due = partial(self._syncing.with_store, any_is_due)
        await self._following.begin(self._plan.corpus.notes.watch, due)

    async def close(self) -> None:
        """Stops watching and syncing, waits for the file in hand, and closes the index."""
        await self._following.close()
        if self._check is not None:
            self._check.cancel()
            await asyncio.gather(self._check, return_exceptions=True)
        if self._reranking is not None:
            await self._reranking.close()
        await self._syncing.close()
        if self._plan.transcripts is not None:
            await self._plan.transcripts.close()
        if self._owns_embedder and self._plan.embedder is not None:
            await self._plan.embedder.close()

    async def _search(self, work: Callable[[Snapshot], T]) -> T:
        return await self._syncing.with_store(lambda store: store.search(work))

    def _embedder_in_use(self) -> EmbedderInUse | None:
        from nacre.memory.search.finding import EmbedderInUse

        vectors = self._syncing.query_vectors
        if vectors is None:
            return None
        return EmbedderInUse(
            vectors=vectors,
            identity=self._plan.identity,
            key=self._plan.embedder_key,
            language_part=language_part_of(self._plan.embedder),
        )

    async def _freshen(self) -> None:
        """Gives a pending update a moment, unless one has been running for longer already."""
        if not self._syncing.stale or not self._settings.sync.on_search:
            return
        patience = self.freshness_wait_seconds if await self._syncing.was_indexed() else FIRST_WAIT_SECONDS
        if self._syncing.running_seconds > patience:
            return
        await asyncio.wait({self._syncing.start("search")}, timeout=patience)


def _agents_notes(workspace: Workspace, settings: MemorySearchSettings, sizes: ChunkSizes) -> Corpus:
    return Corpus(notes=NoteFiles(workspace, settings.extra_paths), sizes=sizes)
