"""Turns the bytes of notes into what the store takes. Pure: the bytes were read before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.contracts.workspace import ReadFailed
from nacre.memory.files.template_words import told_lines
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, day_in_path, decode_markdown
from nacre.memory.text.lexical import lexical_fields
from nacre.record import Record

Cut: TypeAlias = Callable[[FileState, bytes, ChunkSizes], IndexedFile]
"""What makes chunks of a note's bytes."""


class ReadBatch(Record):
    """What reading some files gave: files to store, files whose content was the stored one, problems by path.

    A file that vanished in between is in none of them.
    """

    changed: tuple[IndexedFile, ...]
    same: tuple[FileState, ...]
    problems: tuple[tuple[str, str], ...]


def cut_note(state: FileState, data: bytes, sizes: ChunkSizes) -> IndexedFile:
    """Chunks and lexical rows of a Markdown file, without the words of its template."""
    lines = told_lines(state.path, decode_markdown(data))
    document = Document(source=state.source, path=state.path, lines=lines, day=day_in_path(state.path))
    chunks = chunk_document(document, sizes)
    return IndexedFile(state=state, chunks=chunks, fields=[lexical_fields(chunk) for chunk in chunks])


def read_batch(
    read: Mapping[str, NoteBytes | ReadFailed],
    known_hashes: Mapping[str, str],
    *,
    sizes: ChunkSizes,
    cut: Cut = cut_note,
    read_at_ns: int,
) -> ReadBatch:
    """Chunks what was read, by name; a note whose content has the known hash is not chunked."""
    changed: list[IndexedFile] = []
    same: list[FileState] = []
    problems: list[tuple[str, str]] = []
    for name, found in read.items():
        if isinstance(found, FileNotFoundError):
            continue
        if not isinstance(found, NoteBytes):
            problems.append((name, _sentence(name, found)))
            continue
        state = FileState(
            source="memory",
            path=name,
            content_hash=hashlib.sha256(found.data).hexdigest(),
            size=found.marks.size_bytes,
            mtime_ns=found.marks.modified_ns,
            inode=found.marks.inode,
            read_at_ns=read_at_ns,
        )
        if state.content_hash == known_hashes.get(name):
            same.append(state)
        else:
            changed.append(cut(state, found.data, sizes))
    return ReadBatch(changed=tuple(changed), same=tuple(same), problems=tuple(problems))


def _sentence(path: str, error: ReadFailed) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{path} could not be read: {reason}."
