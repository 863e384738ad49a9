"""Decisions that are the same for every database of the index: later readings, kept chunks, attached
vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from typing import NamedTuple

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import FileState, Piece

LONGEST_PASS_NS = 600 * 1_000_000_000
"""A stored reading that is later than the present one by more than this comes from a clock that was set back.
Without this limit, such a file would not be indexed until the clock has caught up."""


def believable_ns(state: FileState) -> int:
    """The latest time that a stored reading of the file may have to count as later than this one."""
    return state.read_at_ns + LONGEST_PASS_NS


def is_later(stored: tuple[int, int] | None, state: FileState) -> bool:
    """Whether `stored`, a pair of `read_at_ns` and `mtime_ns`, is from a later reading of the file."""
    return (
        stored is not None
        and stored > (state.read_at_ns, state.mtime_ns)
        and stored[0] <= believable_ns(state)
    )


class KeptChunks(NamedTuple):
    """The positions of new chunks, the ids of moved ones with their new lines, and the ids of removed
    ones."""

    new: list[int]
    moved: list[tuple[int, Chunk]]
    gone: list[int]


def kept_chunks(
    chunks: Sequence[Chunk],
    stored: Iterable[tuple[Hashable, int, int, int, int]],
    key: Callable[[Chunk], Hashable],
) -> KeptChunks:
    """Compares a file's chunks with the stored ones.

    Text, headings and day decide what finds a chunk, so a chunk that only has other lines is moved. `stored`
    has the key, id, ordinal and lines of each chunk, the last one first; `key` returns the key of a chunk.
    """
    same: dict[Hashable, list[tuple[int, int, int, int]]] = defaultdict(list)
    for found, *place in stored:
        same[found].append((place[0], place[1], place[2], place[3]))
    if not same:
        return KeptChunks(new=[*range(len(chunks))], moved=[], gone=[])
    new: list[int] = []
    moved: list[tuple[int, Chunk]] = []
    for at, chunk in enumerate(chunks):
        left = same.get(key(chunk))
        if not left:
            new.append(at)
            continue
        chunk_id, *lines = left.pop()
        if lines != [chunk.ordinal, chunk.start_line, chunk.end_line]:
            moved.append((chunk_id, chunk))
    return KeptChunks(new=new, moved=moved, gone=[place[0] for left in same.values() for place in left])


def pieces_of_whole_chunks(pieces: Iterable[Piece], known: Container[bytes]) -> list[Piece]:
    """The pieces of those chunks of which every text hash is `known`."""
    by_chunk: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_chunk[piece.chunk_id].append(piece)
    return [
        piece
        for parts in by_chunk.values()
        if all(part.text_hash in known for part in parts)
        for piece in parts
    ]


def refuse_other_lengths(lengths: Collection[int], *, stored: int | None) -> None:
    """Checks that vectors have the length of those that are `stored`.

    Raises:
        VectorsDiffer: some have another length.
    """
    wanted = stored if stored is not None else min(lengths, default=0)
    if other := set(lengths) - {wanted}:
        raise VectorsDiffer(
            f"The embedder returned vectors with {min(other)} numbers, and the stored ones have {wanted}, so "
            "its model has changed and its answers are not used. Choose another model name or "
            "memorySearch.outputDimensionality, or delete the index, to make all vectors again."
        )
