"""The contract for databases of the index, and the place that opens one.

Chunk ids are opaque integers, queries come from `lexical.match_query`, and vectors are sequences of floats.
Each store translates them to its own query language; `words` says how it splits text. A `Store` provides
snapshots to read and transactions to write. Their methods are not coroutines and run on a thread of the
store, so that any amount of work costs one switch between threads.
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
"""Scores by chunk id; higher is better. The order is from the best to the worst if there is one."""

FRESHNESS_WAIT_SECONDS = 2.0
"""How long a search for a model or a person waits for a note that was just written; they take longer
themselves."""


class FileState(NamedTuple):
    """A file as it was when it was last read. `read_at_ns` shows whether `mtime_ns` can be trusted."""

    source: Source
    path: str
    content_hash: str
    size: int
    mtime_ns: int
    inode: int
    read_at_ns: int


class IndexedFile(Record):
    """A file, its chunks, and the fields by which words find each chunk."""

    state: FileState
    chunks: Sequence[Chunk]
    fields: Sequence[WordFields]


class Scope(Record):
    """The chunks that a search may return. Day limits are inclusive and exclude chunks without a date, unless
    `undated` is true.

    `below` is a folder of the workspace that limits the search, or empty.
    """

    sources: tuple[Source, ...]
    after: date | None = None
    before: date | None = None
    undated: bool = False
    below: str = ""

    def admits(self, source: Source, path: str, day: date | None) -> bool:
        """Whether a chunk of this source, path and day is inside."""
        if source not in self.sources or (self.below and not path.startswith(f"{self.below}/")):
            return False
        if self.after is None and self.before is None:
            return True
        if day is None:
            return self.undated
        return (self.after or date.min) <= day <= (self.before or date.max)


class Piece(Record):
    """A part of a chunk with a vector of its own; `text_hash` identifies the embedded text."""

    chunk_id: int
    piece: int
    text_hash: bytes


class StoreCounts(Record):
    """How much is stored. `vectors` belong to chunks, `cached_vectors` to removed text."""

    sources: tuple[SourceCount, ...]
    vectors: int
    cached_vectors: int
    pending_chunks: int
    dimensions: int | None
    size_bytes: int


class Snapshot(Protocol):
    """A consistent state of an index, whatever is written meanwhile. Only valid inside the call."""

    def meta(self) -> Mapping[str, str]:
        """The rows that `Writer.set_meta` wrote."""

    def stored_file(self, source: Source, path: str) -> tuple[FileState, Sequence[Chunk]] | None:
        """The stored state and chunks of a file."""

    def file_states(self, source: Source) -> Mapping[str, FileState]:
        """All indexed files of a source, by stored path."""

    def failures(self, source: Source) -> Mapping[str, FailedFile]:
        """The files that could not be indexed, by stored path."""

    def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        """The next chunks by id that have no vectors."""

    def refused(self, *, limit: int) -> Sequence[str]:
        """Citations of chunks with a text that the embedder refuses, by path and line."""

    def counts(self) -> StoreCounts: ...

    def vector_engine(self) -> VectorEngine: ...

    def chunk_count(self) -> int:
        """The number of chunks; fast enough for every search."""

    def dimensions(self) -> int | None:
        """The length of the chunks' vectors; `None` without vectors."""

    def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Scores:
        """The BM25 of the best chunks that contain any atom of the query, the best first.

        To bound the cost of frequent atoms, the store may select chunks by the rarest atoms and weigh the
        others only in those.
        """

    def is_known(self, atom: Atom) -> bool:
        """Whether any chunk contains an atom; fast enough for each word of a question."""

    def counts_of(self, atoms: Sequence[Atom]) -> Sequence[int]:
        """The approximate number of chunks with each atom; fast enough for every search."""

    def begin_nearest(self, vector: Vector, *, limit: int, scope: Scope) -> Callable[[], Scores]:
        """Returns a function that returns the cosines of the best chunks, each by its best piece, best first.

        They may be computed meanwhile on another thread. Skips other vector lengths. Call the function inside
        the snapshot.
        """

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> Scores:
        """The exact cosine of each chunk's best piece, without order. Skips chunks without a vector."""

    def places(self, chunk_ids: Sequence[int]) -> Mapping[int, ChunkPlace]:
        """The places of chunks; unknown ids are left out."""

    def texts(self, chunk_ids: Sequence[int]) -> Mapping[int, str]:
        """The texts of chunks; unknown ids are left out."""

    def sampled_texts(self, count: int) -> Sequence[str]:
        """The texts of up to `count` chunks from everywhere in the index."""

    def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        """Chunks by id; unknown ids are left out."""


