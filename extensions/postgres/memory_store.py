"""The index store in PostgreSQL: the rows of one agent, for any number of processes.

Readers see a snapshot and never wait. Writers of a build wait for a lock on its row, and for a process that
holds the index exclusively. `Database` repeats transactions after a lost connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, LiteralString, TypeAlias, TypeVar

from nacre.extensions.postgres.memory_reading import (
    EMBEDDER_IN_USE,
    INDEXED_FROM,
    MOST_INDEXED_DIMENSIONS,
    PostgresSnapshot,
    VectorReader,
    near_index,
    of_index,
)
from nacre.extensions.postgres.memory_words import ANALYSIS, BUILD_TABLES, Moment, Tokens, WordReader, head_of
from nacre.extensions.postgres.memory_writing import PostgresWriter
from nacre.extensions.postgres.server.connections import (
    ANSWER_SECONDS,
    DatabaseError,
    StatementRefused,
    is_pooled,
)
from nacre.memory.contracts.errors import IndexBusy, IndexClosed, IndexDamaged, IndexUnusable
from nacre.memory.contracts.store import Snapshot, Writer

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection
    from nacre.extensions.postgres.server.database import Database


log = logging.getLogger(__name__)

ID_STEP = 1 << 32
"""The distance between the first ids of two builds, so that no id ever identifies two chunks."""

_OPEN = "INSERT INTO memory_indexes (agent) VALUES (%(agent)s) ON CONFLICT DO NOTHING"
_ADD_BUILD = """
INSERT INTO memory_builds (agent, build, next_chunk) VALUES (%(agent)s, %(build)s, %(next_chunk)s)
ON CONFLICT DO NOTHING
"""
_INDEX = "SELECT live, hidden, hidden_for FROM memory_indexes WHERE agent = %(agent)s FOR UPDATE"
_NEXT_CHUNK = "SELECT max(next_chunk) FROM memory_builds WHERE agent = %(agent)s"
_HIDE = "UPDATE memory_indexes SET hidden = %(build)s, hidden_for = %(hidden_for)s WHERE agent = %(agent)s"
_PUBLISH = """
UPDATE memory_indexes SET live = hidden, hidden = NULL, hidden_for = NULL
WHERE agent = %(agent)s AND hidden = %(build)s AND building_by = %(holder)s
"""
_ANSWER = (
    "UPDATE memory_indexes SET live = %(build)s, hidden = NULL, hidden_for = NULL WHERE agent = %(agent)s"
)
_OTHERS: LiteralString = "DELETE FROM {table} WHERE agent = %(agent)s AND build <> ALL(%(kept)s)"
_LEFT = """
SELECT hidden_for, EXISTS (
    SELECT 1 FROM memory_builds WHERE memory_builds.agent = %(agent)s AND build <> live
) FROM memory_indexes WHERE memory_indexes.agent = %(agent)s
"""


def open_index(connection: Connection, agent: str) -> None:
    """Creates the row of an agent's index and its first build, if they do not exist."""
    if connection.execute(_OPEN, {"agent": agent}).rowcount:
        connection.execute(_ADD_BUILD, {"agent": agent, "build": 1, "next_chunk": 1})


def begin_build(connection: Connection, agent: str, identity: Mapping[str, str]) -> int:
    """The number of the unfinished build for this identity, or of a new one; other builds are dropped."""
    live, hidden, hidden_for = _index(connection, agent)
    if hidden is not None and hidden_for == identity_text(identity):
        return int(hidden)
    build = _added(connection, agent, max(live, hidden or 0) + 1)
    values = {"agent": agent, "build": build, "hidden_for": identity_text(identity)}
    connection.execute(_HIDE, values)
    drop_others(connection, agent)
    return build


def begin_anew(connection: Connection, agent: str) -> None:
    """Makes an empty build live and drops all others."""
    live, hidden, _ = _index(connection, agent)
    build = _added(connection, agent, max(live, hidden or 0) + 1)
    connection.execute(_ANSWER, {"agent": agent, "build": build})
    drop_others(connection, agent)


