"""The SQLite store: one file, and three threads, for writes, for searches and for other reads.

A write first takes the lock file beside the index, so that processes queue up; readers take no lock and see
the last commit. Searches never wait for the reads of syncs and status. A rebuild fills a hidden file beside
the index and replaces its content at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from nacre.memory.contracts.errors import IndexBusy, IndexDamaged, IndexUnusable, readable_errors
from nacre.memory.contracts.index_rules import (
    believable_ns,
    is_later,
    kept_chunks,
    pieces_of_whole_chunks,
    refuse_other_lengths,
)
from nacre.memory.contracts.records import Chunk, FailedFile, Source, VectorEngine
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Vector, Writer
from nacre.memory.contracts.words import FIELDS, WordFields
from nacre.memory.stores.sqlite.connection import (
    Connection,
    ConnectionThread,
    IndexLock,
    copy_database,
    give_back_space,
    open_connection,
    quick_check,
    transaction,
)
from nacre.memory.stores.sqlite.nearest import add_vector_functions
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, migrate, version_of
from nacre.memory.stores.sqlite.snapshot import STATE_COLUMNS, SnapshotThread, stored_meta
from nacre.memory.vectors.identity import is_index_of
from nacre.memory.vectors.vector_math import NUMBER_BYTES, code_of, is_zero, to_blob

T = TypeVar("T")


class SqliteStore:
    """`Store` over one SQLite file; its methods are documented there. Open it with `SqliteStore.open`."""

    def __init__(self, path: Path, prepare_vectors: Callable[[Connection], VectorEngine]) -> None:
        self.path = path
        self.lock = IndexLock(path)
        self._prepare_vectors = prepare_vectors
        self._writer = ConnectionThread("memory-writer", lambda: open_connection(path, inspect=version_of))
        self._reader = SnapshotThread("memory-reader", path, prepare_vectors)
        self._searcher = SnapshotThread("memory-search", path, prepare_vectors)
        self.read, self.search = self._reader.run, self._searcher.run

    @classmethod
    async def open(
        cls, path: Path, prepare_vectors: Callable[[Connection], VectorEngine] = add_vector_functions
    ) -> SqliteStore:
        """Opens or creates the index and migrates it to the newest version.

        `prepare_vectors` loads the vector functions into a connection.

        Raises:
            IndexDamaged: the file is not a sound database.
            IndexUnusable: it cannot be opened, or belongs to another program or a newer version of Nacre.
            IndexBusy: another process held the write lock.
        """
        with readable_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = cls(path, prepare_vectors)
        try:
            if await store._writer.run(version_of) != SCHEMA_VERSION:
                await store.write_with(migrate)
                await store.write_with(give_back_space)
        except BaseException:
            await store.close()
            raise
        return store

    async def write(self, work: Callable[[Writer], T]) -> T:
        return await self._in_transaction(lambda connection: work(SqliteWriter(connection)))

    async def tidy(self) -> None:
        """Merges the full-text index in steps, each of which takes the lock."""
        first = True
        while await self._in_transaction(partial(merge_words, first=first)):
            first = False
        await self.write_with(give_back_space)

    async def begin_rebuild(self, identity: Mapping[str, str]) -> SqliteRebuild:
        lock = IndexLock(self.path, ".building")
        if not lock.take():
            raise IndexBusy(f"Another process is rebuilding {self.path}; it is used as soon as it is done.")
        try:
            hidden = await self._unfinished(identity)
            if hidden is None:
                hidden = await self._open_hidden()
                await hidden.write_with(partial(start_ids, first_ids=await self._writer.run(next_ids)))
                rows = await self.read(lambda live: marks(identity, live.meta()))
                await hidden.write(lambda index: index.set_meta(rows))
        except BaseException:
            lock.release()
            raise
        return SqliteRebuild(self, hidden, lock)

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        lock = IndexLock(self.path, ".building")
        if not rebuild_path(self.path).exists() or not lock.take():
            return False
        try:
            hidden = await self._unfinished(identity)
            if hidden is not None:
                await hidden.close()
            return hidden is not None
        finally:
            lock.release()

    async def check(self) -> str:
        # On its own thread, because this reads the whole file and searches must not wait for it.
        thread = ConnectionThread("memory-check", lambda: open_connection(self.path, read_only=True))
        try:
            return await thread.run(quick_check)
        except IndexDamaged as error:
            return str(error)
        finally:
            await thread.close()

    async def close(self) -> None:
        await self._reader.close()
        await self._searcher.close()
        await self._writer.close()

    async def write_with(self, work: Callable[[Connection], T]) -> T:
        """Runs `work`, which begins its own transactions, on the writer thread under the lock.

        Raises:
            IndexBusy: another process held the lock for too long.
        """

        def call(connection: Connection) -> T:
            with self.lock.held():
                return work(connection)

        return await self._writer.run(call)

    async def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        def call(connection: Connection) -> T:
            with transaction(connection):
                return work(connection)

        return await self.write_with(call)

    async def _open_hidden(self) -> SqliteStore:
        return await SqliteStore.open(rebuild_path(self.path), self._prepare_vectors)

    async def _unfinished(self, identity: Mapping[str, str]) -> SqliteStore | None:
        if rebuild_path(self.path).exists():
            try:
                hidden = await self._open_hidden()
            except IndexUnusable:
                pass
            else:
                if await self._goes_on(hidden, identity):
                    return hidden
                await hidden.close()
        remove_database(rebuild_path(self.path))
        return None

    async def _goes_on(self, hidden: SqliteStore, identity: Mapping[str, str]) -> bool:
        try:
            begun = await hidden.read(lambda index: index.meta())
            return await self.read(lambda live: goes_on(begun, live.meta(), identity))
        except IndexUnusable:
            return False


class SqliteRebuild:
    """`Rebuild` over two SQLite files; its methods are documented there. `begin_rebuild` makes it."""

    def __init__(self, live: SqliteStore, hidden: SqliteStore, lock: IndexLock) -> None:
        self._live = live
        self.store = hidden
        self._lock = lock

    async def copy_vectors(self) -> None:
        await self.store.write_with(partial(copy_vectors, live=self._live.path))

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        lock = self._live.lock
        taking = asyncio.create_task(asyncio.to_thread(lock.acquire))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            # A thread cannot be canceled, so a lock that it takes has to be released.
            await asyncio.wait({taking})
            if taking.exception() is None:
                lock.release()
            raise
        try:
            yield
        finally:
            lock.release()

    async def publish(self) -> None:
        await self.store.close()
        replace = partial(replace_content, live=self._live.path, hidden=self.store.path)
        await self._live.write_with(replace)
        self._lock.release()

    async def leave(self) -> None:
        await self.store.close()
        self._lock.release()


ID_STEP = 1 << 32
"""The distance from the live index's ids to those of its rebuild, so that no id is ever used twice."""

