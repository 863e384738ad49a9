"""Turns the bytes of notes into what the store takes, without the lines that come from templates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

from nacre.memory.contracts.notes import NoteBytes
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.contracts.workspace import FIRST_RUN_FILE, ReadFailed
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, day_in_path, decode_markdown
from nacre.memory.text.lexical import lexical_fields
from nacre.memory.text.markdown_blocks import HEADING
from nacre.memory.workspace.workspace import OLDER_NAMES, TEMPLATES, template_text
from nacre.record import Record

Cut: TypeAlias = Callable[[FileState, bytes, ChunkSizes], IndexedFile]
"""Cuts the bytes of a note into chunks."""


class ReadBatch(Record):
    """Files to store, files with the stored content, and problems by path.

    Files that disappeared are in none of them.
    """

    changed: tuple[IndexedFile, ...]
    same: tuple[FileState, ...]
    problems: tuple[tuple[str, str], ...]


def cut_note(state: FileState, data: bytes, sizes: ChunkSizes) -> IndexedFile:
    """The chunks and lexical rows of a Markdown file, without the words of its template."""
    lines = without_template(state.path, decode_markdown(data))
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
    """Chunks the notes that were read, except those whose content has the known hash."""
    changed: list[IndexedFile] = []
    same: list[FileState] = []
    problems: list[tuple[str, str]] = []
    for name, found in read.items():
        if isinstance(found, FileNotFoundError):
            continue
        if not isinstance(found, NoteBytes):
            reason = (isinstance(found, OSError) and found.strerror) or str(found)
            problems.append((name, f"{name} could not be read: {reason}."))
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


def without_template(path: str, lines: Sequence[str]) -> Sequence[str]:
    """The lines of a workspace file with an empty line in place of each line of its template.

    A heading of the template stays if there is text below it; the title never stays. Files without a template
    are returned unchanged. `path` is relative to the workspace.
    """
    template = _template_lines(path)
    if not template:
        return lines
    kept = [line if HEADING.match(line) or line.strip() not in template else "" for line in lines]
    below: list[tuple[int, bool]] = []  # for each heading below: its level, and whether it has text
    has_words = False
    for at in range(len(kept) - 1, -1, -1):
        heading = HEADING.match(kept[at])
        if heading is None:
            has_words = has_words or bool(kept[at].strip())
            continue
        level = len(heading[1])
        while below and below[-1][0] > level:
            has_words = below.pop()[1] or has_words
        if kept[at].strip() in template and (level == 1 or not has_words):
            kept[at] = ""
        below.append((level, has_words))
        has_words = False
    return kept


@cache
def _template_lines(path: str) -> frozenset[str]:
    """The lines of a file's template, or nothing if it has none."""
    newer = {older: name for name, older in OLDER_NAMES.items()}
    name = newer.get(path, path)
    if name not in (*TEMPLATES, FIRST_RUN_FILE):
        return frozenset()
    return frozenset(line.strip() for line in template_text(name).splitlines() if line.strip())
