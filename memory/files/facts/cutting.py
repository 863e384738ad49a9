"""The notes of a page as chunks of an index: each note by itself, found again by its number. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.files.facts.page import Page
from nacre.memory.text.chunker import ChunkSizes, Document, chunk_document, storable
from nacre.memory.text.lexical import lexical_fields


def notes_of_page(state: FileState, data: bytes, sizes: ChunkSizes) -> IndexedFile:
    """A page as the index of notes keeps it; a long note is several chunks.

    The lines of such a chunk are no lines but the note's number, because what is written above a note moves
    its lines, and an index that has not seen that yet must still name the right note.
    """
    chunks = list(_chunks(state, data, sizes))
    return IndexedFile(state=state, chunks=chunks, fields=[lexical_fields(chunk) for chunk in chunks])


def _chunks(state: FileState, data: bytes, sizes: ChunkSizes) -> Iterator[Chunk]:
    ordinal = 0
    for note in Page(data, identity="", zone=None).notes():
        if note.number is None or note.tail is None:
            continue
        lines = storable(note.text.encode("utf-8", "replace").decode()).split("\n")
        document = Document(source="memory", path=state.path, lines=lines, day=note.tail.at.date())
        for chunk in chunk_document(document, sizes):
            yield replace(
                chunk, start_line=note.number, end_line=note.number, heading_path=(), ordinal=ordinal
            )
            ordinal += 1
