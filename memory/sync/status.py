"""What `memory status` shows, and the report of a sync. Reads the store and the disk and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, fallback_of, lack_of
from nacre.memory.contracts.notes import FoundNote, NoteListing
from nacre.memory.contracts.records import (
    FailedFile,
    Fallback,
    MemoryStatus,
    SearchMode,
    Source,
    SourceCount,
    SyncReport,
)
from nacre.memory.contracts.store import FileState, IndexPlace, Store, StoreCounts
from nacre.memory.sync.fallback import left_embedder
from nacre.memory.sync.file_sync import FileOutcome, plan_changes
from nacre.memory.sync.indexing import IndexPlan
from nacre.memory.sync.transcripts import deleted_transcripts, due_and_waiting
from nacre.memory.sync.vectors import VectorOutcome
from nacre.memory.vectors.identity import embedder_change, identity_problem, stored_identity

VECTORS_PROBLEM_ROW = "last_sync_vectors_problem"
"""The meta row with the reason why vectors are missing; blank without a problem."""
MAX_REFUSED = 100
"""The most cited chunks that the embedder refuses."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What only the engine knows: the present run, and how the last sync of this process ended.

    Damaged indexes set aside at `place` are listed last, because looking at a damaged index sets it aside.
    """

    syncing: bool
    now_seconds: float
    embeddings_problem: str | None
    files_problem: str
    vectors_problem: str
    place: IndexPlace
    watching: str


async def describe(store: Store, plan: IndexPlan, moment: Moment) -> MemoryStatus:
    """The state of the index compared to the notes. Notes and transcripts are listed, not read."""
    corpus, settings, embedder = plan.corpus, plan.settings, plan.embedder
    found = await corpus.notes.listing()
    stored, transcripts, failed, refused, counts, meta = await store.read(
        lambda index: (
            index.file_states("memory"),
            index.file_states("sessions"),
            index.failures("memory"),
            index.refused(limit=MAX_REFUSED),
            index.counts(),
            index.meta(),
        )
    )
    engine = await store.search(lambda index: index.vector_engine())
    pending_transcripts, waiting_transcripts = await _pending_transcripts(transcripts, plan)
    pending_files = _pending_files(found, stored, failed, moment.now_seconds) + pending_transcripts
    pending_vectors = counts.pending_chunks if embedder else 0
    source_counts = _source_counts(counts, settings.sources)
    identity, synced_at = stored_identity(meta), meta.get("last_sync_at_seconds")
    problem = identity_problem(identity, plan.identity)
    return MemoryStatus(
        index_path=moment.place.name,
        workspace=corpus.notes.workspace.place,
        files=sum(item.files for item in source_counts),
        chunks=sum(item.chunks for item in source_counts),
        source_counts=source_counts,
        sources=settings.sources,
        extra_paths=corpus.notes.extra_paths,
        provider=embedder.facts.provider if embedder else "none",
        model=embedder.facts.model if embedder else "",
        mode=_mode(plan, identity, counts, moment.embeddings_problem),
        dirty=pending_files > 0 or bool(problem),
        syncing=moment.syncing,
        pending_files=pending_files,
        waiting_transcripts=waiting_transcripts,
        pending_vectors=pending_vectors,
        failed=tuple(failed[path] for path in sorted(failed)),
        skipped=found.skipped,
        refused=tuple(refused),
        identity=identity,
        identity_problem=problem,
        vector_enabled=settings.store.vector.enabled,
        vector_engine=engine.name,
        vector_engine_later=engine.later,
        vector_problem=engine.problem,
        dimensions=counts.dimensions,
        vectors=counts.vectors,
        cached_vectors=counts.cached_vectors,
        cache_enabled=settings.cache.enabled,
        cache_max_entries=settings.cache.max_entries,
        embeddings_problem=moment.embeddings_problem,
        last_sync_at_seconds=float(synced_at) if synced_at else None,
        last_sync_problem=_last_problem(moment, meta, pending_vectors),
        fallback=_fallback(meta, embedder),
        quarantined=tuple(moment.place.quarantined()),
        index_bytes=counts.size_bytes,
        watching=moment.watching,
    )


def _source_counts(counts: StoreCounts, sources: Sequence[Source]) -> tuple[SourceCount, ...]:
    found = {item.source: item for item in counts.sources}
    return tuple(found.get(source, SourceCount(source=source, files=0, chunks=0)) for source in sources)


def _mode(
    plan: IndexPlan, identity: Mapping[str, str], counts: StoreCounts, problem: str | None
) -> SearchMode:
    # An index without chunks counts as one that is about to get vectors.
    has_chunks = any(item.chunks for item in counts.sources)
    lacks_vectors = (has_chunks and not counts.vectors) or embedder_change(identity, plan.identity)
    if plan.embedder is None or problem or lacks_vectors:
        return "lexical"
    return "hybrid" if plan.settings.query.hybrid.enabled else "vector"


def _fallback(meta: Mapping[str, str], embedder: Embedder | None) -> Fallback | None:
    fallback, left = fallback_of(embedder), left_embedder(meta, embedder)
    if fallback is None or left is None:
        return fallback
    return replace(fallback, retry_at_seconds=left.retry_at_seconds)


def _pending_files(
    found: NoteListing,
    stored: Mapping[str, FileState],
    failed: Mapping[str, FailedFile],
    now_seconds: float,
) -> int:
    changes = plan_changes(found, stored, failed, now_seconds=now_seconds)
    changed = sum(_has_changed(file, stored.get(file.name)) for file in changes.to_read)
    return changed + len(changes.to_remove)


def _has_changed(file: FoundNote, state: FileState | None) -> bool:
    # A recent time stamp makes a sync read a file again; that alone does not mean that it changed.
    marks = file.marks
    return state is None or (marks.size_bytes, marks.modified_ns, marks.inode) != (
        state.size,
        state.mtime_ns,
        state.inode,
    )


def _last_problem(moment: Moment, meta: Mapping[str, str], pending_vectors: int) -> str:
    # Another process's trouble with vectors is over when none are missing. A batch job that failed in this
    # process is still worth reporting after ordinary requests made its vectors.
    problems = [moment.files_problem or meta.get("last_sync_problem", ""), moment.vectors_problem]
    if pending_vectors and not moment.vectors_problem:
        problems.append(meta.get(VECTORS_PROBLEM_ROW, ""))
    return " ".join(filter(None, problems))


async def embeddings_problem(embedder: Embedder | None, *, ask: bool) -> str | None:
    """Why the embedder in use gives no vectors: what it lacks, or its error when it is asked.

    Empty if it answered or there is none; `None` if it was not asked and lacks nothing.
    """
    if problem := lack_of(embedder):
        return problem
    if not ask or embedder is None:
        return "" if ask else None
    try:
        await embedder.embed_query("ping")
    except EmbeddingFailed as error:
        return str(error)
    return ""


async def _pending_transcripts(stored: Mapping[str, FileState], plan: IndexPlan) -> tuple[int, int]:
    if "sessions" not in plan.settings.sources:
        return len(stored), 0
    if plan.transcripts is None:
        return 0, 0
    try:
        infos = await plan.transcripts.transcripts()
    except OSError as error:
        log.warning("transcripts cannot be listed, so none counts as pending: %s", error)
        return 0, 0
    due, waiting = due_and_waiting(infos, stored, plan.settings.sync.sessions)
    return due + len(deleted_transcripts(infos, stored)), waiting


def report_of(
    reason: str,
    files: FileOutcome,
    vectors: VectorOutcome,
    elapsed_seconds: float,
    fallback: Fallback | None,
) -> SyncReport:
    """The report of a pass over the files and one over the vectors."""
    return SyncReport(
        reason=reason,
        indexed_files=files.indexed_files,
        removed_files=files.removed_files,
        unchanged_files=files.unchanged_files,
        indexed_chunks=files.indexed_chunks,
        embedded=vectors.embedded,
        reused_vectors=vectors.reused,
        refused_texts=vectors.refused,
        pending_vectors=vectors.pending_chunks,
        held_texts=vectors.held,
        failed=tuple(files.failed),
        skipped=files.found.skipped,
        rebuilt=files.rebuilt,
        problem=" ".join(part for part in (files.problem, vectors.problem) if part),
        elapsed_seconds=elapsed_seconds,
        fallback=fallback,
    )
