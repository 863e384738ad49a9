"""One pass over the files: decides what is needed, and rebuilds the index if it must.

The identity of the index decides whether changed files suffice, vectors have to be made again, or everything.
The published index answers during a rebuild.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from nacre.memory.contracts.embedder import WithFallback, in_use
from nacre.memory.contracts.errors import IndexBusy
from nacre.memory.contracts.records import Source
from nacre.memory.contracts.store import IndexedFile, Snapshot, Store, Writer
from nacre.memory.sync.fallback import FALLBACK_ROW, follow_index, news_row
from nacre.memory.sync.file_sync import Corpus, FileOutcome, sync_files
from nacre.memory.text.lexical import lexical_fields
from nacre.memory.vectors.cosine_scale import SCALE_ROW
from nacre.memory.vectors.identity import (
    embedder_change,
    embedder_key,
    stored_identity,
    text_change,
    wanted_identity,
)
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.transcripts import TranscriptSource

log = logging.getLogger(__name__)

TIDY_AFTER_CHUNKS = 200
CARRIED_FILES = 64

Advance = Callable[[int, int], None]


class IndexPlan(Record):
    """Everything that determines the content of an index; `analysis` says how its place cuts words."""

    corpus: Corpus
    settings: MemorySearchSettings
    embedder: Embedder | None
    transcripts: TranscriptSource | None
    analysis: str

    @property
    def identity(self) -> dict[str, str]:
        return wanted_identity(self.corpus.sizes, self.embedder, self.analysis)

    @property
    def embedder_key(self) -> str:
        return embedder_key(self.identity)


async def index_files(
    store: Store, plan: IndexPlan, *, now_seconds: float, force: bool, advance: Advance
) -> FileOutcome:
    """Brings words in line with the files, by a rebuild if the identity or `force` requires one.

    Raises:
        IndexBusy, IndexUnusable: the index cannot be written now, or at all.
    """
    meta = await store.read(lambda index: index.meta())
    follow_index(plan.embedder, meta)
    embedder = plan.embedder
    marks = _Marks(
        identity=plan.identity,
        rows=news_row(embedder, meta, now_seconds),
        embedder=embedder,
        news=embedder.news if isinstance(embedder, WithFallback) else None,
    )
    stored = stored_identity(meta)
    reason = "it was asked for" if force else text_change(stored, marks.identity)
    if not reason and await store.has_unfinished_rebuild(marks.identity):
        reason = "the last rebuild was cut off"
    if reason:
        try:
            return await _rebuild(store, plan, marks, reason, now_seconds=now_seconds, advance=advance)
        except IndexBusy as error:
            log.info("no rebuild now: %s", error)
            outcome = await _index_changes(store, plan, now_seconds=now_seconds, advance=advance)
            outcome.problem = outcome.problem or str(error)
            return outcome
    if change := embedder_change(stored, marks.identity):
        log.info("vectors are made again, because %s", change)
    if change or not stored or marks.news is not None:
        await store.write(lambda index: _mark(index, marks, detach=bool(change)))
        marks.settle()
    return await _index_changes(store, plan, now_seconds=now_seconds, advance=advance)


class _Marks(Record):
    """The identity of an index at one moment, because its embedder may change at any time."""

    identity: Mapping[str, str]
    rows: Mapping[str, str]
    embedder: Embedder | None
    news: str | None

    def settle(self) -> None:
        if isinstance(self.embedder, WithFallback) and self.news is not None:
            self.embedder.noted(self.news)


def _mark(index: Writer, marks: _Marks, *, detach: bool) -> None:
    if detach:
        index.detach_vectors()
    index.set_meta({**marks.identity, **marks.rows})


async def _index_changes(
    store: Store, plan: IndexPlan, *, now_seconds: float, advance: Advance, force: bool = False
) -> FileOutcome:
    outcome = await sync_files(store, plan.corpus, now_seconds=now_seconds, advance=advance)
    if outcome.indexed_chunks >= TIDY_AFTER_CHUNKS:
        await store.tidy()
    if "sessions" not in plan.settings.sources:
        indexed = await store.read(lambda index: sorted(index.file_states("sessions")))
        if indexed:
            await store.write(lambda index: index.remove_files("sessions", indexed))
            outcome.removed_files += len(indexed)
    elif plan.transcripts is None:
        outcome.transcripts_unknown = True
    else:
        from nacre.memory.sync.transcripts import sync_transcripts  # past conversations are opt-in

        try:
            await sync_transcripts(
                store, plan.transcripts, plan.corpus.sizes, plan.settings.sync.sessions, outcome, force=force
            )
        except OSError as error:
            outcome.transcripts_unknown = True
            outcome.problem = f"The transcripts cannot be listed ({error}); what was indexed is kept."
    return outcome


async def _rebuild(
    store: Store, plan: IndexPlan, marks: _Marks, reason: str, *, now_seconds: float, advance: Advance
) -> FileOutcome:
    log.info("rebuilding the memory index, because %s", reason)
    now, key = int(now_seconds), embedder_key(marks.identity)
    embedder = in_use(plan.embedder) if plan.embedder is not None else None
    rebuild = await store.begin_rebuild(marks.identity)
    hidden = rebuild.store

    async def attach() -> None:
        if embedder is not None:
            from nacre.memory.sync.vectors import attach_known_vectors  # a search alone makes no vectors

            await attach_known_vectors(hidden, embedder, key, now_seconds=now)

    try:
        await rebuild.copy_vectors()
        outcome = await _index_changes(hidden, plan, now_seconds=now_seconds, advance=advance, force=True)
        await attach()
        await hidden.tidy()
        async with rebuild.alone():
            # This brings in what was written since the files were read, also by processes that wait now.
            await _index_changes(hidden, plan, now_seconds=now_seconds, advance=_ignore_progress)
            await _carry_over(store, hidden, outcome)
            await attach()
            kept = _kept_meta(await store.read(lambda index: index.meta()))
            await hidden.write(lambda index: index.set_meta({**kept, **marks.rows, **marks.identity}))
            await rebuild.publish()
        marks.settle()
    except BaseException:
        await rebuild.leave()
        raise
    later = await _index_changes(store, plan, now_seconds=now_seconds, advance=_ignore_progress)
    outcome.indexed_files += later.indexed_files
    outcome.removed_files += later.removed_files
    outcome.problem = outcome.problem or later.problem
    outcome.rebuilt = reason
    return outcome


def _ignore_progress(_done: int, _total: int) -> None: ...


async def _carry_over(live: Store, hidden: Store, outcome: FileOutcome) -> None:
    failed = {failure.path for failure in outcome.failed}
    there = await hidden.read(_indexed_files)
    lost = [
        (source, path)
        for source, path in (await live.read(_indexed_files)) - there
        if _unknown_fate(source, path, failed, outcome)
    ]
    for start in range(0, len(lost), CARRIED_FILES):
        await _carry(live, hidden, lost[start : start + CARRIED_FILES])


async def _carry(live: Store, hidden: Store, files: Sequence[tuple[Source, str]]) -> None:
    kept = await live.read(lambda index: _stored_files(index, files))
    await hidden.write(lambda index: index.replace_files(kept))


def _indexed_files(index: Snapshot) -> set[tuple[Source, str]]:
    return {(source, path) for source in get_args(Source) for path in index.file_states(source)}


def _stored_files(index: Snapshot, files: Sequence[tuple[Source, str]]) -> list[IndexedFile]:
    # They may be cut in the old way, so their state makes the next pass read them again.
    return [
        IndexedFile(
            state=state._replace(content_hash="", size=0, inode=0, read_at_ns=0),
            chunks=chunks,
            fields=[lexical_fields(chunk) for chunk in chunks],
        )
        for source, path in files
        if (stored := index.stored_file(source, path)) is not None
        for state, chunks in [stored]
    ]


def _unknown_fate(source: Source, path: str, failed: set[str], outcome: FileOutcome) -> bool:
    if source == "sessions":
        return outcome.transcripts_unknown or path in outcome.unread_transcripts
    return path in failed or not outcome.found.may_be_deleted(path)


def _kept_meta(meta: Mapping[str, str]) -> dict[str, str]:
    from nacre.memory.contracts.embedding_jobs import JOBS_ROW

    kept = ("last_sync", SCALE_ROW, JOBS_ROW, FALLBACK_ROW)
    return {key: value for key, value in meta.items() if key.startswith(kept)}
