"""Keeps one index up to date: holds the store, runs passes over files and vectors, and repairs damage.

The two kinds of passes do not wait for each other, so that a slow embedder never delays words. `indexing`
decides what a change needs; this file decides when it runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from nacre.memory.contracts.embedder import WithFallback, fallback_of, in_use
from nacre.memory.contracts.embedding_jobs import jobs_of
from nacre.memory.contracts.errors import IndexClosed, IndexDamaged, MemoryIndexError
from nacre.memory.contracts.index_place import IndexPlace
from nacre.memory.contracts.records import MemoryStatus, SyncReport
from nacre.memory.contracts.store import Store, Writer
from nacre.memory.sync.fallback import FALLBACK_ROW, ask_first_again, follow_index, pause_seconds
from nacre.memory.sync.file_sync import FileOutcome
from nacre.memory.sync.indexing import IndexPlan, index_files
from nacre.memory.sync.single_flight import ProgressListener, SingleFlight, SyncRun
from nacre.memory.text.languages import languages_in
from nacre.memory.vectors.identity import embedder_key, facts_key, stored_identity
from nacre.memory.vectors.query_vectors import QueryVectors

if TYPE_CHECKING:
    from nacre.memory.sync.vectors import VectorOutcome


log = logging.getLogger(__name__)

T = TypeVar("T")

VECTORS_AFTER_SECONDS = 1.0
"""The delay of vectors after a background pass over files; a one-shot command has ended by then."""

JOB_PAUSE_SECONDS = 60.0
"""The pause between two looks at a batch job for which nobody waits."""


class Syncing:
    """The index of one engine, and everything that changes it."""

    def __init__(self, plan: IndexPlan, place: IndexPlace, store: Store, now: Callable[[], datetime]) -> None:
        self._plan = plan
        self._place = place
        self._store = store
        self._now = now
        self._files = SingleFlight("memory sync", self._index_files)
        self._vectors = SingleFlight("memory embedding", self._embed)
        self._healing = asyncio.Lock()
        self._changes, self._changes_synced = 1, 0
        self._vector_timer: asyncio.TimerHandle | None = None
        self._keeps_vectors = False
        self._failures = 0
        self._files_problem = self._vector_problem = ""
        self._hand_over: asyncio.Task[VectorOutcome] | None = None
        self._closed = False
        self.languages: tuple[str, ...] = ()
        """The languages of the notes in English, as of the last pass that changed notes."""
        self.query_vectors = QueryVectors(plan.embedder) if plan.embedder else None
        """Embeds queries; `None` without an embedder."""

    @property
    def stale(self) -> bool:
        """Whether a known change has not been indexed."""
        return self._changes_synced < self._changes

    @property
    def running_seconds(self) -> float:
        """How long the present pass over files has been running; 0 without one."""
        return self._files.running_seconds

    def mark_dirty(self) -> None:
        """Says that a file may have changed."""
        self._changes += 1

    def start(self, reason: str) -> asyncio.Task[FileOutcome]:
        """Starts a pass over the files in the background."""
        task = self._files.start(reason)
        if self._plan.embedder is not None and self._keeps_vectors:
            task.add_done_callback(lambda _: self._embed_later(VECTORS_AFTER_SECONDS))
        return task

    async def run(self, reason: str, *, force: bool, listener: ProgressListener | None) -> SyncReport:
        """Runs a pass over the files and one over the vectors, and reports both."""
        from nacre.memory.sync.status import report_of
        from nacre.memory.sync.vectors import VectorOutcome  # a search alone makes no vectors

        started = time.perf_counter()
        files = await self._files.run(reason, force=force, listener=listener)
        vectors = VectorOutcome()
        if self._plan.embedder is not None:
            # a sync that the owner starts also asks an embedder that was replaced
            vectors = await self._vectors.run(reason, force=force or reason == "cli", listener=listener)
            # an embedder that fails again at once is replaced by a further hand-over
            while (hand_over := self._hand_over) is not None and not hand_over.done():
                with suppress(IndexClosed):
                    vectors = vectors.then(await asyncio.shield(hand_over))
        elapsed_seconds = time.perf_counter() - started
        return report_of(reason, files, vectors, elapsed_seconds, fallback_of(self._plan.embedder))

    def hand_over(self) -> None:
        """Makes all vectors again in the background: a pass over files marks the index, another fills it."""

        async def both() -> VectorOutcome:
            await self._files.run("fallback")
            return await self._vectors.run("fallback")

        self._hand_over = asyncio.create_task(both(), name="memory-fallback")

    async def with_store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Runs `work` on the store; if it finds damage, runs it again on the store's replacement."""
        store = self._store
        try:
            return await work(store)
        except (IndexDamaged, IndexClosed) as error:
            if self._closed:
                raise
            await self._replace(store, error)
            return await work(self._store)

    async def follow_index(self) -> None:
        """Uses the one of two embedders whose vectors the index has; another process may have decided."""
        if isinstance(self._plan.embedder, WithFallback):
            follow_index(self._plan.embedder, await self.with_store(_meta))

    async def know_languages(self) -> None:
        """Reads the languages that an earlier pass stored in the index."""
        self.languages = stored_languages(await self.with_store(_meta))

    async def was_indexed(self) -> bool:
        """Whether any pass over the files was ever finished on this index."""
        return "last_sync_at_seconds" in await self.with_store(_meta)

    def keep_vectors_current(self) -> None:
        """Makes vectors follow the files from now on."""
        self._keeps_vectors = True
        self._embed_later(VECTORS_AFTER_SECONDS)

    async def heal_if_damaged(self) -> None:
        """Checks the whole index and replaces it if it is damaged."""
        store = self._store
        if problem := await store.check():
            await self._replace(store, IndexDamaged(f"The memory index is damaged ({problem})."))
            self.start("damage")

    async def status(self, *, deep: bool, watching: str) -> MemoryStatus:
        """The state of the index. `deep` also asks the embedder and checks the whole index."""
        from nacre.memory.sync.status import Moment, describe, embeddings_problem

        if deep:
            await self.heal_if_damaged()
        await self.follow_index()
        moment = Moment(
            syncing=self._files.busy or self._vectors.busy or self._is_handing_over,
            now_seconds=self._now().timestamp(),
            embeddings_problem=await embeddings_problem(self._plan.embedder, ask=deep),
            files_problem=self._files_problem,
            vectors_problem=self._vector_problem,
            place=self._place,
            watching=watching,
        )
        return await self.with_store(lambda store: describe(store, self._plan, moment))

    async def close(self) -> None:
        """Stops all passes and closes the index."""
        self._closed = True
        if self._vector_timer is not None:
            self._vector_timer.cancel()
        await self._vectors.close()
        await self._files.close()
        if self._hand_over is not None:
            await asyncio.gather(self._hand_over, return_exceptions=True)
        if self.query_vectors is not None:
            await self.query_vectors.close()
        await self._store.close()
        await self._place.close()

    @property
    def _is_handing_over(self) -> bool:
        return self._hand_over is not None and not self._hand_over.done()

    async def _index_files(self, run: SyncRun) -> FileOutcome:
        changes, now_seconds = self._changes, self._now().timestamp()
        advance = run.advance("index")
        try:
            outcome = await self.with_store(
                lambda store: index_files(
                    store, self._plan, now_seconds=now_seconds, force=run.force, advance=advance
                )
            )
            self._files_problem = outcome.problem
            await self._store_outcome(run, outcome, now_seconds)
        except MemoryIndexError as error:
            self._files_problem = str(error)
            raise
        self._changes_synced = max(self._changes_synced, changes)
        return outcome

    async def _store_outcome(self, run: SyncRun, outcome: FileOutcome, now_seconds: float) -> None:
        """Stores when and how the pass ended, unless a search found nothing changed."""
        meta = await _meta(self._store)
        is_known = "last_sync_at_seconds" in meta and meta.get("last_sync_problem") == outcome.problem
        if run.reason == "search" and is_known and not (outcome.indexed_files or outcome.removed_files):
            return
        rows = {"last_sync_at_seconds": str(now_seconds), "last_sync_problem": outcome.problem}
        has_changed = bool(outcome.indexed_files or outcome.removed_files)
        rows |= await language_rows(self._store, meta, has_changed=has_changed)
        await self._store.write(lambda index: index.set_meta(rows))
        self.languages = stored_languages({**meta, **rows})

    async def _embed(self, run: SyncRun) -> VectorOutcome:
        from nacre.memory.sync.status import VECTORS_PROBLEM_ROW
        from nacre.memory.sync.vectors import VectorOutcome, embed_pending

        named = self._plan.embedder
        if named is None:
            return VectorOutcome()
        now_seconds, cache = int(self._now().timestamp()), self._plan.settings.cache
        was_left = fallback_of(named) is not None
        rest_seconds = await self.with_store(
            lambda store: ask_first_again(store, named, now_seconds, at_once=run.force)
        )
        if was_left and fallback_of(named) is None:
            return VectorOutcome()  # the hand-over that this started makes the vectors
        embedder = in_use(named)
        key = facts_key(embedder.facts)
        outcome = await self.with_store(
            lambda store: embed_pending(
                store,
                embedder,
                key,
                now_seconds=now_seconds,
                advance=run.advance("embed"),
            )
        )
        jobs = jobs_of(embedder)
        self._vector_problem = problem = f"{outcome.problem} {jobs.problem if jobs else ''}".strip()
        is_well = not outcome.problem and fallback_of(named) is None

        def clean_up(index: Writer) -> None:
            index.evict(keep_unused=cache.max_entries if cache.enabled else 0)
            meta = index.meta()
            if meta.get(VECTORS_PROBLEM_ROW, "") != problem:
                index.set_meta({VECTORS_PROBLEM_ROW: problem})
            if is_well and meta.get(FALLBACK_ROW) and embedder_key(stored_identity(meta)) == key:
                index.set_meta({FALLBACK_ROW: ""})

        await self._store.write(clean_up)
        self._failures = self._failures + 1 if outcome.problem else 0
        if outcome.problem:
            log.warning("Embedding stopped: %s Until it works, searches use words only.", outcome.problem)
            self._embed_later(pause_seconds(self._failures))
        elif outcome.held:
            self._embed_later(JOB_PAUSE_SECONDS)
        elif rest_seconds:
            self._embed_later(rest_seconds)
        return outcome

    def _embed_later(self, seconds: float) -> None:
        if self._closed or not self._keeps_vectors or self._plan.embedder is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._vector_timer is not None:
            if self._failures and self._vector_timer.when() > loop.time():
                # A pause after a failure is not cut short by the next change of a file.
                return
            self._vector_timer.cancel()
        self._vector_timer = loop.call_at(at, self._vectors.start, "vectors")

    async def _replace(self, broken: Store, error: MemoryIndexError) -> None:
        """Replaces a damaged index by a fresh one, once for all tasks that found the damage."""
        async with self._healing:
            if self._store is not broken:
                return
            if not isinstance(error, IndexDamaged):
                raise error
            await broken.close()
            self._store = await self._place.replace_damaged()
            self._changes += 1


async def _meta(store: Store) -> Mapping[str, str]:
    return await store.read(lambda index: index.meta())


_ROW = "languages"
_SAMPLE = 120
"""The number of texts that shows a language in a twentieth of the notes."""


def stored_languages(meta: Mapping[str, str]) -> tuple[str, ...]:
    """The languages in English, as an earlier pass stored them."""
    return tuple(meta.get(_ROW, "").split())


async def language_rows(store: Store, meta: Mapping[str, str], *, has_changed: bool) -> dict[str, str]:
    """The `meta` row for the languages of the notes, from a sample; nothing if they cannot have changed."""
    if _ROW in meta and not has_changed:
        return {}
    texts = await store.read(lambda index: index.sampled_texts(_SAMPLE))
    return {_ROW: " ".join(languages_in(texts))}
