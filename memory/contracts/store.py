"""What the engine needs from a database. The contract that every backend's test suite runs against.

A chunk's id is an opaque integer, a query is the pieces that `lexical.match_query` found, a vector a sequence
of floats: each store puts them into its own query language, and `words` says how it cuts text. A `Store`
hands out one moment of the index to read from, or one transaction to write in: plain methods, on a thread of
the store, so that any amount of work costs one hand-over between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from nacre.memory.contracts.records import Chunk, ChunkPlace, FailedFile, Source, SourceCount, VectorEngine
from nacre.memory.contracts.words import Atom, MatchQuery, WordFields
from nacre.record import Record

Vector: TypeAlias = Sequence[float]
T = TypeVar("T")

Scores: TypeAlias = Mapping[int, float]
"""How well chunks fit, by chunk id, higher is better; a list's mapping runs from the best to the worst."""


class FileState(NamedTuple):
    """A file as it was when last read. `read_at_ns` tells a racy modification time from a settled one."""

    source: Source
    path: str
    content_hash: str
    size: int
    mtime_ns: int
    inode: int
    read_at_ns: int


class IndexedFile(Record):
    """A file with its chunks and, for each chunk, the texts under which words find it."""

    state: FileState
    chunks: Sequence[Chunk]
    fields: Sequence[WordFields]


class Scope(Record):
    """Which chunks a search may return. With a day limit, chunks without a date are out.

    `below` is a folder of the workspace; only what lies in it is inside, unless it is empty.
    """

    sources: tuple[Source, ...]
    after: date | None = None
    before: date | None = None
    below: str = ""

    def admits(self, chunk: Chunk) -> bool:
        """Whether this chunk is inside; both days are inclusive."""
        if chunk.source not in self.sources or (self.below and not chunk.path.startswith(f"{self.below}/")):
            return False
        if self.after is None and self.before is None:
            return True
        return (
            chunk.date is not None
            and (self.after is None or chunk.date >= self.after)
            and (self.before is None or chunk.date <= self.before)
        )


class Piece(Record):
    """A part of a chunk that gets a vector of its own; `text_hash` stands for the text that is embedded."""

    chunk_id: int
    piece: int
    text_hash: bytes


class StoreCounts(Record):
    """How much is stored. `vectors` belong to chunks, `cached_vectors` to text that is gone."""

    sources: tuple[SourceCount, ...]
    vectors: int
    cached_vectors: int
    pending_chunks: int
    dimensions: int | None
    size_bytes: int


class Snapshot(Protocol):
    """One moment of an index: whatever is written or published meanwhile, all that it reads fits together.

    Valid only inside the call that gave it.
    """

    def meta(self) -> Mapping[str, str]:
        """The identity and state rows that `Writer.set_meta` wrote."""

    def stored_file(self, source: Source, path: str) -> tuple[FileState, Sequence[Chunk]] | None:
        """What is stored for one file."""

    def file_states(self, source: Source) -> Mapping[str, FileState]:
        """Every indexed file of a source, by stored path."""

    def failures(self, source: Source) -> Mapping[str, FailedFile]:
        """Files that could not be indexed, by stored path."""

    def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        """The next chunks, by id, that have no vectors attached."""

    def refused(self, *, limit: int) -> Sequence[str]:
        """Citations of chunks of which the embedder does not take some text, by path and line."""

    def counts(self) -> StoreCounts:
        """How much is stored."""

    def vector_engine(self) -> VectorEngine:
        """What compares vectors here."""

    def chunk_count(self) -> int:
        """How many chunks there are; quick enough for every search."""

    def dimensions(self) -> int | None:
        """How many numbers the vectors of the chunks have; `None` while there is none."""

    def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Scores:
        """The BM25 of the best chunks in which any of the query's atoms stands, best first.

        What an atom costs is bounded: where the atoms together are in many chunks, the store may let the
        rarest choose the chunks, and weigh the others in those alone.
        """

    def is_known(self, atom: Atom) -> bool:
        """Whether an atom stands in any chunk; quick enough for each word of a question."""

    def counts_of(self, atoms: Sequence[Atom]) -> Sequence[int]:
        """In about how many chunks each atom stands; quick enough for every search."""

    def nearest(self, vector: Vector, *, limit: int, scope: Scope) -> Scores:
        """The cosine of the best chunks' best piece, best first; vectors of other lengths are passed over."""

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> Scores:
        """The exact cosine of each chunk's best piece, in no order; chunks without a vector are left out."""

    def places(self, chunk_ids: Sequence[int]) -> Mapping[int, ChunkPlace]:
        """Where chunks stand; unknown ids are left out."""

    def texts(self, chunk_ids: Sequence[int]) -> Mapping[int, str]:
        """What chunks say; unknown ids are left out."""

    def sampled_texts(self, count: int) -> Sequence[str]:
        """What at most so many chunks say, from everywhere in the index."""

    def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        """Whole chunks by id; unknown ids are left out."""


