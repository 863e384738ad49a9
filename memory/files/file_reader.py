"""Reads memory files from disk and turns them into what the store takes. Writes nothing.

A file is opened without following a link, so that what discovery saw as a file cannot have become a door out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.contracts.errors import refusals_told
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.files.discovery import FoundFile
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, day_in_path, decode_markdown
from nacre.memory.text.lexical import lexical_fields
from nacre.memory.workspace.paths import open_regular
from nacre.memory.workspace.template_words import told_lines

MAX_FILE_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class ReadBatch:
    """What reading some files gave: files to store, files whose content was the stored one, problems by path.

    A file that vanished in between is in none of them.
    """

    changed: tuple[IndexedFile, ...]
    same: tuple[FileState, ...]
    problems: tuple[tuple[str, str], ...]


def read_batch(
    files: Sequence[FoundFile],
    known_hashes: Sequence[str | None],
    *,
    sizes: ChunkSizes,
    read_at_ns: int,
) -> ReadBatch:
    """Reads and chunks files; one whose content has the known hash is not chunked."""
    changed: list[IndexedFile] = []
    same: list[FileState] = []
    problems: list[tuple[str, str]] = []
    for file, known_hash in zip(files, known_hashes, strict=True):
        try:
            raw, info = read_regular(file.absolute)
        except FileNotFoundError:
            continue
        except (OSError, PathOutsideRoot) as error:
            problems.append((file.path, _sentence(file.path, error)))
            continue
        state = FileState(
            source="memory",
            path=file.path,
            content_hash=hashlib.sha256(raw).hexdigest(),
            size=info.st_size,
            mtime_ns=info.st_mtime_ns,
            inode=info.st_ino,
            read_at_ns=read_at_ns,
        )
        if state.content_hash == known_hash:
            same.append(state)
        else:
            lines = told_lines(file.path, decode_markdown(raw))
            changed.append(indexed_file(state, lines, sizes))
    return ReadBatch(changed=tuple(changed), same=tuple(same), problems=tuple(problems))


def indexed_file(state: FileState, lines: Sequence[str], sizes: ChunkSizes) -> IndexedFile:
    """Chunks and lexical rows of a Markdown file."""
    document = Document(source=state.source, path=state.path, lines=lines, day=day_in_path(state.path))
    chunks = chunk_document(document, sizes)
    return IndexedFile(state=state, chunks=chunks, fields=[lexical_fields(chunk) for chunk in chunks])


def read_regular(path: Path) -> tuple[bytes, os.stat_result]:
    """A file's bytes and the stat of the very file that was read, taken before the first byte.

    Raises:
        OSError: it cannot be read, or is larger than `MAX_FILE_BYTES`.
        PathOutsideRoot: it is a symlink or no regular file.
    """
    descriptor = open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as stream:
        info = os.fstat(stream.fileno())
        if info.st_size > MAX_FILE_BYTES:
            raise OSError(
                f"{info.st_size} bytes is too large for a memory file; {MAX_FILE_BYTES} is the most"
            )
        return stream.read(), info


def filesystem_now_ns(index_path: Path) -> int:
    """The file system's own idea of now, which is what time stamps of files compare with.

    Raises:
        IndexUnusable: nothing can be written beside the index.
    """
    marker = index_path.with_name(index_path.name + ".clock")
    with refusals_told(index_path):
        marker.touch(mode=0o600)
        return marker.stat().st_mtime_ns


def _sentence(path: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{path} could not be read: {reason}."