def publish_build(connection: Connection, agent: str, build: int, holder: str) -> bool:
    """Makes a hidden build live; returns whether this holder still owned it."""
    values = {"agent": agent, "build": build, "holder": holder}
    return bool(connection.execute(_PUBLISH, values).rowcount)


def forget_hidden(connection: Connection, agent: str) -> None:
    """Drops every build except the live one."""
    connection.execute(_HIDE, {"agent": agent, "build": None, "hidden_for": None})
    drop_others(connection, agent)


def drop_others(connection: Connection, agent: str) -> None:
    """Deletes the rows of builds that are neither live nor being filled."""
    live, hidden, _ = _index(connection, agent)
    kept = [live] if hidden is None else [live, hidden]
    for table in BUILD_TABLES:
        connection.execute(_OTHERS.replace("{table}", table), {"agent": agent, "kept": kept})


def left_behind(connection: Connection, agent: str) -> tuple[str | None, bool]:
    """The identity of the hidden build, and whether there are rows of builds that are not live."""
    row = connection.execute(_LEFT, {"agent": agent}).fetchone()
    return (None, False) if row is None else (row[0], bool(row[1]))


def identity_text(identity: Mapping[str, str]) -> str:
    """An identity as it is stored in a hidden build's row."""
    return json.dumps(identity, sort_keys=True)


def _added(connection: Connection, agent: str, build: int) -> int:
    row = connection.execute(_NEXT_CHUNK, {"agent": agent}).fetchone()
    last = row[0] if row and row[0] is not None else 1
    connection.execute(_ADD_BUILD, {"agent": agent, "build": build, "next_chunk": last + ID_STEP})
    return build


def _index(connection: Connection, agent: str) -> tuple[Any, ...]:
    row = connection.execute(_INDEX, {"agent": agent}).fetchone()
    return row if row is not None else (1, None, None)


LEASE_SECONDS = 60
RENEW_SECONDS = 15.0
WAIT_SECONDS = 30.0
"""The longest wait of a writer for another process's lease."""
LOOK_AGAIN_SECONDS = 0.05

Kind: TypeAlias = Literal["building", "alone"]
_TAKE: LiteralString = """
UPDATE memory_indexes SET {kind}_by = gen_random_uuid()::text,
    {kind}_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND ({kind}_by IS NULL OR {kind}_until < clock_timestamp()) RETURNING {kind}_by
"""
_RENEW: LiteralString = """
UPDATE memory_indexes SET {kind}_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND {kind}_by = %(holder)s
"""
_LET_GO: LiteralString = """
UPDATE memory_indexes SET {kind}_by = NULL, {kind}_until = NULL
WHERE agent = %(agent)s AND {kind}_by = %(holder)s
"""


class Lease:
    """A held lease. Created by `take`; call `release`."""

    def __init__(self, database: Database, agent: str, kind: Kind, holder: str) -> None:
        self._database = database
        self._values = {"agent": agent, "holder": holder, "seconds": LEASE_SECONDS}
        self._kind: Kind = kind
        self.holder = holder
        self._renewing = asyncio.create_task(self._renew(), name=f"memory-{kind}")

    @classmethod
    async def take(
        cls, database: Database, agent: str, kind: Kind, *, wait_seconds: float = 0.0
    ) -> Lease | None:
        """Takes the lease; `None` if another process held it until the timeout."""
        values = {"agent": agent, "seconds": LEASE_SECONDS}

        def take(connection: Connection) -> str | None:
            row = connection.execute(_TAKE.replace("{kind}", kind), values).fetchone()
            return None if row is None else str(row[0])

        deadline = time.monotonic() + wait_seconds
        while (holder := await database.write(take)) is None:
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return cls(database, agent, kind, holder)

    async def release(self) -> None:
        """Releases the lease. May be called twice."""
        self._renewing.cancel()
        await asyncio.wait({self._renewing})
        await self._run(_LET_GO)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            # The next attempt may reach the server; users of the lease check whether it is still held.
            with suppress(DatabaseError):
                await self._run(_RENEW)

    async def _run(self, sql: LiteralString) -> None:
        statement = sql.replace("{kind}", self._kind)
        await self._database.write(lambda connection: connection.execute(statement, self._values) and None)


