"""What every database of the index decides alike: which reading is the later one, which chunks stay, which
vectors are attached. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from typing import NamedTuple

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import FileState, Piece

LONGEST_PASS_NS = 600 * 1_000_000_000
"""What was read later than this after a file that is stored now was read by a clock that has been set back;
without a bound such a file would not be followed until the clock has caught up."""


def believable_ns(state: FileState) -> int:
    """How late a reading of the same file may be stored to count as later than this one."""
    return state.read_at_ns + LONGEST_PASS_NS


def is_later(stored: tuple[int, int] | None, state: FileState) -> bool:
    """Whether what is stored, as `read_at_ns` and `mtime_ns`, comes from a later reading of the same file."""
    return (
        stored is not None
        and stored > (state.read_at_ns, state.mtime_ns)
        and stored[0] <= believable_ns(state)
    )


class KeptChunks(NamedTuple):
    """The places of new chunks, the ids of stored ones with their new lines, and the ids of what is gone."""

    new: list[int]
    moved: list[tuple[int, Chunk]]
    gone: list[int]


def kept_chunks(
    chunks: Sequence[Chunk],
    stored: Iterable[tuple[Hashable, int, int, int, int]],
    key: Callable[[Chunk], Hashable],
) -> KeptChunks:
    """What of a file's stored chunks stays.

    What finds a chunk depends on its text, its headings and its day, not on its lines: these are moved.
    `stored` has the key, the id, the ordinal and the lines of each, the last one first; `key` is that of a
    chunk.
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
    """The pieces of chunks of which every piece has a vector, by the hashes of their texts."""
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
    """Returns when vectors have the length of those that are `stored`; lengths are counts of numbers.

    Raises:
        VectorsDiffer: some have not.
    """
    wanted = stored if stored is not None else min(lengths, default=0)
    if other := set(lengths) - {wanted}:
        raise VectorsDiffer(
            f"The embedder gave vectors of {min(other)} numbers, those before had {wanted}: its model is not "
            "the same any more, and no answer is used. Choose another name or "
            "memorySearch.outputDimensionality, or delete the index, to have all vectors made again."
        )
