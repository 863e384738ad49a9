"""Work in a transaction, run on a thread, and again when the connection was lost. Edge.

A server that restarts, fails over or is cut off costs a retry and no word. A commit whose answer was lost is
not guessed at: the next connection is asked what became of that transaction (`pg_xact_status`), so work is
done once, also over a restart in the middle of a commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from nacre.extensions.postgres.server.connections import (
    STATEMENT_SECONDS,
    ConnectionLimits,
    DatabaseError,
    DatabaseUnreachable,
    DatabaseUnusable,
    StatementRefused,
    connected,
    is_lost,
    is_pooled,
    is_refused_for_now,
    opened_pool,
    reason,
    shown,
)

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection, Pool


log = logging.getLogger(__name__)

_LOCK = 0x6E61637265
"""The number of the lock: `nacre`. Such locks are of one database."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
ALTER TABLE nacre_migrations ADD COLUMN IF NOT EXISTS is_breaking BOOLEAN NOT NULL DEFAULT FALSE
"""
_BREAKING = "-- Breaks programs of an older version"
"""How a file begins behind which no program may work that does not know it. Others only add something."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One numbered file of SQL."""

    number: int
    name: str
    sql: str

    @property
    def is_breaking(self) -> bool:
        """Whether programs that do not know it have to end."""
        return self.sql.startswith(_BREAKING)

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

    A program works with the tables of a newer one, unless that says that they are no good for it.

    Raises:
        DatabaseUnusable: a newer program made the tables otherwise, or a file that was applied is another one
            now.
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
                "INSERT INTO nacre_migrations (number, name, checksum, is_breaking) VALUES (%s, %s, %s, %s)",
                (migration.number, migration.name, migration.checksum, migration.is_breaking),
            )
    return tuple(migration.name for migration in missing)


def _applied(connection: Connection) -> dict[int, tuple[str, str, bool]]:
    if connection.execute("SELECT to_regclass('nacre_migrations')").fetchone() == (None,):
        return {}
    # Tables of an older version have no such column.
    query = "SELECT number, name, checksum, to_jsonb(found) -> 'is_breaking' FROM nacre_migrations AS found"
    return {
        number: (name, checksum, bool(breaks)) for number, name, checksum, breaks in connection.execute(query)
    }


