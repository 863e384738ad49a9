"""The memory engine, which the runtime holds: an index that follows the notes, and searches in it.

Markdown is the truth, and the index can be deleted at any time. A search reads what is published: it never
rebuilds, and waits a fraction of a second for a pending update of words.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nacre.memory.contracts.embedder import fallback_of, language_part_of
from nacre.memory.contracts.records import Question, SearchReport
from nacre.memory.contracts.store import Scope, Snapshot, Store
from nacre.memory.files.note_files import NoteFiles, read_excerpt
from nacre.memory.search.rerankers.reranker import Reranking, reranking_of
from nacre.memory.sync.file_sync import Corpus
from nacre.memory.sync.indexing import IndexPlan
from nacre.memory.sync.syncing import SyncedIndex, read_meta, stored_languages
from nacre.memory.text.chunker import ChunkSizes
from nacre.memory.text.days.day_limits import day_limits

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.records import Excerpt, MemoryStatus
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.store import IndexPlace
    from nacre.memory.contracts.transcripts import TranscriptSource
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.search.finding import EmbedderInUse
    from nacre.memory.search.rerankers.reranker import Reranker

T = TypeVar("T")
MAX_RESULTS = 1_000
"""The limit for the hits of one search."""
FIRST_WAIT_SECONDS = 3.0
"""How long a search waits for the first update, because an empty index cannot answer."""


class MemoryEngine(SyncedIndex):
    """Searches one agent's memory. Create it with `MemoryEngine.open` and close it."""

    freshness_wait_seconds = 0.5
    """How long a search waits for a pending update of words, so that a note just written is found."""

    def __init__(
        self,
        plan: IndexPlan,
        place: IndexPlace,
        store: Store,
        now: Callable[[], datetime],
        *,
        owns_embedder: bool = False,
        reranking: Reranking | None = None,
    ) -> None:
        super().__init__(plan, place, store, now, owns_embedder=owns_embedder)
        self._reranking = reranking

    @classmethod
    async def open(
        cls,
        *,
        workspace: Workspace,
        index_path: Path,
        settings: MemorySearchSettings,
        embedder: Embedder | None,
        now: Callable[[], datetime],
        transcripts: TranscriptSource | None = None,
        owns_embedder: bool = False,
        reranker: Reranker | None = None,
        place: IndexPlace | None = None,
        corpus: Callable[[ChunkSizes], Corpus] | None = None,
    ) -> MemoryEngine:
        """Opens or creates the index and sets a damaged one aside. Reads no Markdown yet.

        The index is in the file `index_path` unless a `place` is given. The engine closes `transcripts` and
        `reranker`, and the `embedder` if it `owns_embedder`. `corpus` returns what is indexed instead of the
        agent's notes.

        Raises:
            IndexUnusable: the index cannot be opened or replaced.
            IndexBusy: another process kept the index locked.
        """
        sizes = ChunkSizes(tokens=settings.chunking.tokens, overlap_tokens=settings.chunking.overlap)
        if place is None:
            from nacre.memory.stores.index_file import index_in_file  # not for an index in a database

            place = index_in_file(index_path, settings, now)
        plan = IndexPlan(
            corpus=corpus(sizes)
            if corpus
            else Corpus(notes=NoteFiles(workspace, settings.extra_paths), sizes=sizes),
            settings=settings,
            embedder=embedder,
            transcripts=transcripts,
            analysis=place.analysis,
        )
        reranking = reranking_of(reranker, settings.query.rerank)
        store = await place.open()
        engine = cls(plan, place, store, now, owns_embedder=owns_embedder, reranking=reranking)
        engine.languages = stored_languages(await engine._with_store(read_meta))
        return engine

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
        started, now, settings = time.perf_counter(), self._now(), self._plan.settings.query
        days = day_limits(
            after=question.after, before=question.before, as_of=question.as_of, today=now.date()
        )
        await self._freshen()
        await self._follow_index()
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
                    for source in self._plan.settings.sources
                    if question.sources is None or source in question.sources
                ),
                after=days.after,
                before=days.before,
                undated=days.undated,
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
            max_results=context.max_results,
            provider=embedder.provider if embedder else "none",
            model=embedder.model if embedder else "",
            fallback=fallback_of(self._plan.embedder),
            stale=self._stale,
            elapsed_ms=(time.perf_counter() - started) * 1000,
        )

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """Lines of a memory file, read from the workspace; with `below`, only of files in that folder.

        Raises:
            ReadRefused: the path is not that of a memory file.
        """
        return await read_excerpt(
            self._plan.corpus.notes, path, from_line=from_line, lines=lines, below=below
        )

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """Compares the index with the files. `deep` also asks the models and checks the whole index."""
        found = await super().status(deep=deep)
        if self._reranking is None:
            return found
        problem = await self._reranking.ask_now() if deep else self._reranking.problem
        return replace(found, reranker=self._reranking.name, reranker_problem=problem)

    async def start_watching(self) -> None:
        """Follows files and transcripts as the settings say, and keeps vectors up to date.

        Also checks a large index for damage and loads the re-ranker, in the background.
        """
        if self._reranking is not None:
            self._reranking.load_ahead()
        await super().start_watching()

    async def close(self) -> None:
        """Stops watching and syncing, waits for the file in hand, and closes the index and the re-ranker."""
        if self._reranking is not None:
            await self._reranking.close()
        await super().close()

    async def _search(self, work: Callable[[Snapshot], T]) -> T:
        return await self._with_store(lambda store: store.search(work))

    def _embedder_in_use(self) -> EmbedderInUse | None:
        from nacre.memory.search.finding import EmbedderInUse

        vectors = self._query_vectors
        if vectors is None:
            return None
        return EmbedderInUse(
            vectors=vectors,
            identity=self._plan.identity,
            key=self._plan.embedder_key,
            language_part=language_part_of(self._plan.embedder),
        )

    async def _freshen(self) -> None:
        if not self._stale or not self._plan.settings.sync.on_search:
            return
        was_indexed = "last_sync_at_seconds" in await self._with_store(read_meta)
        patience = self.freshness_wait_seconds if was_indexed else FIRST_WAIT_SECONDS
        if self._files.running_seconds > patience:
            return
        await asyncio.wait({self._start("search")}, timeout=patience)
