"""The source `sessions`: transcripts that the runtime provides as text.

A transcript is indexed when it has grown enough or when its session is over, and removed when its session is
deleted. Line numbers of chunks are those of the transcript file.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nacre.memory.contracts.store import FileState, IndexedFile, Store
from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptSource, TranscriptText
from nacre.memory.sync.file_sync import FileOutcome
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, storable
from nacre.memory.text.lexical import lexical_fields
from nacre.record import paused_collector

if TYPE_CHECKING:
    from nacre.memory.contracts.records import Chunk
    from nacre.memory.contracts.settings import SessionSyncSettings
    from nacre.memory.contracts.words import WordFields

log = logging.getLogger(__name__)

PREFIX = "sessions/"
CHUNKS_AT_ONCE = 2_000
"""The number of chunks that a thread indexes at once, so that a program that ends need not wait for the rest
of a long transcript."""


async def sync_transcripts(
    store: Store,
    source: TranscriptSource,
    sizes: ChunkSizes,
    settings: SessionSyncSettings,
    outcome: FileOutcome,
    *,
    force: bool,
) -> None:
    """Brings the source `sessions` up to date and adds the result to `outcome`.

    A transcript that cannot be read stays indexed as it was.

    Raises:
        OSError: the transcripts cannot be listed.
    """
    infos = await source.transcripts()
    stored = await store.read(lambda index: index.file_states("sessions"))
    gone = deleted_transcripts(infos, stored)
    if gone:
        await store.write(lambda index: index.remove_files("sessions", gone))
        outcome.removed_files += len(gone)
    for info in infos:
        state = stored.get(PREFIX + info.name)
        if not force and not is_due(info, state, settings):
            continue
        try:
            text = await source.text(info.name)
        except OSError as error:
            log.warning("the transcript %s cannot be read and stays indexed as it was: %s", info.name, error)
            text = None
        if text is None:
            outcome.unread_transcripts.add(PREFIX + info.name)
            continue
        lines = [storable(line) for line in text.lines]
        new_state = _state(info, lines)
        if state is not None and state.content_hash == new_state.content_hash:
            await _touch(store, new_state)
            continue
        chunks = await asyncio.to_thread(paused_collector()(_chunks), new_state.path, lines, text, sizes)
        fields: list[WordFields] = []
        for start in range(0, len(chunks), CHUNKS_AT_ONCE):
            some = chunks[start : start + CHUNKS_AT_ONCE]
            fields += await asyncio.to_thread(lambda some: [*map(lexical_fields, some)], some)
        await _replace(store, IndexedFile(state=new_state, chunks=chunks, fields=fields))
        outcome.indexed_files += 1
        outcome.indexed_chunks += len(chunks)


async def _touch(store: Store, state: FileState) -> None:
    await store.write(lambda index: index.touch_files([state]))


async def _replace(store: Store, file: IndexedFile) -> None:
    await store.write(lambda index: index.replace_files([file]))


def deleted_transcripts(infos: Sequence[TranscriptInfo], stored: Iterable[str]) -> list[str]:
    """The stored paths of transcripts that are no longer listed."""
    return sorted(set(stored) - {PREFIX + info.name for info in infos})


def due_and_waiting(
    infos: Sequence[TranscriptInfo], stored: Mapping[str, FileState], settings: SessionSyncSettings
) -> tuple[int, int]:
    """The number of transcripts that the next pass reads, and of those that have not changed enough."""
    known = [(info, stored.get(PREFIX + info.name)) for info in infos]
    due = sum(is_due(info, state, settings) for info, state in known)
    return due, sum(_growth(info, state) != (0, 0) for info, state in known) - due


async def any_due(store: Store, source: TranscriptSource, settings: SessionSyncSettings) -> bool:
    """Whether the next pass would read a transcript."""
    infos = await source.transcripts()
    stored = await store.read(lambda index: index.file_states("sessions"))
    return due_and_waiting(infos, stored, settings)[0] > 0


def is_due(info: TranscriptInfo, state: FileState | None, settings: SessionSyncSettings) -> bool:
    """Whether a transcript has changed enough since it was indexed."""
    new_bytes, new_lines = _growth(info, state)
    if new_bytes == 0 and new_lines == 0:
        return False
    if info.ended or new_bytes < 0:
        return True
    return new_bytes >= settings.delta_bytes or new_lines >= settings.delta_messages


def _growth(info: TranscriptInfo, state: FileState | None) -> tuple[int, int]:
    if state is None:
        return info.size_bytes, info.lines
    return info.size_bytes - state.size, info.lines - state.inode


def _chunks(path: str, lines: Sequence[str], text: TranscriptText, sizes: ChunkSizes) -> list[Chunk]:
    """The chunks of a transcript with line numbers of its file."""
    document = Document(source="sessions", path=path, lines=lines, day=None)
    return [
        replace(
            chunk,
            start_line=text.line_numbers[chunk.start_line - 1],
            end_line=text.line_numbers[chunk.end_line - 1],
            date=text.days[chunk.start_line - 1],
            heading_path=(),
        )
        for chunk in chunk_document(document, sizes)
    ]


def _state(info: TranscriptInfo, lines: Sequence[str]) -> FileState:
    """The state of a transcript; `inode` holds the number of its lines."""
    return FileState(
        source="sessions",
        path=PREFIX + info.name,
        content_hash=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        size=info.size_bytes,
        mtime_ns=info.modified_ns,
        inode=info.lines,
        read_at_ns=info.modified_ns,
    )