class Writer(Protocol):
    """Changes of an index in one transaction. Only valid inside the call."""

    def meta(self) -> Mapping[str, str]:
        """The present rows."""

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Writes rows and keeps the others."""

    def replace_files(self, files: Sequence[IndexedFile]) -> None:
        """Replaces the stored chunks of each file.

        A chunk with the text, headings and day of a stored chunk of the file keeps its id and vectors,
        wherever in the file it is now. What another process stored from a later reading of the file stays.
        """

    def touch_files(self, states: Sequence[FileState]) -> None:
        """Updates the stat values of files whose stored content is the one that was read."""

    def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        """Removes files with everything that belongs to them."""

    def set_failures(self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]) -> None:
        """Records failures and removes those of the paths `cleared`."""

    def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """Attaches stored vectors to these pieces and returns the hashes of texts without one.

        Attaches nothing if the identity of the index names another embedder.
        """

    def put_vectors(self, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int) -> None:
        """Stores vectors by text hash for `attach_known`; `None` marks a text that the provider refuses.

        Raises:
            VectorsDiffer: their length is not that of the stored vectors of this embedder.
        """

    def detach_vectors(self) -> None:
        """Detaches all vectors, because another embedder is in use. They stay as a cache."""

    def evict(self, *, keep_unused: int | None) -> int:
        """Deletes the least recently used vectors without a chunk, down to `keep_unused`; their number."""


class Rebuild(Protocol):
    """A hidden index that is filled while the published one answers."""

    @property
    def store(self) -> Store:
        """The hidden index."""

    async def copy_vectors(self) -> None:
        """Copies the vectors of the published index, so that nothing is embedded twice."""

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keeps other processes from changing the published index, for a last look and `publish`.

        Raises:
            IndexBusy: another process kept the index locked.
        """

    async def publish(self) -> None:
        """Replaces the published index, at once and for all readers."""

    async def leave(self) -> None:
        """Closes without publishing. The next `begin_rebuild` continues."""


class Store(Protocol):
    """An index of chunks. Readers never wait for writers.

    The `work` passed to a method must not wait for anything, because it occupies a thread of the store.
    """

    async def search(self, work: Callable[[Snapshot], T]) -> T:
        """Runs `work` on a snapshot, and never waits for a `read`."""

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        """Runs `work` on a snapshot."""

    async def write(self, work: Callable[[Writer], T]) -> T:
        """Runs `work` in a transaction, which survives a kill once this returns. An exception undoes it.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """

    async def tidy(self) -> None:
        """Makes searches fast again after many changes. Others can write in between."""

    async def begin_rebuild(self, identity: Mapping[str, str]) -> Rebuild:
        """Opens the hidden index: an unfinished one with the same identity, or an empty one.

        Raises:
            IndexBusy: another process is rebuilding.
        """

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        """Whether a rebuild with this identity is unfinished. Deletes the remains of other rebuilds."""

    async def check(self) -> str:
        """Reads the whole index; a description of the damage, or an empty string."""

    async def close(self) -> None:
        """Waits for running calls and closes the files."""


class IndexFacts(Record):
    """The state of an index as seen from outside.

    `version` is 0 if it is unknown; `known_version` is the one that this program writes. `damage` can be
    repaired from the notes; `problem` is any other reason why the index cannot be used. `paths` are its
    notes.
    """

    known_version: int
    version: int = 0
    damage: str = ""
    problem: str = ""
    paths: tuple[str, ...] = ()


class IndexPlace(Protocol):
    """Where an index is stored. A damaged index is set aside, because the notes are the truth."""

    @property
    def name(self) -> str:
        """The place for its owner, without a password."""

    @property
    def analysis(self) -> str:
        """Identifies how the place splits, folds and stems words, which are indexed again if it changes."""

    async def open(self) -> Store:
        """Opens the index, or a new one in place of a damaged one.

        Raises:
            IndexUnusable: the index cannot be opened for another reason than damage.
            IndexBusy: another process kept the index locked.
        """

    async def replace_damaged(self) -> Store:
        """Opens a new index in place of a damaged one, or the sound one that another process has made.

        Raises:
            IndexUnusable, IndexBusy: as `open`.
        """

    async def close(self) -> None:
        """Releases what the stores share, after the last one is closed."""

    def quarantined(self) -> Sequence[str]:
        """The names of damaged indexes that were set aside, oldest first."""
