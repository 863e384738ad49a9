"""The lexical half of a sync: stores changed files and removes deleted ones, without an embedder.

A worker thread reads and chunks files while the batch before them is written. A file that cannot be read is
recorded and retried later; it never stops the others.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from nacre.memory.contracts.notes import FoundNote, NoteListing
from nacre.memory.contracts.records import FailedFile
from nacre.memory.contracts.store import FileState, Store, Writer
from nacre.memory.contracts.workspace import RACY_NS
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.sync.fallback import LONGEST_PAUSE_SECONDS, pause_seconds
from nacre.memory.text.chunker import ChunkSizes
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.files.file_reader import Cut, ReadBatch


BATCH_BYTES = 4 << 20
BATCH_FILES = 256


class Corpus(Record):
    """The notes to index, the sizes of their chunks, and how they are cut; by default with `cut_note`."""

    notes: NoteFiles
    sizes: ChunkSizes
    cut: Cut | None = None


@dataclasses.dataclass
class FileOutcome:
    """The result of a pass over the files."""

    indexed_files: int = 0
    removed_files: int = 0
    unchanged_files: int = 0
    indexed_chunks: int = 0
    failed: list[FailedFile] = field(default_factory=list)
    found: NoteListing = field(default_factory=NoteListing)
    rebuilt: str = ""
    transcripts_unknown: bool = False
    unread_transcripts: set[str] = field(default_factory=set)
    problem: str = ""


async def sync_files(
    store: Store,
    corpus: Corpus,
    *,
    now_seconds: float,
    advance: Callable[[int, int], None],
) -> FileOutcome:
    """Brings the source `memory` up to date with the notes. `advance(done, total)` counts files."""
    # The stored state is read first: a file that another process adds in between must not look deleted.
    stored, failed = await store.read(lambda index: (index.file_states("memory"), index.failures("memory")))
    found = await corpus.notes.listing()
    changes = plan_changes(found, stored, failed, now_seconds=now_seconds)
    outcome = FileOutcome(unchanged_files=changes.unchanged, found=found)
    outcome.failed.extend(changes.waiting)
    if "" in found.unreadable and stored:
        outcome.problem = (
            f"The workspace {corpus.notes.workspace.place} is empty or cannot be read; what was indexed is "
            "kept. Check that the folder or drive is there."
        )
    if changes.to_remove:
        await store.write(lambda index: index.remove_files("memory", changes.to_remove))
        outcome.removed_files = sum(path in stored for path in changes.to_remove)
    if changes.to_read:
        await _Pass(store, corpus, outcome, now_seconds).run(changes.to_read, stored, failed, advance)
    return outcome


class _Pass(NamedTuple):
    store: Store
    corpus: Corpus
    outcome: FileOutcome
    now_seconds: float

    async def run(
        self,
        files: Sequence[FoundNote],
        stored: Mapping[str, FileState],
        failed: Mapping[str, FailedFile],
        advance: Callable[[int, int], None],
    ) -> None:
        # most passes for a search find nothing changed
        from nacre.memory.files.file_reader import cut_note, read_batch

        done = 0
        writing: asyncio.Task[None] | None = None
        notes, sizes, cut = self.corpus.notes, self.corpus.sizes, self.corpus.cut or cut_note
        read_at_ns = await notes.workspace.now_ns()
        hashes = {path: state.content_hash for path, state in stored.items()}
        try:
            for batch in batches(files, max_bytes=BATCH_BYTES, max_files=BATCH_FILES):
                found = await notes.read([file.name for file in batch])
                read = await asyncio.to_thread(
                    read_batch, found, hashes, sizes=sizes, cut=cut, read_at_ns=read_at_ns
                )
                if writing is not None:
                    await writing
                    advance(done, len(files))
                writing = asyncio.create_task(self._write(read, failed), name="memory-write-batch")
                done += len(batch)
            if writing is not None:
                await writing
                advance(done, len(files))
        finally:
            if writing is not None and not writing.done():
                await asyncio.wait({writing})

    async def _write(self, read: ReadBatch, failed: Mapping[str, FailedFile]) -> None:
        new = [
            next_failure(path, problem, failed.get(path), now_seconds=self.now_seconds)
            for path, problem in read.problems
        ]
        healed = [state.path for state in read.same if state.path in failed]

        def store(index: Writer) -> None:
            index.replace_files(read.changed)
            index.touch_files(read.same)
            index.set_failures("memory", new, healed)

        if read.changed or read.same or new:
            await self.store.write(store)
        self.outcome.indexed_files += len(read.changed)
        self.outcome.indexed_chunks += sum(len(file.chunks) for file in read.changed)
        self.outcome.unchanged_files += len(read.same)
        self.outcome.failed.extend(new)


class Changes(Record):
    """What a listing means for the index. `waiting` are failed files whose next try is not due."""

    to_read: tuple[FoundNote, ...]
    to_remove: tuple[str, ...]
    unchanged: int
    waiting: tuple[FailedFile, ...]


def plan_changes(
    found: NoteListing,
    stored: Mapping[str, FileState],
    failed: Mapping[str, FailedFile],
    *,
    now_seconds: float,
) -> Changes:
    to_read: list[FoundNote] = []
    waiting: list[FailedFile] = []
    unchanged = 0
    for file in found.notes:
        failure = failed.get(file.name)
        if failure is not None and _waits(failure, now_seconds) and not _changed_since(file, failure):
            waiting.append(failure)
        elif failure is None and is_unchanged(file, stored.get(file.name)):
            unchanged += 1
        else:
            to_read.append(file)
    paths = {file.name for file in found.notes}
    gone = [path for path in stored if path not in paths and found.may_be_deleted(path)]
    gone += [path for path in failed if path not in paths and path not in stored]
    to_read.sort(key=_priority, reverse=True)
    return Changes(to_read=tuple(to_read), to_remove=tuple(gone), unchanged=unchanged, waiting=tuple(waiting))


def _priority(file: FoundNote) -> tuple[bool, str]:
    # Descending: MEMORY.md, notes without dates, then daily logs from the newest back. Vectors are made in
    # the order in which chunks were stored, and a local model takes a while.
    return "/" not in file.name, file.name


def _waits(failure: FailedFile, now_seconds: float) -> bool:
    # A wait beyond the maximum was set by a clock that was set back since.
    return 0 < failure.retry_at_seconds - now_seconds <= LONGEST_PAUSE_SECONDS


def _changed_since(file: FoundNote, failure: FailedFile) -> bool:
    return file.marks.changed_ns / 1e9 > failure.retry_at_seconds - pause_seconds(failure.attempts)


def is_unchanged(file: FoundNote, state: FileState | None) -> bool:
    """Whether the marks alone prove that the file has not changed since it was read."""
    return (
        state is not None
        and file.marks.size_bytes == state.size
        and file.marks.modified_ns == state.mtime_ns
        and file.marks.inode == state.inode
        and file.marks.modified_ns < state.read_at_ns - RACY_NS
        and file.marks.changed_ns < state.read_at_ns
    )


def next_failure(path: str, problem: str, previous: FailedFile | None, *, now_seconds: float) -> FailedFile:
    """A failure to record: each one in a row doubles the wait, up to an hour."""
    attempts = previous.attempts + 1 if previous else 1
    return FailedFile(
        path=path,
        problem=problem,
        attempts=attempts,
        retry_at_seconds=now_seconds + pause_seconds(attempts),
    )


def batches(files: Sequence[FoundNote], *, max_bytes: int, max_files: int) -> list[list[FoundNote]]:
    """Files in batches of bounded size, in order, which bounds memory and the time between commits."""
    runs: list[list[FoundNote]] = []
    size = 0
    for file in files:
        if not runs or len(runs[-1]) >= max_files or size + file.marks.size_bytes > max_bytes:
            runs.append([])
            size = 0
        runs[-1].append(file)
        size += file.marks.size_bytes
    return runs
