"""Keeps one index up to date: runs passes over files and vectors, follows changes, and repairs damage.

One pass of a kind runs at a time; callers that arrive during it share the next one. The two kinds do not
wait for each other, so that a slow embedder never delays words. `indexing` decides what a change needs; this
file decides when it runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from nacre.closing import stop_tasks
from nacre.memory.contracts.embedder import WithFallback, fallback_of, in_use
from nacre.memory.contracts.embedding_jobs import jobs_of
from nacre.memory.contracts.errors import IndexClosed, IndexDamaged, MemoryIndexError
from nacre.memory.contracts.records import MemoryStatus, SyncProgress, SyncReport
from nacre.memory.contracts.store import IndexPlace, Store, Writer
from nacre.memory.sync.fallback import FALLBACK_ROW, ask_first_again, follow_index, pause_seconds
from nacre.memory.sync.file_sync import FileOutcome
from nacre.memory.sync.indexing import IndexPlan, index_files
from nacre.memory.text.forms.words import languages_in
from nacre.memory.vectors.identity import embedder_key, facts_key, stored_identity
from nacre.memory.vectors.query_vectors import QueryVectors

if TYPE_CHECKING:
    from nacre.memory.contracts.notes import NoteWatch
    from nacre.memory.contracts.settings import SyncSettings
    from nacre.memory.sync.vectors import VectorOutcome

log = logging.getLogger(__name__)

T = TypeVar("T")
ProgressListener = Callable[[SyncProgress], None]


@dataclass
class SyncRun:
    """A run in progress: its reason, whether it starts afresh, and its progress listeners."""

    reason: str
    force: bool
    listeners: list[ProgressListener] = field(default_factory=list)

    def tell(self, progress: SyncProgress) -> None:
        for listener in self.listeners:
            listener(progress)

    def advance(self, stage: Literal["index", "embed"]) -> Callable[[int, int], None]:
        """A function that takes how much of a stage is done, and estimates the remaining time."""
        started = time.perf_counter()

        def advance(done: int, total: int) -> None:
            elapsed = time.perf_counter() - started
            self.tell(
                SyncProgress(
                    stage=stage,
                    completed=done,
                    total=total,
                    elapsed_seconds=elapsed,
                    eta_seconds=elapsed / done * (total - done) if done else None,
                )
            )

        return advance


class SingleFlight(Generic[T]):
    """Runs `work` one at a time. Each caller gets a run that started after its call, shared with others."""

    def __init__(self, name: str, work: Callable[[SyncRun], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._running: tuple[SyncRun, asyncio.Task[T]] | None = None
        self._queued: tuple[SyncRun, asyncio.Task[T]] | None = None
        self._started = 0.0
        self._closed = False

    @property
    def busy(self) -> bool:
        return self._running is not None and not self._running[1].done()

    @property
    def running_seconds(self) -> float:
        """How long the present run has been running; 0 without one."""
        return time.monotonic() - self._started if self.busy else 0.0

    async def run(self, reason: str, *, force: bool = False, listener: ProgressListener | None = None) -> T:
        """Waits for a run of its own or a shared one. Cancelling the caller does not cancel the run.

        Raises:
            IndexClosed: the engine is closed, or was closed during the run.
        """
        run, task = self._join(reason, force=force)
        if listener is not None:
            run.listeners.append(listener)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise IndexClosed("The memory engine was closed while it was syncing.") from None
            raise
        finally:
            if listener is not None:
                run.listeners.remove(listener)

    def start(self, reason: str) -> asyncio.Task[T]:
        """Starts a run in the background, or joins the next one. A failure is logged as a warning."""
        _, task = self._join(reason, force=False)
        task.add_done_callback(self._log_failure)
        return task

    async def close(self) -> None:
        """Cancels all runs and waits until they have released the store."""
        self._closed = True
        tasks = [pair[1] for pair in (self._queued, self._running) if pair and not pair[1].done()]
        await stop_tasks(*tasks)

    def _join(self, reason: str, *, force: bool) -> tuple[SyncRun, asyncio.Task[T]]:
        if self._closed:
            raise IndexClosed("The memory engine is closed; open it again to sync.")
        if self._running is None or self._running[1].done():
            run = SyncRun(reason=reason, force=force)
            task = asyncio.create_task(self._work(run), name=f"{self._name}-{reason}")
            self._running = (run, task)
            self._started = time.monotonic()
            return self._running
        if self._queued is None:
            run = SyncRun(reason=reason, force=force)
            task = asyncio.create_task(self._after(self._running[1], run), name=f"{self._name}-{reason}")
            self._queued = (run, task)
        self._queued[0].force |= force
        return self._queued

    async def _after(self, before: asyncio.Task[T], run: SyncRun) -> T:
        await asyncio.wait({before})
        self._running, self._queued = self._queued, None
        self._started = time.monotonic()
        return await self._work(run)

    def _log_failure(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, MemoryIndexError):
            log.warning("%s failed: %s", self._name, error)
        elif error is not None:
            log.error("%s failed", self._name, exc_info=error)


VECTORS_AFTER_SECONDS = 1.0
"""The delay of vectors after a background pass over files; a one-shot command has ended by then."""

JOB_PAUSE_SECONDS = 60.0
"""The pause between two looks at a batch job for which nobody waits."""

QUIET_SECONDS = 5.0
"""The delay before transcripts are checked, so that turns in quick succession cost one check."""

_LONGEST_WAIT = 4
"""Continuous changes are synced after this many debounce times."""

_LANGUAGES_ROW = "languages"
_LANGUAGE_SAMPLE = 120
"""The number of texts that shows a language in a twentieth of the notes."""


class SyncedIndex:
    """The index of one agent and everything that changes it. Closes the embedder if it `owns_embedder`."""

    def __init__(
        self,
        plan: IndexPlan,
        place: IndexPlace,
        store: Store,
        now: Callable[[], datetime],
        *,
        owns_embedder: bool,
    ) -> None:
        self._plan = plan
        self._owns_embedder = owns_embedder
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
        self._triggers = IndexTriggers(plan.settings.sync, start=self._start, changed=self.mark_dirty)
        self._check: asyncio.Task[None] | None = None
        self._query_vectors = QueryVectors(plan.embedder) if plan.embedder else None
        self.languages: tuple[str, ...] = ()
        """The English names of the languages of the notes; empty until they are known."""

    def mark_dirty(self) -> None:
        """Says that a file may have changed; the next search or sync looks."""
        self._changes += 1

    def transcripts_changed(self) -> None:
        """Says that a transcript has grown. While watching, it is indexed soon if it has grown enough."""
        self.mark_dirty()
        self._triggers.transcripts_changed()

    def session_started(self) -> None:
        """Looks for changes in the background if `sync.onSessionStart` is set."""
        if self._plan.settings.sync.on_session_start:
            self.mark_dirty()
            self._start("session-start")

    async def start_watching(self) -> None:
        """Follows files and transcripts as the settings say, and keeps vectors up to date.

        Also checks a large index for damage, in the background.
        """
        if self._check is not None:
            return
        self._keeps_vectors = True
        self._embed_later(VECTORS_AFTER_SECONDS)
        self._check = asyncio.create_task(self._heal_if_damaged(), name="memory-check")
        source, transcripts_due = self._plan.transcripts, None
        if source is not None:
            from nacre.memory.sync.transcripts import any_due  # past conversations are opt-in

            any_is_due = partial(any_due, source=source, settings=self._plan.settings.sync.sessions)
            transcripts_due = partial(self._with_store, any_is_due)
        await self._triggers.begin(self._plan.corpus.notes.watch, transcripts_due)

    @property
    def _stale(self) -> bool:
        return self._changes_synced < self._changes

    def _start(self, reason: str) -> asyncio.Task[FileOutcome]:
        task = self._files.start(reason)
        if self._plan.embedder is not None and self._keeps_vectors:
            task.add_done_callback(lambda _: self._embed_later(VECTORS_AFTER_SECONDS))
        return task

    async def sync(
        self, *, reason: str, force: bool = False, progress: ProgressListener | None = None
    ) -> SyncReport:
        """Brings the index in line with the files and waits for it, vectors included.

        `force` rebuilds everything behind the index that answers, even during a sync. With it, or for the
        reason `cli`, an embedder that was replaced by its fallback is tried again at once.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """
        from nacre.memory.sync.status import report_of
        from nacre.memory.sync.vectors import VectorOutcome  # a search alone makes no vectors

        started = time.perf_counter()
        files = await self._files.run(reason, force=force, listener=progress)
        vectors = VectorOutcome()
        if self._plan.embedder is not None:
            vectors = await self._vectors.run(reason, force=force or reason == "cli", listener=progress)
            # an embedder that fails again at once is replaced by a further hand-over
            while (hand_over := self._hand_over) is not None and not hand_over.done():
                with suppress(IndexClosed):
                    vectors = vectors.then(await asyncio.shield(hand_over))
        elapsed_seconds = time.perf_counter() - started
        return report_of(reason, files, vectors, elapsed_seconds, fallback_of(self._plan.embedder))

    def embedder_changed(self) -> None:
        """Makes all vectors again in the background, for another embedder. A running sync waits for it."""

        async def both() -> VectorOutcome:
            await self._files.run("fallback")
            return await self._vectors.run("fallback")

        self._hand_over = asyncio.create_task(both(), name="memory-fallback")

    async def _with_store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Runs `work` on the store; if it finds damage, runs it again on the store's replacement."""
        store = self._store
        try:
            return await work(store)
        except (IndexDamaged, IndexClosed) as error:
            if self._closed:
                raise
            await self._replace(store, error)
            return await work(self._store)

    async def _follow_index(self) -> None:
        """Uses the one of two embedders whose vectors the index has; another process may have decided."""
        if isinstance(self._plan.embedder, WithFallback):
            follow_index(self._plan.embedder, await self._with_store(read_meta))

    async def _heal_if_damaged(self) -> None:
        store = self._store
        if problem := await store.check():
            await self._replace(store, IndexDamaged(f"The memory index is damaged ({problem})."))
            self._start("damage")

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """Compares the index with the files. `deep` also asks the models and checks the whole index."""
        from nacre.memory.sync.status import Moment, describe, embeddings_problem

        if deep:
            await self._heal_if_damaged()
        await self._follow_index()
        moment = Moment(
            syncing=self._files.busy or self._vectors.busy or self._is_handing_over,
            now_seconds=self._now().timestamp(),
            embeddings_problem=await embeddings_problem(self._plan.embedder, ask=deep),
            files_problem=self._files_problem,
            vectors_problem=self._vector_problem,
            place=self._place,
            watching=self._triggers.watching,
        )
        return await self._with_store(lambda store: describe(store, self._plan, moment))

    async def close(self) -> None:
        """Stops watching and syncing, waits for the file in hand, and closes the index."""
        await self._triggers.close()
        await stop_tasks(self._check)
        self._closed = True
        if self._vector_timer is not None:
            self._vector_timer.cancel()
        await self._vectors.close()
        await self._files.close()
        if self._hand_over is not None:
            await asyncio.gather(self._hand_over, return_exceptions=True)
        if self._query_vectors is not None:
            await self._query_vectors.close()
        await self._store.close()
        await self._place.close()
        if self._plan.transcripts is not None:
            await self._plan.transcripts.close()
        if self._owns_embedder and self._plan.embedder is not None:
            await self._plan.embedder.close()

    @property
    def _is_handing_over(self) -> bool:
        return self._hand_over is not None and not self._hand_over.done()

    async def _index_files(self, run: SyncRun) -> FileOutcome:
        changes, now_seconds = self._changes, self._now().timestamp()
        advance = run.advance("index")
        try:
            outcome = await self._with_store(
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
        meta = await read_meta(self._store)
        is_known = "last_sync_at_seconds" in meta and meta.get("last_sync_problem") == outcome.problem
        has_changed = bool(outcome.indexed_files or outcome.removed_files)
        if run.reason == "search" and is_known and not has_changed:
            return
        rows = {"last_sync_at_seconds": str(now_seconds), "last_sync_problem": outcome.problem}
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
        rest_seconds = await self._with_store(
            lambda store: ask_first_again(store, named, now_seconds, at_once=run.force)
        )
        if was_left and fallback_of(named) is None:
            return VectorOutcome()  # the hand-over that this started makes the vectors
        embedder = in_use(named)
        key = facts_key(embedder.facts)
        outcome = await self._with_store(
            lambda store: embed_pending(
                store, embedder, key, now_seconds=now_seconds, advance=run.advance("embed")
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
        if self._vector_timer is not None:
            if self._failures and self._vector_timer.when() > loop.time():
                # A pause after a failure is not cut short by the next change of a file.
                return
            self._vector_timer.cancel()
        self._vector_timer = loop.call_later(seconds, self._vectors.start, "vectors")

    async def _replace(self, broken: Store, error: MemoryIndexError) -> None:
        async with self._healing:
            if self._store is not broken:
                return
            if not isinstance(error, IndexDamaged):
                raise error
            await broken.close()
            self._store = await self._place.replace_damaged()
            self._changes += 1


async def read_meta(store: Store) -> Mapping[str, str]:
    return await store.read(lambda index: index.meta())


def stored_languages(meta: Mapping[str, str]) -> tuple[str, ...]:
    """The languages in English, as an earlier pass stored them."""
    return tuple(meta.get(_LANGUAGES_ROW, "").split())


async def language_rows(store: Store, meta: Mapping[str, str], *, has_changed: bool) -> dict[str, str]:
    """The `meta` row for the languages of the notes, from a sample; nothing if they cannot have changed."""
    if _LANGUAGES_ROW in meta and not has_changed:
        return {}
    texts = await store.read(lambda index: index.sampled_texts(_LANGUAGE_SAMPLE))
    return {_LANGUAGES_ROW: " ".join(languages_in(texts))}


class IndexTriggers:
    """Calls `start` with the reason of a due pass, and `changed` at each change of a note, after `begin`."""

    def __init__(
        self, settings: SyncSettings, *, start: Callable[[str], object], changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._start = start
        self._changed = changed
        self._watch: NoteWatch | None = None
        self._debounce: Debounce | None = None
        self._growth: TranscriptGrowth | None = None
        self._clock: asyncio.Task[None] | None = None

    @property
    def watching(self) -> str:
        """Whether changes of files are reported: `on`, `off`, or why they are only polled."""
        return (self._watch.problem or "on") if self._watch else "off"

    async def begin(
        self,
        watch: Callable[[Callable[[], None]], Awaitable[NoteWatch]],
        transcripts_due: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        """Starts to follow files and transcripts, as the settings say.

        `watch` starts a watch over notes. `transcripts_due` says whether a transcript has grown enough; it is
        `None` if transcripts are not indexed.
        """
        if self._settings.interval_minutes:
            self._clock = asyncio.create_task(self._at_intervals(), name="memory-interval")
        if transcripts_due is not None:
            self._growth = TranscriptGrowth(
                is_due=transcripts_due, index=lambda: self._start("session-delta")
            )
        if self._settings.watch:
            self._debounce = Debounce(
                debounce_ms=self._settings.watch_debounce_ms,
                changed=self._changed,
                settled=lambda: self._start("watch"),
            )
            self._watch = await watch(self._debounce.note_change)

    def transcripts_changed(self) -> None:
        if self._growth is not None:
            self._growth.grown()

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.close()
        if self._debounce is not None:
            self._debounce.close()
        if self._growth is not None:
            await self._growth.close()
        await stop_tasks(self._clock)

    async def _at_intervals(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_minutes * 60)
            self._start("interval")


class Debounce:
    """Calls `changed()` at each change, and `settled()` after a pause without changes."""

    def __init__(
        self, *, debounce_ms: int, changed: Callable[[], None], settled: Callable[[], object]
    ) -> None:
        self._debounce_seconds = debounce_ms / 1000
        self._changed = changed
        self._settled = settled
        self._timer: asyncio.TimerHandle | None = None
        self._first_change = 0.0

    def note_change(self) -> None:
        """Takes a change and restarts the wait for a pause, up to a limit."""
        loop = asyncio.get_running_loop()
        self._changed()
        if self._timer is None:
            self._first_change = loop.time()
        else:
            self._timer.cancel()
        latest = self._first_change + _LONGEST_WAIT * self._debounce_seconds
        self._timer = loop.call_at(min(loop.time() + self._debounce_seconds, latest), self._fire)

    def close(self) -> None:
        """Drops a pending `settled` call."""
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._settled()


class TranscriptGrowth:
    """Checks some seconds after a transcript has grown whether one is due.

    `is_due` checks, and may raise `OSError` or `MemoryIndexError`; `index` is called if one is due.
    """

    def __init__(self, *, is_due: Callable[[], Awaitable[bool]], index: Callable[[], object]) -> None:
        self._is_due = is_due
        self._index = index
        self._has_grown = False
        self._look: asyncio.Task[None] | None = None

    def grown(self) -> None:
        self._has_grown = True
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_until_quiet(), name="memory-transcripts")

    async def close(self) -> None:
        await stop_tasks(self._look)

    async def _look_until_quiet(self) -> None:
        while self._has_grown:
            await asyncio.sleep(QUIET_SECONDS)
            self._has_grown = False
            try:
                is_due = await self._is_due()
            except (OSError, MemoryIndexError) as error:
                log.warning("cannot check whether transcripts have grown: %s", error)
                continue
            if is_due:
                self._index()
