"""The memory engine: what the runtime holds. Opens, keeps in step with the files, searches, reads, closes.

Markdown is the truth; the index that this keeps can be deleted at any time. A search reads what is published:
it never rebuilds, and gives a pending word-only update a fraction of a second before it answers without it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.chunker import ChunkSizes
from nacre.memory.errors import MemoryIndexError
from nacre.memory.reading import read_excerpt
from nacre.memory.records import Excerpt, MemoryStatus, SearchReport, Source, SyncProgress, SyncReport
from nacre.memory.searching import Question, answer
from nacre.memory.settings import MemorySearchSettings
from nacre.memory.single_flight import SingleFlight, SyncRun
from nacre.memory.sqlite_store import SqliteStore
from nacre.memory.status import Moment, describe
from nacre.memory.store import Store
from nacre.memory.sync_files import Corpus, FileOutcome, sync_files
from nacre.memory.watcher import Watcher

if TYPE_CHECKING:
    from nacre.memory.embedder import Embedder

FRESHNESS_WAIT_SECONDS = 0.25
"""What a search grants a pending word-only update, so that a note written a moment ago is found."""


class MemoryEngine:
    """Search over one agent's memory. Make it with `MemoryEngine.open`; close it when done."""

    def __init__(
        self,
        *,
        store: Store,
        corpus: Corpus,
        settings: MemorySearchSettings,
        embedder: Embedder | None,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._corpus = corpus
        self._settings = settings
        self._embedder = embedder
        self._now = now
        self._files = SingleFlight("memory sync", self._sync_files)
        self._changes = 1
        self._changes_synced = 0
        self._last_problem = ""
        self._watcher: Watcher | None = None
        self._interval: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        workspace: Path,
        index_path: Path,
        settings: MemorySearchSettings,
        embedder: Embedder | None,
        now: Callable[[], datetime],
        count_tokens: Callable[[str], int] | None = None,
    ) -> MemoryEngine:
        """Opens the index, creating it when there is none. Reads no Markdown yet.

        Raises:
            IndexUnusable: the index cannot be opened, and no fresh one can take its place.
        """
        store = await SqliteStore.open(index_path)
        sizes = ChunkSizes(
            tokens=settings.chunking.tokens,
            overlap_tokens=settings.chunking.overlap,
            count_tokens=count_tokens,
        )
        corpus = Corpus(
            workspace=workspace, extra_paths=settings.extra_paths, sizes=sizes, index_path=index_path
        )
        return cls(store=store, corpus=corpus, settings=settings, embedder=embedder, now=now)

    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        after: date | None = None,
        before: date | None = None,
        sources: Sequence[Source] | None = None,
        explain: bool = False,
    ) -> SearchReport:
        """The places in memory that fit `query` best.

        `after` and `before` are inclusive days; chunks without a date are left out when one is given.
        """
        started = time.perf_counter()
        stale = await self._freshen()
        asked = self._settings.query
        allowed = self._settings.sources
        result = await answer(
            self._store,
            Question(
                text=query,
                max_results=max(1, max_results) if max_results is not None else asked.max_results,
                min_score=min(1.0, max(0.0, min_score)) if min_score is not None else asked.min_score,
                after=after,
                before=before,
                sources=tuple(source for source in sources or allowed if source in allowed),
                explain=explain,
            ),
        )
        return SearchReport(
            hits=result.hits,
            mode=result.mode,
            degraded=result.degraded,
            provider="none",
            model="",
            stale=stale,
            elapsed_ms=(time.perf_counter() - started) * 1000,
        )

    async def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a memory file, straight from the disk.

        Raises:
            ReadRefused: the path is not one of memory's.
        """
        return await asyncio.to_thread(
            read_excerpt,
            self._corpus.workspace,
            self._corpus.extra_paths,
            path,
            from_line=from_line,
            lines=lines,
        )

    async def sync(
        self,
        *,
        reason: str,
        force: bool = False,
        progress: Callable[[SyncProgress], None] | None = None,
    ) -> SyncReport:
        """Brings the index in line with the files and waits for it. `force` reads everything again.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """
        started = time.perf_counter()
        outcome = await self._files.run(reason, force=force, listener=progress)
        return SyncReport(
            reason=reason,
            indexed_files=outcome.indexed_files,
            removed_files=outcome.removed_files,
            unchanged_files=outcome.unchanged_files,
            indexed_chunks=outcome.indexed_chunks,
            embedded=0,
            reused_vectors=0,
            pending_vectors=0,
            failed=tuple(outcome.failed),
            skipped=outcome.skipped,
            rebuilt="",
            problem=outcome.problem,
            elapsed_seconds=time.perf_counter() - started,
        )

    def mark_dirty(self) -> None:
        """Says that a memory file may have changed; the next search or sync looks."""
        self._changes += 1

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """What is indexed, what is not and why. `deep` also asks the embedder for one vector."""
        moment = Moment(
            provider="none",
            model="",
            mode="lexical",
            syncing=self._files.busy,
            now_seconds=self._now().timestamp(),
            vector_engine="off",
            vector_problem="",
            embeddings_problem=None,
            identity={},
            identity_problem="",
            last_problem=self._last_problem,
            quarantined=(),
            watching=self._watching(),
        )
        return await describe(self._store, self._corpus, self._settings, moment)

    async def start_watching(self) -> None:
        """Follows the files: as they change, and every `sync.intervalMinutes`, as the settings say."""
        if self._settings.sync.watch and self._watcher is None:
            self._watcher = Watcher(
                workspace=self._corpus.workspace,
                extra_paths=self._corpus.extra_paths,
                debounce_ms=self._settings.sync.watch_debounce_ms,
                changed=self.mark_dirty,
                settled=lambda: self._start_sync("watch"),
            )
            self._watcher.start()
        if self._settings.sync.interval_minutes and self._interval is None:
            self._interval = asyncio.create_task(self._sync_at_intervals(), name="memory-sync-interval")

    async def close(self) -> None:
        """Stops watching and syncing, waits for the file in hand, and closes the index."""
        if self._watcher is not None:
            await self._watcher.close()
        if self._interval is not None:
            self._interval.cancel()
            await asyncio.gather(self._interval, return_exceptions=True)
        await self._files.close()
        await self._store.close()

    async def _freshen(self) -> bool:
        """Gives a pending update a moment; whether the index may still lack something."""
        if self._changes_synced >= self._changes or not self._settings.sync.on_search:
            return self._changes_synced < self._changes
        task = self._files.start("search")
        await asyncio.wait({task}, timeout=FRESHNESS_WAIT_SECONDS)
        return self._changes_synced < self._changes

    def _start_sync(self, reason: str) -> None:
        self._files.start(reason)

    async def _sync_at_intervals(self) -> None:
        while True:
            await asyncio.sleep(self._settings.sync.interval_minutes * 60)
            self._start_sync("interval")

    def _watching(self) -> str:
        if self._watcher is None:
            return "off"
        return self._watcher.problem or "on"

    async def _sync_files(self, run: SyncRun) -> FileOutcome:
        changes = self._changes
        started = time.perf_counter()

        def advance(done: int, total: int) -> None:
            elapsed = time.perf_counter() - started
            run.tell(
                SyncProgress(
                    stage="index",
                    completed=done,
                    total=total,
                    elapsed_seconds=elapsed,
                    eta_seconds=elapsed / done * (total - done) if done else None,
                )
            )

        now_seconds = self._now().timestamp()
        try:
            outcome = await sync_files(
                self._store, self._corpus, now_seconds=now_seconds, force=run.force, advance=advance
            )
            self._last_problem = outcome.problem
            await self._store.set_meta(
                {"last_sync_at_seconds": str(now_seconds), "last_sync_problem": outcome.problem}
            )
        except MemoryIndexError as error:
            self._last_problem = str(error)
            raise
        self._changes_synced = max(self._changes_synced, changes)
        return outcome
