"""The store in Postgres: the rows of one agent, in as many processes as there are.

Readers see one moment and wait for nobody. Writers of a build stand in line behind a lock on its row, and
behind whoever is alone with the index. `nacre.postgres` repeats what a lost connection cut off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from nacre.memory.contracts.errors import IndexBusy, IndexClosed, IndexDamaged, IndexUnusable
from nacre.memory.contracts.store import Snapshot, Writer
from nacre.memory.stores.postgres.builds import (
    begin_anew,
    begin_build,
    drop_others,
    forget_hidden,
    identity_text,
    left_behind,
    open_index,
    publish_build,
)
from nacre.memory.stores.postgres.leases import LOOK_AGAIN_SECONDS, WAIT_SECONDS, Lease
from nacre.memory.stores.postgres.reading.moment import Moment, head_of
from nacre.memory.stores.postgres.reading.nearest import VectorReader
from nacre.memory.stores.postgres.reading.snapshot import PostgresSnapshot
from nacre.memory.stores.postgres.reading.tokens import Tokens
from nacre.memory.stores.postgres.reading.words import WordReader
from nacre.memory.stores.postgres.writes import PostgresWriter
from nacre.postgres.errors import DatabaseError, StatementRefused

if TYPE_CHECKING:
    from nacre.postgres.database import Database
    from nacre.postgres.pool import Connection

T = TypeVar("T")
_BUSY = ("55P03", "57014")
"""A lock, or a statement, that took longer than the connection's limits."""
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


class _Held(Exception):
    """Another process is alone with the index."""


class PostgresStore:
    """`Store` (its methods are described there) over an agent's rows. Open it with `PostgresStore.open`.

    It leaves the database open when it is closed: that is of all agents.
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
        self.alone_by = ""

    @classmethod
    async def open(cls, database: Database, agent: str) -> PostgresStore:
        """Opens an agent's index, making it when there is none.

        Raises:
            IndexUnusable: the database cannot be reached, or cannot serve.
        """
        store = cls(database, agent)
        await store.change(partial(open_index, agent=agent))
        return store

    async def search(self, work: Callable[[Snapshot], T]) -> T:
        return await self._answered(lambda: self.database.read(partial(self._read, work)))

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        # One at a time, so that threads are left for who searches.
        async with self._reading:
            return await self.search(work)

    async def write(self, work: Callable[[Writer], T]) -> T:
        return await self.change(partial(self._write, work))

    async def tidy(self) -> None:
        """Nothing: the server tidies by itself."""

    async def begin_rebuild(self, identity: Mapping[str, str]) -> PostgresRebuild:
        lease = await self._building_lease()
        if lease is None:
            raise IndexBusy(
                f"Another process is rebuilding the index of {self.agent!r}; it is used once it is done."
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
            told, chunks, words = counted[0]
            if told == chunks == words:
                return ""
            return f"of {told} chunks {chunks} are there, and {words} for words"

        try:
            return await self._answered(lambda: self.database.read(check))
        except IndexDamaged as error:
            return str(error)

    async def begin_anew(self) -> None:
        """Has an empty index answer in the place of this one."""
        await self.change(partial(begin_anew, agent=self.agent))

    async def close(self) -> None:
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    async def change(self, work: Callable[[Connection], T]) -> T:
        """Runs work in a transaction that writes, when nobody else is alone with the index.

        Raises:
            IndexBusy: somebody was for too long.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return await self._answered(lambda: self.database.write(work))
            except _Held:
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        f"Another process kept the index of {self.agent!r} to itself for more than "
                        f"{WAIT_SECONDS:.0f} seconds. Try again when it is done."
                    ) from None
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def locked_build(self, connection: Connection) -> int:
        """The build that is written, with its lock; raises `_Held` while somebody else is alone with it."""
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

    def _write(self, work: Callable[[Writer], T], connection: Connection) -> T:
        build = self.locked_build(connection)
        writer = PostgresWriter(Moment(connection=connection, agent=self.agent, build=build), self._tokens)
        result = work(writer)
        writer.finish()
        return result

    async def _building_lease(self) -> Lease | None:
        return await self._answered(lambda: Lease.take(self.database, self.agent, "building"))

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the database gives; what it refuses becomes an error of the memory."""
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
    """`Rebuild` (its methods are described there): a second build of the same index."""

    def __init__(self, live: PostgresStore, hidden: PostgresStore, build: int, lease: Lease) -> None:
        self._live = live
        self._hidden = hidden
        self._build = build
        self._lease = lease

    @property
    def store(self) -> PostgresStore:
        return self._hidden

    async def copy_vectors(self) -> None:
        """Nothing: vectors belong to the agent, and every build finds them."""

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

        await self._hidden.close()
        if not await self._live.change(publish):
            raise IndexBusy(f"Another process took over the rebuild of the index of {self._live.agent!r}.")
        await self._live.change(partial(drop_others, agent=self._live.agent))
        await self._lease.release()

    async def leave(self) -> None:
        await self._hidden.close()
        await self._lease.release()
