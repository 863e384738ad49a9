"""Work in a transaction, run on a thread, and again when the connection was lost. Edge.

A server that restarts, fails over or is cut off costs a retry and no word. A commit whose answer was lost is
not guessed at: the next connection is asked what became of that transaction (`pg_xact_status`), so work is
done once, also over a restart in the middle of a commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from nacre.extensions.postgres.server.connections import (
    ConnectionLimits,
    DatabaseUnreachable,
    DatabaseUnusable,
    Life,
    StatementRefused,
    connected,
    is_lost,
    opened_pool,
    reason,
    shown,
)

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection, Pool


_LOCK = 0x6E61637265
"""The number of the lock: `nacre`. Such locks are of one database."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One numbered file of SQL."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells this text from any other."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def packaged_migrations() -> tuple[Migration, ...]:
    """The files of `schema/`, `<number>_<name>.sql`, in order."""
    found = [
        file
        for file in files("nacre.extensions.postgres.server").joinpath("schema").iterdir()
        if file.name[0].isdigit()
    ]
    return tuple(
        Migration(
            number=int(file.name.split("_")[0]),
            name=file.name.removesuffix(".sql"),
            sql=file.read_text(encoding="utf-8"),
        )
        for file in sorted(found, key=lambda file: file.name)
    )