T = TypeVar("T")
_BUSY = ("55P03", "57014")
"""SQLSTATEs of a lock or a statement that exceeded the connection's limits."""
_DAMAGED = ("XX001", "XX002")
_LOCK_LIVE = """
SELECT live, alone_by IS NOT NULL AND alone_by <> %(holder)s AND alone_until > clock_timestamp()
FROM memory_indexes WHERE agent = %(agent)s FOR UPDATE
"""
_LOCK_HIDDEN = (
    "SELECT build, false FROM memory_builds WHERE agent = %(agent)s AND build = %(build)s FOR UPDATE"
)
_CHECK = """
SELECT chunks,
    (SELECT count(*) FROM memory_chunks WHERE agent = %(agent)s AND build = %(build)s),
    (SELECT count(*) FROM memory_words WHERE agent = %(agent)s AND build = %(build)s AND length(words) >= 0)
FROM memory_builds WHERE agent = %(agent)s AND build = %(build)s
"""


LOOK_FOR_SIZE_SECONDS = 60.0
"""How often a store that receives vectors checks whether it needs an index."""
INDEX_SECONDS = 3600.0
"""The time limit for creating an index."""
_MAY_INDEX: LiteralString = """
SELECT count(*) >= %(least)s AND EXISTS (SELECT FROM pg_opclass WHERE opcname = 'halfvec_ip_ops') FROM (
    SELECT FROM memory_chunk_vectors WHERE agent = %(agent)s AND build = %(build)s LIMIT %(least)s
) AS few
"""
"""Whether a build has enough vectors for an index, and whether pgvector can make it (0.7 or newer)."""
_NEAR_INDEXES = """
SELECT relname::text, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = current_schema()::regnamespace AND (starts_with(relname::text, %(before)s)
    OR starts_with(relname::text, %(prefix)s) AND (relname = %(wanted)s OR NOT EXISTS (
        SELECT FROM memory_builds AS builds CROSS JOIN LATERAL (
            SELECT vector_id FROM memory_chunk_vectors AS attached WHERE attached.agent = %(agent)s
                AND attached.build = builds.build AND code IS NOT NULL LIMIT 1
        ) AS attached JOIN memory_vectors AS vectors ON vectors.agent = %(agent)s AND vectors.id = vector_id
        WHERE builds.agent = %(agent)s AND starts_with(relname::text, %(prefix)s || embedder_id || '_'))))
"""
"""The wanted index, those of embedders that no build uses, and those over codes of an earlier version."""
_ALONE = "SELECT pg_try_advisory_lock(hashtextextended(%(wanted)s, 8))"
_NOT_ALONE = "SELECT pg_advisory_unlock(hashtextextended(%(wanted)s, 8))"
_INDEX_VECTORS: LiteralString = """
CREATE INDEX CONCURRENTLY "{index}" ON memory_vectors
USING hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops)
WHERE agent = {agent} AND embedder_id = {embedder} AND vector_dims(embedding) = {dimensions}
"""
"""A partial index for one agent: a search in a common index would visit other agents' rows."""


class _Held(Exception):
    """Another process holds the index exclusively."""