def _missing(applied: Mapping[int, tuple[str, str, bool]], known: Sequence[Migration]) -> list[Migration]:
    numbers = {migration.number for migration in known}
    newer = [
        name for number, (name, _, breaks) in sorted(applied.items()) if breaks and number not in numbers
    ]
    if newer:
        raise DatabaseUnusable(
            f"A newer Nacre made the tables of this database ({newer[-1]} is not known here). "
            "Use that version; nothing was changed."
        )
    for migration in known:
        name, checksum, _ = applied.get(migration.number, ("", migration.checksum, False))
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
        pace: Pace | None = None,
    ) -> None:
        self._url = url
        self._limits = limits or ConnectionLimits()
        self._migrations = migrations
        self.process = Process(self, pace or Pace())
        """This process, for others who take over what it left."""
        self._opening = threading.Lock()
        self._handing = threading.Lock()  # who closes may be on another event loop than who asks
        self._pool: Pool | None = None
        self._threads: ThreadPoolExecutor | None = None

    @cached_property
    def place(self) -> str:
        """Which database it is, for people; without a password."""
        return shown(self._url)

    def notifications(self, heard: Callable[[str], None]) -> Notifications:
        """Calls `heard` with what the database announces about turns. Close it."""
        return Notifications(self._url, self._limits, heard)

    async def read(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """What `work` reads, all of it of one moment.

        Where `is_patient`, it waits until the database can be reached and accepts the work.

        Raises:
            DatabaseUnreachable: no connection for `retry_seconds`.
            DatabaseUnusable: the tables are of a newer program, or psycopg is missing.
            StatementRefused: the server refused a statement.
        """
        return await self._done(_Attempt(work, _READ), is_patient=is_patient)

    async def write(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """The result of `work`, whose changes are committed once, or not at all when it raises.

        Cancelling the call waits until an attempt that has begun is done. Raises as `read`.
        """
        return await self._done(_Attempt(work, _WRITE), is_patient=is_patient)

    async def single(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """The result of `work` that is one statement: a round trip, where `read` and `write` take three.

        The statement is a transaction of its own. Where its answer was lost it is run again, so it only
        reads, or does nothing new the second time. Raises as `read`.
        """
        return await self._done(_Attempt(work, _SINGLE), is_patient=is_patient)

    async def close(self) -> None:
        """Finishes what was asked for and closes the connections; who asks afterwards opens new ones."""
        with self._handing:
            threads, self._threads = self._threads, None

        def close() -> None:
            if threads is not None:
                threads.shutdown()
            with self._opening:
                pool, self._pool = self._pool, None
            if pool is not None:
                pool.close()

        await asyncio.to_thread(close)

    def __del__(self) -> None:
        if (threads := getattr(self, "_threads", None)) is not None:
            threads.shutdown(wait=False)
        if (pool := getattr(self, "_pool", None)) is not None:
            pool.close(timeout=0)

    async def _done(self, attempt: _Attempt[T], *, is_patient: bool) -> T:
        """The result of an attempt, made again while that may help."""
        began, pause_seconds = time.monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._on_a_thread(attempt)
            except Exception as error:  # noqa: BLE001 - raised again, unless another try may mend it
                self._raise_unless_passing(error, time.monotonic() - began, is_patient=is_patient)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _on_a_thread(self, attempt: _Attempt[T]) -> T:
        run = copy_context().run
        with self._handing:
            if self._threads is None:
                # As many as connections: who waits for a connection waits in the line of the threads.
                self._threads = ThreadPoolExecutor(
                    self._limits.most_connections, thread_name_prefix="postgres"
                )
            begun = self._threads.submit(run, self._tried, attempt)
        asked = asyncio.wrap_future(begun)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if not begun.cancel():  # it has begun, and its end is waited for
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({asked})
                if asked.done() and not asked.cancelled():
                    asked.exception()
            raise

    def _tried(self, attempt: _Attempt[T]) -> T:
        seconds = min(FIRST_CONNECTION_SECONDS, max(0.1, self._limits.retry_seconds))
        try:
            with self._ready().connection(timeout=seconds) as connection:
                return attempt.run(connection)
        except Exception as error:
            if self._pool is not None and not isinstance(error, DatabaseError) and is_lost(error):
                self._pool.check()  # others that lie there are gone as well
            raise

    def _raise_unless_passing(self, error: Exception, seconds: float, *, is_patient: bool) -> None:
        """Raises what no other try would mend after `seconds`, as a sentence if it is the database's."""
        if isinstance(error, DatabaseUnusable):  # without psycopg nothing of it can be asked
            raise error
        import psycopg
        from psycopg_pool import PoolTimeout

        is_over = seconds >= self._limits.retry_seconds and not is_patient
        if isinstance(error, DatabaseUnreachable):  # no connection was made so far
            if is_over or (seconds >= FIRST_CONNECTION_SECONDS and not is_patient):
                raise error
        elif not isinstance(error, psycopg.Error):
            raise error
        elif isinstance(error, PoolTimeout) or is_lost(error):
            if is_over:
                raise DatabaseUnreachable(
                    f"{self.place} could not be reached for {self._limits.retry_seconds:.0f} seconds: "
                    f"{reason(error)}. What was to be written may be tried again."
                ) from error
        elif is_patient and is_refused_for_now(error):
            log.warning("%s refused, and is asked again: %s", self.place, reason(error))
        else:
            raise StatementRefused(
                f"{self.place} refused: {reason(error)}. Nothing of that was written.",
                sqlstate=error.sqlstate or "",
            ) from error

    def _migrate(self, connection: Connection, known: Sequence[Migration]) -> None:
        import psycopg

        try:
            migrate(connection, known)
        except psycopg.Error as error:
            if "extension" not in reason(error):
                raise
            raise DatabaseUnusable(
                f"{self.place} refused: {reason(error)}. It needs pgvector: install it on the server, and "
                "let an administrator of the database run `CREATE EXTENSION vector` there once."
            ) from error

    def _ready(self) -> Pool:
        with self._opening:
            if self._pool is None:
                # A connection of its own: what is wrong is told at once, and with the server's words.
                with connected(self._url, self._limits) as connection:
                    known = packaged_migrations() if self._migrations is None else self._migrations
                    self._migrate(connection, known)
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


_BEAT = """
WITH gone AS (DELETE FROM processes WHERE alive_until < clock_timestamp() - interval '1 hour')
INSERT INTO processes (number, places, alive_until)
VALUES (%(number)s, %(places)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (number) DO UPDATE SET places = EXCLUDED.places, alive_until = EXCLUDED.alive_until
"""
_LEAVE = "UPDATE processes SET alive_until = '-infinity' WHERE number = %(number)s"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a process says that it is alive, and after how long a silence what it holds is free."""

    beat_seconds: float = 2.5
    silent_seconds: float = 9.0


class TakenLane(NamedTuple):
    """A lane with its fence, and what was read as it was taken: the session's line, and the row of the
    transcript that it names."""

    fence: int
    line: str | None
    name: str | None
    id: object
    lines: int | None
    size_bytes: int | None


class LeftLanes:
    """The lanes that a turn left, to be freed by the statement that says how it ended.

    Until then they are the process's, as the turn is. What is left after `close` is freed at once.
    """

    def __init__(self) -> None:
        self.fences: dict[tuple[str, str], int] = {}
        """By agent and key."""
        self.is_closed = False

    def close(self) -> dict[tuple[str, str], int]:
        """Takes nothing more; gives what is to be freed."""
        self.is_closed = True
        return self.fences


LEFT_LANES: ContextVar[LeftLanes | None] = ContextVar("left_lanes", default=None)
"""Set by whoever runs a turn and keeps its outcome."""


class Process:
    """This process in one database, under a number.

    It is alive for `silent_seconds` after each beat by the server's clock. Lanes and turns name the process
    that has them, and are free when it is silent. Fences refuse what a silent process still writes.
    """

    def __init__(self, database: Database, pace: Pace) -> None:
        self.number = secrets.randbits(62)
        self.places = 0
        """How many turns it runs at once; 0 where it is no worker."""
        self.taken_lanes: dict[tuple[str, str], TakenLane] = {}
        """Lanes that were taken together with a turn and wait for it, by agent and session key."""
        self.asked: dict[tuple[str, str], bool] | None = None
        """Turns that were asked for together with their message, by agent and id, until somebody waits for
        them, and whether none of them can be over. `None` where workers run none."""
        self.ledgers: set[str] = set()
        """The agents whose ledger it has."""
        self.pace = pace
        self._database = weakref.ref(database)
        self._beaten = -math.inf
        self._steady_since = math.inf
        self._is_beating = False

    @property
    def is_steady(self) -> bool:
        """Whether it reached the database without a gap for as long as others may be silent.

        After an outage everybody seems silent; a steady process knows who is.
        """
        return time.monotonic() - self._steady_since > self.pace.silent_seconds

    async def beat(self) -> None:
        """Says that it is alive, unless it did a moment ago. Raises `DatabaseError`."""
        began, database = time.monotonic(), self._database()
        silence = began - self._beaten
        is_said = silence < 0.8 * self.pace.beat_seconds
        if database is None or is_said or (self._is_beating and silence < 0.5 * self.pace.silent_seconds):
            return
        values = {"number": self.number, "places": self.places, "seconds": self.pace.silent_seconds}
        self._is_beating = True
        try:
            await database.single(lambda connection: connection.execute(_BEAT, values))
        finally:
            self._is_beating = False
        if began - self._beaten > self.pace.silent_seconds:
            self._steady_since = began
        self._beaten = began

    async def keep(self) -> None:
        """Beats until it is cancelled."""
        while True:
            await asyncio.sleep(self.pace.beat_seconds)
            try:
                await self.beat()
            except DatabaseError as error:
                log.warning("the database was not told that this process is alive: %s", error)

    async def leave(self) -> None:
        """Frees what it holds. Raises `DatabaseError`."""
        database, values = self._database(), {"number": self.number}
        self._beaten = -math.inf
        if database is not None:
            await database.single(lambda connection: connection.execute(_LEAVE, values))


CHANNEL = "nacre_turns"
"""The channel of `NOTIFY`; its payload says what changed."""
LISTEN_SECONDS = 0.5


class Notifications:
    """Calls `heard` on this event loop with each payload of `CHANNEL`, until it is closed.

    With an empty payload it says that it listens now, so that whoever asks again misses nothing. Behind a
    pooler nothing is heard.
    """

    def __init__(self, url: str, limits: ConnectionLimits, heard: Callable[[str], None]) -> None:
        self.is_listening = False
        self._url = url
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-listen", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Ends its connection."""
        self._is_closed.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                with connected(self._url, self._limits) as connection:
                    if is_pooled(connection):
                        return
                    self._listen(connection)
            except Exception as error:  # noqa: BLE001 - the connection went, and the next one is made
                log.info("notifications are not heard for now: %s", reason(error))
            self.is_listening = False
            self._is_closed.wait(LONGEST_PAUSE_SECONDS)

    def _listen(self, connection: Connection) -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self.is_listening = True
        self._call("")
        looked = time.monotonic()
        while not self._is_closed.is_set():
            for each in connection.notifies(timeout=LISTEN_SECONDS):
                self._call(each.payload)
            if time.monotonic() - looked > STATEMENT_SECONDS:
                connection.execute("SELECT 1")
                looked = time.monotonic()

    def _call(self, payload: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._heard, payload)


_OPENING = threading.Lock()
_OPENED: WeakValueDictionary[str, Database] = WeakValueDictionary()
"""Not kept alive by this: what nobody has any more is let go of."""


def shared_database(
    url: str, *, limits: ConnectionLimits | None = None, pace: Pace | None = None
) -> Database:
    """The database of this url that others of this process have, or a new one; touches nothing yet.

    Whoever is done may close it: the others connect again when they ask something.
    """
    with _OPENING:
        database = _OPENED.get(url)
        if database is None:
            database = _OPENED[url] = Database(url, limits=limits, pace=pace)
        return database