def migrate(connection: Connection, migrations: Sequence[Migration]) -> tuple[str, ...]:
    """Applies what is missing, all of it or nothing; the names of what was applied.

    Raises:
        DatabaseUnusable: a newer program made the tables, or a file that was applied is another one now.
        psycopg.Error: the server refused; nothing was changed.
    """
    if not _missing(_applied(connection), migrations):
        return ()
    with connection.transaction():
        # Before the table is made: two that make it at once would stand in each other's way.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(_TABLE)
        missing = _missing(_applied(connection), migrations)
        for migration in missing:
            connection.execute(migration.sql.encode())
            connection.execute(
                "INSERT INTO nacre_migrations (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    return tuple(migration.name for migration in missing)


def _applied(connection: Connection) -> dict[int, tuple[str, str]]:
    if connection.execute("SELECT to_regclass('nacre_migrations')").fetchone() == (None,):
        return {}
    rows = connection.execute("SELECT number, name, checksum FROM nacre_migrations").fetchall()
    return {number: (name, checksum) for number, name, checksum in rows}


def _missing(applied: Mapping[int, tuple[str, str]], known: Sequence[Migration]) -> list[Migration]:
    numbers = {migration.number for migration in known}
    newer = [name for number, (name, _) in sorted(applied.items()) if number not in numbers]
    if newer:
        raise DatabaseUnusable(
            f"A newer Nacre made the tables of this database ({newer[-1]} is not known here). "
            "Use that version; nothing was changed."
        )
    for migration in known:
        name, checksum = applied.get(migration.number, ("", migration.checksum))
        if checksum != migration.checksum:
            raise DatabaseUnusable(
                f"The database was made with another text of {name} than this program has. Use the "
                "version of Nacre that made it; nothing was changed."
            )
    return [migration for migration in known if migration.number not in applied]


FIRST_CONNECTION_SECONDS = 5.0
"""A program that starts says soon that there is no server; one that runs waits for it to come back."""
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN; SELECT pg_current_xact_id()::text, now()"
_SINGLE = ""
_STATUS = """
SELECT pg_xact_status(%(number)s::text::xid8),
    greatest(pg_postmaster_start_time(), checkpoint_time) > %(began_at)s AND
    %(number)s::text::bigint
        >= split_part(next_xid, ':', 1)::bigint * 4294967296 + split_part(next_xid, ':', 2)::bigint
FROM pg_control_checkpoint()
"""

T = TypeVar("T")


class Database:
    """A database by its url. The first work connects and brings the tables to the newest version.

    Work is a plain function of a connection, which it neither commits nor keeps. It may be run again from its
    beginning, so it changes nothing but the database. No transaction is open before it begins or after it.
    """

    def __init__(
        self,
        url: str,
        *,
        limits: ConnectionLimits | None = None,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        self._url = url
        self._limits = limits or ConnectionLimits()
        self._migrations = migrations
        self.life = Life(url, self._limits)
        """That this process lives, for others who take over what it left."""
        self._opening = threading.Lock()
        self._handing = threading.Lock()  # who closes may be on another event loop than who asks
        self._pool: Pool | None = None
        self._threads: ThreadPoolExecutor | None = None

    @cached_property
    def place(self) -> str:
        """Which database it is, for people; without a password."""
        return shown(self._url)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads, all of it of one moment.

        Raises:
            DatabaseUnreachable: no connection for `retry_seconds`.
            DatabaseUnusable: the tables are of a newer program, or psycopg is missing.
            StatementRefused: the server refused a statement.
        """
        return await self._on_a_thread(lambda: self._tried(work, _READ))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, whose changes are committed once, or not at all when it raises.

        Cancelling the call waits until the work is done. Raises as `read`.
        """
        return await self._on_a_thread(lambda: self._tried(work, _WRITE))

    async def single(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` that is one statement: a round trip, where `read` and `write` take three.

        The statement is a transaction of its own. Where its answer was lost it is run again, so it only
        reads, or does nothing new the second time. Raises as `read`.
        """
        return await self._on_a_thread(lambda: self._tried(work, _SINGLE))

    async def close(self) -> None:
        """Finishes what was asked for and closes the connections; who asks afterwards opens new ones."""
        with self._handing:
            threads, self._threads = self._threads, None

        def close() -> None:
            self.life.close()
            if threads is not None:
                threads.shutdown()
            with self._opening:
                pool, self._pool = self._pool, None
            if pool is not None:
                pool.close()

        await asyncio.to_thread(close)

    def __del__(self) -> None:
        if (life := getattr(self, "life", None)) is not None:
            life.close()
        if (threads := getattr(self, "_threads", None)) is not None:
            threads.shutdown(wait=False)
        if (pool := getattr(self, "_pool", None)) is not None:
            pool.close(timeout=0)

    async def _on_a_thread(self, work: Callable[[], T]) -> T:
        run = copy_context().run
        with self._handing:
            if self._threads is None:
                # As many as connections: who waits for a connection waits in the line of the threads.
                self._threads = ThreadPoolExecutor(
                    self._limits.most_connections, thread_name_prefix="postgres"
                )
            asked = asyncio.get_running_loop().run_in_executor(self._threads, run, work)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await asyncio.wait({asked})
            if asked.done() and not asked.cancelled():
                asked.exception()
            raise

    def _tried(self, work: Callable[[Connection], T], begin: str) -> T:
        attempt = _Attempt(work, begin)
        began = time.monotonic()
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            left_seconds = self._limits.retry_seconds - (time.monotonic() - began)
            try:
                with self._ready().connection(timeout=max(0.1, left_seconds)) as connection:
                    return attempt.run(connection)
            except Exception as error:  # noqa: BLE001 - raised again, unless another try may mend it
                self._raise_unless_passing(error, left_seconds)
            if self._pool is not None:
                self._pool.check()  # others that lie there are gone as well
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    def _raise_unless_passing(self, error: Exception, left_seconds: float) -> None:
        """Raises what no other try would mend, as a sentence if it is the database's."""
        if isinstance(error, DatabaseUnusable):  # without psycopg nothing of it can be asked
            raise error
        import psycopg
        from psycopg_pool import PoolTimeout

        if isinstance(error, DatabaseUnreachable):  # no connection was made so far
            if left_seconds <= max(0.0, self._limits.retry_seconds - FIRST_CONNECTION_SECONDS):
                raise error
        elif not isinstance(error, psycopg.Error):
            raise error
        elif isinstance(error, PoolTimeout) or (is_lost(error) and left_seconds <= 0):
            raise DatabaseUnreachable(
                f"{self.place} could not be reached for {self._limits.retry_seconds:.0f} seconds: "
                f"{reason(error)}. What was to be written may be tried again."
            ) from error
        elif not is_lost(error):
            raise StatementRefused(
                f"{self.place} refused: {reason(error)}. Nothing of that was written.",
                sqlstate=error.sqlstate or "",
            ) from error

    def _ready(self) -> Pool:
        with self._opening:
            if self._pool is None:
                # A connection of its own: what is wrong is told at once, and with the server's words.
                with connected(self._url, self._limits) as connection:
                    known = packaged_migrations() if self._migrations is None else self._migrations
                    migrate(connection, known)
                self._pool = opened_pool(self._url, self._limits)
            return self._pool


class _Attempt(Generic[T]):
    """One piece of work over as many connections as it takes."""

    def __init__(self, work: Callable[[Connection], T], begin: str) -> None:
        self._work = work
        self._begin = begin
        self._unsure: tuple[_Transaction, T] | None = None
        """The transaction whose commit was not answered, and what its work gave."""

    def run(self, connection: Connection) -> T:
        """The work's result, committed; raises what it raised, with everything taken back."""
        if self._unsure is not None:
            unsure, result = self._unsure
            if _was_committed(connection, unsure):
                return result
            self._unsure = None
        if self._begin == _SINGLE:
            with _other_server_if_read_only(connection):
                return self._work(connection)
        transaction = self._begun(connection)
        try:
            result = self._work(connection)
        except BaseException:
            with suppress(Exception):  # a connection that is gone has taken it back itself
                connection.execute("ROLLBACK")
            raise
        if transaction:
            self._unsure = (transaction, result)
        if connection.execute("COMMIT").statusmessage != "COMMIT":
            raise RuntimeError("work went on behind a statement that was refused; nothing of it was written")
        return result

    def _begun(self, connection: Connection) -> _Transaction | None:
        """Begins; which transaction it is if it may write."""
        with _other_server_if_read_only(connection):
            cursor = connection.execute(self._begin)
        row = cursor.fetchone() if cursor.nextset() else None
        return _Transaction(*row) if row else None


@contextmanager
def _other_server_if_read_only(connection: Connection) -> Iterator[None]:
    """Gives up a connection to a server that one can only read from: a new one may find the other."""
    import psycopg

    try:
        yield
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.ReadOnlySqlTransaction) as error:
        connection.close()
        raise psycopg.OperationalError(str(error)) from error


class _Transaction(NamedTuple):
    """The number that the server gave a transaction, and when it began by the server's clock."""

    number: str
    began_at: datetime


def _was_committed(connection: Connection, transaction: _Transaction) -> bool:
    """Whether a transaction was committed; waits for one that the server is still at.

    One that the server does not know was of a server that failed over without it. A server that crashed may
    give numbers again that it never wrote down: one that was not given yet at a checkpoint after its
    transaction began is somebody else's by now.
    """
    import psycopg

    while True:
        try:
            row = connection.execute(_STATUS, transaction._asdict()).fetchone()
        except psycopg.errors.InvalidParameterValue:
            return False
        if row is None or row[0] != "in progress":
            return row is not None and row[0] == "committed" and not row[1]
        time.sleep(FIRST_PAUSE_SECONDS)


_OPENING = threading.Lock()
_OPENED: WeakValueDictionary[str, Database] = WeakValueDictionary()
"""Not kept alive by this: what nobody has any more is let go of."""


def shared_database(url: str) -> Database:
    """The database of this url that others of this process have, or a new one; touches nothing yet.

    Whoever is done may close it: the others connect again when they ask something.
    """
    with _OPENING:
        database = _OPENED.get(url)
        if database is None:
            database = _OPENED[url] = Database(url)
        return database