_MADE_FOR = "rebuild_identity"
_BUILD = "build"
_FILES = ("-wal", "-shm", ".clock", ".lock", "")
"""The database itself is deleted last: while it exists, the next sync finds it and continues."""
_NUMBERED = ("chunks", "chunk_vectors")
_COPY_ROWS = 2_000


def rebuild_path(index: Path) -> Path:
    """The hidden file of an index."""
    return index.with_name(index.name + ".rebuild")


def remove_database(path: Path) -> None:
    """Deletes a database with its side files. Raises `IndexUnusable` if a file cannot be deleted."""
    with readable_errors(path):
        for suffix in _FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def marks(identity: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """The rows of `meta` with the identity of a hidden index and the live index that it follows."""
    return {_MADE_FOR: _text(identity), _BUILD: str(_build(live) + 1)}


def goes_on(hidden: Mapping[str, str], live: Mapping[str, str], identity: Mapping[str, str]) -> bool:
    """Whether a hidden index with these rows of `meta` is an unfinished one for this identity."""
    return hidden.get(_MADE_FOR) == _text(identity) and _build(hidden) > _build(live)


def copy_vectors(connection: Connection, live: Path) -> None:
    """Copies vectors in batches, so that no transaction grows with the index."""
    connection.execute("ATTACH ? AS live", (str(live),))
    try:
        with transaction(connection):
            connection.execute("INSERT OR IGNORE INTO main.embedders (name) SELECT name FROM live.embedders")
        last = 0
        while True:
            end = connection.execute(
                "SELECT max(id) FROM (SELECT id FROM live.vectors WHERE id > ? ORDER BY id LIMIT ?)",
                (last, _COPY_ROWS),
            ).get
            if end is None:
                return
            with transaction(connection):
                connection.execute(
                    "INSERT OR IGNORE INTO main.vectors"
                    " (embedder_id, text_hash, used_at, embedding, sentences)"
                    " SELECT main.embedders.id, text_hash, used_at, embedding, x'' FROM live.vectors"
                    " JOIN live.embedders ON live.embedders.id = embedder_id"
                    " JOIN main.embedders USING (name) WHERE live.vectors.id > ? AND live.vectors.id <= ?",
                    (last, end),
                )
            last = end
    finally:
        connection.execute("DETACH live")


def replace_content(connection: Connection, live: Path, hidden: Path) -> None:
    """Under the lock, copies the last vectors into the hidden file and its content into the live one."""
    with closing(open_connection(hidden)) as source:
        copy_vectors(source, live)
        copy_database(source, connection)
    remove_database(hidden)
    connection.pragma("wal_checkpoint(TRUNCATE)")


def next_ids(connection: Connection) -> dict[str, int]:
    """The first ids of a rebuilt index."""
    last = dict.fromkeys(_NUMBERED, 0) | {
        str(name): int(seq) for name, seq in connection.execute("SELECT name, seq FROM sqlite_sequence")
    }
    return {name: seq + ID_STEP for name, seq in last.items()}


def start_ids(connection: Connection, first_ids: Mapping[str, int]) -> None:
    """Makes the ids of an empty index start at `first_ids`."""
    with transaction(connection):
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", first_ids.items())


def _build(meta: Mapping[str, str]) -> int:
    return int(meta.get(_BUILD, "0"))


def _text(identity: Mapping[str, str]) -> str:
    return json.dumps(identity, sort_keys=True)


MERGE_PAGES = 1_000
"""Pages written by one step of a merge, which holds the write lock for some milliseconds."""

_INSERT_CHUNK = """
INSERT INTO chunks (id, file_id, ordinal, start_line, end_line, heading_path, day, content_hash, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_READ_AT = "SELECT read_at_ns, mtime_ns FROM files WHERE source = ? AND path = ?"
_INSERT_FTS = f"INSERT INTO chunks_fts (rowid, {', '.join(FIELDS)}) VALUES (?{', ?' * len(FIELDS)})"
_UPSERT_FILE = f"""
INSERT INTO files (source, {", ".join(STATE_COLUMNS)}) VALUES (?{", ?" * len(STATE_COLUMNS)})
ON CONFLICT (source, path) DO UPDATE SET content_hash = excluded.content_hash, size = excluded.size,
    mtime_ns = excluded.mtime_ns, inode = excluded.inode, read_at_ns = excluded.read_at_ns
RETURNING id
"""


class SqliteWriter:
    """`Writer`, whose methods are documented there. The caller holds the transaction and the lock."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def meta(self) -> Mapping[str, str]:
        return stored_meta(self._connection)

    def set_meta(self, values: Mapping[str, str]) -> None:
        self._connection.executemany(
            "INSERT INTO meta (key, value) VALUES (?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            values.items(),
        )

    def replace_files(self, files: Sequence[IndexedFile]) -> None:
        # The words of all files come last: another statement in between would make the full-text index
        # write its buffer, which costs a segment, and later a merge, for each file.
        words: dict[int, WordFields] = {}
        stored: list[tuple[str, str]] = []
        next_id = self._connection.execute(
            "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'chunks'"
        ).get
        for file in files:
            state = file.state
            stored_at = self._connection.execute(_READ_AT, (state.source, state.path)).fetchone()
            if is_later(stored_at, state):
                continue
            file_id = self._connection.execute(_UPSERT_FILE, state).get
            new, moved, gone = kept_chunks(file.chunks, self._stored_chunks(file_id), _key)
            self._connection.executemany(
                "UPDATE chunks SET ordinal = ?, start_line = ?, end_line = ? WHERE id = ?",
                [(chunk.ordinal, chunk.start_line, chunk.end_line, chunk_id) for chunk_id, chunk in moved],
            )
            _remove_chunks(self._connection, gone)
            for chunk_id in gone:
                words.pop(chunk_id, None)
            ids = range(next_id, next_id + len(new))
            next_id = ids.stop
            added = [*zip(ids, new, strict=True)]
            self._connection.executemany(
                _INSERT_CHUNK, [_chunk_row(chunk_id, file_id, file.chunks[at]) for chunk_id, at in added]
            )
            stored.append((state.source, state.path))
            words.update((chunk_id, file.fields[at]) for chunk_id, at in added)
        self._connection.executemany("DELETE FROM failures WHERE source = ? AND path = ?", stored)
        self._connection.executemany(_INSERT_FTS, ((chunk_id, *fields) for chunk_id, fields in words.items()))

    def _stored_chunks(self, file_id: int) -> Iterator[tuple[Hashable, int, int, int, int]]:
        rows = self._connection.execute(
            "SELECT heading_path, day, content_hash, id, ordinal, start_line, end_line FROM chunks"
            " WHERE file_id = ? ORDER BY ordinal DESC",
            (file_id,),
        )
        for headings, day, digest, chunk_id, ordinal, start_line, end_line in rows:
            yield (headings, day, digest), chunk_id, ordinal, start_line, end_line

    def touch_files(self, states: Sequence[FileState]) -> None:
        self._connection.executemany(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, read_at_ns = ?"
            " WHERE source = ? AND path = ? AND content_hash = ? AND (read_at_ns <= ? OR read_at_ns > ?)",
            (
                (
                    *(state.size, state.mtime_ns, state.inode, state.read_at_ns),
                    *(state.source, state.path, state.content_hash, state.read_at_ns, believable_ns(state)),
                )
                for state in states
            ),
        )

    def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        for path in paths:
            file_id = self._connection.execute(
                "DELETE FROM files WHERE source = ? AND path = ? RETURNING id", (source, path)
            ).get
            if file_id is not None:
                ids = self._connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))
                _remove_chunks(self._connection, [row[0] for row in ids])
            self._connection.execute("DELETE FROM failures WHERE source = ? AND path = ?", (source, path))

    def set_failures(self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]) -> None:
        self._connection.executemany(
            "DELETE FROM failures WHERE source = ? AND path = ?", ((source, path) for path in cleared)
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO failures (source, path, problem, attempts, retry_at_seconds)"
            " VALUES (?, ?, ?, ?, ?)",
            ((source, item.path, item.problem, item.attempts, item.retry_at_seconds) for item in failed),
        )

    def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """Attaches vectors to a chunk if all its pieces have one.

        If another process or a fallback has given the index another embedder in the meantime, nothing is
        attached, because vectors of two embedders must not be mixed.
        """
        embedder_id = _embedder_id(self._connection, embedder)
        known: dict[bytes, tuple[int, bytes | None]] = {}
        unknown: set[bytes] = set()
        for text_hash in {piece.text_hash for piece in pieces}:
            row = self._connection.execute(
                "UPDATE vectors SET used_at = ? WHERE embedder_id = ? AND text_hash = ?"
                " RETURNING id, embedding",
                (now_seconds, embedder_id, text_hash),
            ).fetchone()
            if row is None:
                unknown.add(text_hash)
            else:
                known[text_hash] = (int(row[0]), None if row[1] is None else code_of(row[1]))
        whole = pieces_of_whole_chunks(pieces, known) if is_index_of(self.meta(), embedder) else []
        rows = [(piece.chunk_id, piece.piece, *known[piece.text_hash], piece.chunk_id) for piece in whole]
        self._connection.executemany(
            "INSERT OR IGNORE INTO chunk_vectors (chunk_id, piece, vector_id, code)"
            " SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?)",
            rows,
        )
        return unknown

    def put_vectors(self, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int) -> None:
        # A zero vector is stored as refused, because nothing can be near it. Stored vectors stay, because
        # chunks refer to their rows, which a replacement would delete.
        embedder_id = _embedder_id(self._connection, embedder)
        rows = []
        for text_hash, vector in vectors.items():
            blob = None if vector is None else to_blob(vector)
            rows.append(
                (embedder_id, text_hash, now_seconds, None if blob is None or is_zero(blob) else blob)
            )
        lengths = {len(row[3]) // NUMBER_BYTES for row in rows if row[3] is not None}
        stored_bytes = self._connection.execute(
            "SELECT length(embedding) FROM vectors WHERE embedder_id = ? AND embedding IS NOT NULL LIMIT 1",
            (embedder_id,),
        ).get
        stored = None if stored_bytes is None else stored_bytes // NUMBER_BYTES
        refuse_other_lengths(lengths, stored=stored)
        self._connection.executemany(
            # `sentences` is not filled any more; an empty row stays out of that column's index.
            "INSERT INTO vectors (embedder_id, text_hash, used_at, embedding, sentences)"
            " VALUES (?, ?, ?, ?, x'')"
            " ON CONFLICT (embedder_id, text_hash) DO UPDATE SET used_at = excluded.used_at",
            rows,
        )

    def detach_vectors(self) -> None:
        self._connection.execute("DELETE FROM chunk_vectors")

    def evict(self, *, keep_unused: int | None) -> int:
        # Finding unused ones takes thirty times as long as counting all.
        count = "SELECT count(*) FROM vectors"
        if keep_unused is None or self._connection.execute(count).get <= keep_unused:
            return 0
        self._connection.execute(
            "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE NOT EXISTS"
            " (SELECT 1 FROM chunk_vectors WHERE vector_id = vectors.id)"
            " ORDER BY used_at DESC, id DESC LIMIT -1 OFFSET ?)",
            (keep_unused,),
        )
        return self._connection.changes()


def merge_words(connection: Connection, *, first: bool) -> bool:
    """Runs one step of merging the full-text index, which speeds up queries; whether more remains."""
    before = connection.total_changes()
    pages = -MERGE_PAGES if first else MERGE_PAGES
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes() - before >= 2


def _remove_chunks(connection: Connection, ids: Sequence[int]) -> None:
    each = [(chunk_id,) for chunk_id in ids]
    connection.executemany("DELETE FROM chunk_vectors WHERE chunk_id = ?", each)
    connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", each)
    connection.executemany("DELETE FROM chunks WHERE id = ?", each)


def _chunk_row(chunk_id: int, file_id: int, chunk: Chunk) -> tuple[str | int | None, ...]:
    return (
        chunk_id,
        file_id,
        chunk.ordinal,
        chunk.start_line,
        chunk.end_line,
        _headings(chunk),
        chunk.date.isoformat() if chunk.date else None,
        chunk.content_hash,
        chunk.text,
    )


def _key(chunk: Chunk) -> Hashable:
    return _headings(chunk), chunk.date.isoformat() if chunk.date else None, chunk.content_hash


def _headings(chunk: Chunk) -> str:
    return json.dumps(chunk.heading_path, ensure_ascii=False) if chunk.heading_path else "[]"


def _embedder_id(connection: Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (name,))
    return cast("int", connection.execute("SELECT id FROM embedders WHERE name = ?", (name,)).get)