class Writer(Protocol):
    """Changes of an index, all in one transaction. Valid only inside the call that gave it."""

    def meta(self) -> Mapping[str, str]:
        """The identity and state rows, as they are now."""

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Writes rows; others stay."""

    def replace_files(self, files: Sequence[IndexedFile]) -> None:
        """Each file's chunks take the place of what was stored for it: a file is all or nothing.

        A chunk whose text, headings and day are those of a stored one of the file keeps that one's id and
        vectors, wherever in the file it stands now: what did not change is not written again.
        What another process stored from a later reading of the file stays.
        """

    def touch_files(self, states: Sequence[FileState]) -> None:
        """New stat values for files whose stored content is still the one that was read."""

    def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        """Forgets files with everything that hangs on them."""

    def set_failures(self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]) -> None:
        """Records failures, and forgets those of the paths `cleared`."""

    def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """Attaches the vectors that are stored for these texts already; returns the hashes that are not.

        Nothing is attached to an index whose identity names another embedder.
        """

    def put_vectors(self, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int) -> None:
        """Stores vectors by text hash for `attach_known`; `None` says that the provider refuses this text.

        Raises:
            VectorsDiffer: they are not as long as those stored for this embedder.
        """

    def detach_vectors(self) -> None:
        """No chunk has a vector any more; the vectors stay as a cache (another embedder is in use)."""

    def evict(self, *, keep_unused: int | None) -> int:
        """Deletes vectors that no chunk uses, least recently used first, down to `keep_unused`."""


class Rebuild(Protocol):
    """A second, hidden index that is filled while the first one answers."""

    @property
    def store(self) -> Store:
        """Where to write."""

    async def copy_vectors(self) -> None:
        """Brings in every vector that the published index has, so that nothing is embedded twice."""

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Inside, no other process changes the published index: time for a last look, then `publish`.

        Raises:
            IndexBusy: another process kept the index locked.
        """

    async def publish(self) -> None:
        """Puts this index in the place of the published one, at once and for all readers."""

    async def leave(self) -> None:
        """Lets go without publishing; what was done is found again by the next `begin_rebuild`."""


class Store(Protocol):
    """An index of chunks. A reader never waits for a writer.

    The `work` that a method runs must not wait for anything: it holds up a thread of the store.
    """

    async def search(self, work: Callable[[Snapshot], T]) -> T:
        """Runs `work` on one moment of the index, and never behind a `read`, because somebody waits."""

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        """Runs `work` on one moment of the index."""

    async def write(self, work: Callable[[Writer], T]) -> T:
        """Runs `work` in one transaction, which survives a kill the moment this returned.

        What `work` raises undoes all of it.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """

    async def tidy(self) -> None:
        """Makes searching fast again after many changes; others can write in between."""

    async def begin_rebuild(self, identity: Mapping[str, str]) -> Rebuild:
        """Opens the hidden index: an unfinished one of the same identity, or an empty one.

        Raises:
            IndexBusy: another process is rebuilding.
        """

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        """Whether a rebuild of this identity was cut off; deletes what other rebuilds left behind."""

    async def check(self) -> str:
        """Reads the whole index and says what is broken; empty when nothing is."""

    async def close(self) -> None:
        """Waits for running calls and lets go of the files."""