class PostgresStore:
    """Implements `Store` over an agent's rows. Open it with `PostgresStore.open`.

    Closing it leaves the database open, because agents share it.
    """

    def __init__(self, database: Database, agent: str, *, build: int | None = None) -> None:
        self.database = database
        self.agent = agent
        self._build = build
        self._tokens = Tokens(agent)
        self._words = WordReader()
        self._vectors = VectorReader()
        self._reading = asyncio.Semaphore(1)
        self._running: set[asyncio.Future[None]] = set()
        self._closed = False
        self._looked_at = -LOOK_FOR_SIZE_SECONDS
        self.alone_by = ""

    @classmethod
    async def open(cls, database: Database, agent: str) -> PostgresStore:
        """Opens or creates an agent's index.

        Raises:
            IndexUnusable: the database cannot be reached or used.
        """
        store = cls(database, agent)
        await store.change(partial(open_index, agent=agent))
        return store

    async def search(self, work: Callable[[Snapshot], T]) -> T:
        return await self._answered(lambda: self.database.read(partial(self._read, work)))

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        # One at a time, which leaves threads for searches.
        async with self._reading:
            return await self.search(work)

    async def write(self, work: Callable[[Writer], T]) -> T:
        result, has_attached = await self.change(partial(self._write, work))
        if has_attached and time.monotonic() - self._looked_at > LOOK_FOR_SIZE_SECONDS:
            await self.tidy()
        return result

    async def tidy(self) -> None:
        """Creates the index over the vectors of a large build, and drops those that no build uses.

        Searches and other agents' writes continue. If the server or the role cannot create an index, searches
        stay slow.
        """
        self._looked_at = time.monotonic()
        try:
            await self._answered(lambda: self.database.single(self._index_vectors))
        except IndexUnusable as error:
            log.warning("The index over the vectors of %r was not created: %s", self.agent, error)

    async def begin_rebuild(self, identity: Mapping[str, str]) -> PostgresRebuild:
        lease = await self._building_lease()
        if lease is None:
            raise IndexBusy(
                f"Another process is rebuilding the index of {self.agent!r}. It is used when it is complete."
            )
        try:
            build = await self.change(partial(begin_build, agent=self.agent, identity=identity))
        except BaseException:
            await lease.release()
            raise
        return PostgresRebuild(self, PostgresStore(self.database, self.agent, build=build), build, lease)

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        hidden_for, is_any = await self._answered(
            lambda: self.database.read(partial(left_behind, agent=self.agent))
        )
        lease = await self._building_lease() if is_any else None
        if lease is None:
            return False
        try:
            if hidden_for == identity_text(identity):
                return True
            await self.change(partial(forget_hidden, agent=self.agent))
            return False
        finally:
            await lease.release()

    async def check(self) -> str:
        def check(connection: Connection) -> str:
            head = head_of(connection, self.agent, self._build)
            moment = Moment(connection=connection, agent=self.agent, build=head.build)
            counted = moment.rows(_CHECK)
            if not counted:
                return f"the index of {self.agent!r} has no row of its own"
            expected, chunks, words = counted[0]
            if expected == chunks == words:
                return ""
            return f"of {expected} chunks {chunks} exist, and {words} have their words"

        try:
            return await self._answered(lambda: self.database.read(check))
        except IndexDamaged as error:
            return str(error)

    async def begin_anew(self) -> None:
        """Replaces this index with an empty one."""
        await self.change(partial(begin_anew, agent=self.agent))

    async def close(self) -> None:
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    async def change(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in a write transaction, once no other process holds the index exclusively.

        Raises:
            IndexBusy: another process held the index for too long.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return await self._answered(lambda: self.database.write(work))
            except _Held:
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        f"Another process locked the index of {self.agent!r} for more than "
                        f"{WAIT_SECONDS:.0f} seconds. Try again later."
                    ) from None
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def locked_build(self, connection: Connection) -> int:
        """Locks and returns the build; raises `_Held` while another process holds the index exclusively."""
        values = {"agent": self.agent, "build": self._build, "holder": self.alone_by}
        row = connection.execute(_LOCK_LIVE if self._build is None else _LOCK_HIDDEN, values).fetchone()
        if row is None:
            raise IndexUnusable(f"The index of {self.agent!r} was deleted while it was open. Open it again.")
        if row[1]:
            raise _Held
        return int(row[0])

    def _read(self, work: Callable[[Snapshot], T], connection: Connection) -> T:
        head = head_of(connection, self.agent, self._build)
        moment = Moment(connection=connection, agent=self.agent, build=head.build)
        return work(PostgresSnapshot(moment, head, self._words, self._vectors, self._tokens))

    def _index_vectors(self, connection: Connection) -> None:
        build = head_of(connection, self.agent, self._build).build
        moment = Moment(connection=connection, agent=self.agent, build=build)
        prefix, wanted, used = near_index(self.agent), "", moment.rows(EMBEDDER_IN_USE)
        if used and used[0][1] <= MOST_INDEXED_DIMENSIONS and moment.value(_MAY_INDEX, least=INDEXED_FROM):
            wanted = of_index(moment, "{index}", *used[0])
        before = prefix.replace("nearest", "near")
        made = moment.rows(_NEAR_INDEXES, before=before, prefix=prefix, wanted=wanted)
        due = wanted and (wanted, True) not in made
        gone = [name for name, is_valid in made if name != wanted or not is_valid]
        if (not due and not gone) or is_pooled(connection) or not moment.value(_ALONE, wanted=prefix):
            return
        limit_seconds, connection.answer_seconds = connection.answer_seconds, INDEX_SECONDS
        try:
            connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
            for name in gone:
                connection.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'.encode())
            if due:
                connection.execute(of_index(moment, _INDEX_VECTORS, *used[0]).encode())
        finally:
            connection.answer_seconds = limit_seconds
            with suppress(Exception):  # a lost connection has no limits or locks
                ms = int((limit_seconds - ANSWER_SECONDS) * 1000)
                connection.execute(f"SET statement_timeout = {ms}; SET lock_timeout = {ms}".encode())
                moment.value(_NOT_ALONE, wanted=prefix)

    def _write(self, work: Callable[[Writer], T], connection: Connection) -> tuple[T, bool]:
        build = self.locked_build(connection)
        writer = PostgresWriter(Moment(connection=connection, agent=self.agent, build=build), self._tokens)
        result = work(writer)
        writer.finish()
        return result, writer.has_attached

    async def _building_lease(self) -> Lease | None:
        return await self._answered(lambda: Lease.take(self.database, self.agent, "building"))

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Runs a database call; its errors become `MemoryIndexError`s."""
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            if self._closed:
                raise IndexClosed(f"The memory index of {self.agent!r} is closed.")
            return await ask()
        except StatementRefused as error:
            kind = IndexDamaged if error.sqlstate in _DAMAGED else IndexUnusable
            raise (IndexBusy if error.sqlstate in _BUSY else kind)(str(error)) from error
        except DatabaseError as error:
            raise IndexUnusable(str(error)) from error
        finally:
            self._running.discard(running)
            running.set_result(None)


class PostgresRebuild:
    """Implements `Rebuild` as a second build of the same index."""

    def __init__(self, live: PostgresStore, hidden: PostgresStore, build: int, lease: Lease) -> None:
        self._live = live
        self.store = hidden
        self._build = build
        self._lease = lease

    async def copy_vectors(self) -> None:
        """Does nothing: all builds of an agent share its vectors."""

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        live = self._live
        lease = await Lease.take(live.database, live.agent, "alone", wait_seconds=WAIT_SECONDS)
        if lease is None:
            raise IndexBusy(f"Another process kept the index of {live.agent!r} locked.")
        live.alone_by = lease.holder
        try:
            yield
        finally:
            live.alone_by = ""
            await lease.release()

    async def publish(self) -> None:
        def publish(connection: Connection) -> bool:
            self._live.locked_build(connection)
            return publish_build(connection, self._live.agent, self._build, self._lease.holder)

        await self.store.close()
        if not await self._live.change(publish):
            raise IndexBusy(f"Another process took over the rebuild of the index of {self._live.agent!r}.")
        await self._live.change(partial(drop_others, agent=self._live.agent))
        await self._lease.release()

    async def leave(self) -> None:
        await self.store.close()
        await self._lease.release()


class PostgresIndexPlace:
    """Implements `IndexPlace` for one agent. Closing it closes the database."""

    def __init__(self, database: Database, agent: str) -> None:
        self._database = database
        self._agent = agent
        self.close = database.close

    @property
    def name(self) -> str:
        return f"{self._database.place}, agent {self._agent!r}"

    @property
    def analysis(self) -> str:
        return ANALYSIS

    async def open(self) -> PostgresStore:
        try:
            return await PostgresStore.open(self._database, self._agent)
        except BaseException:
            await self._database.close()
            raise

    async def replace_damaged(self) -> PostgresStore:
        store = await self.open()
        if problem := await store.check():
            await store.begin_anew()
            log.warning("The memory index of %r is damaged (%s). It is built again.", self._agent, problem)
        return store

    def quarantined(self) -> tuple[str, ...]:
        """Does nothing: a damaged index is not kept, because it is rebuilt."""
        return ()
