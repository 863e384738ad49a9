"""Runs work in a transaction on a thread, and repeats it after a lost connection.

A restart, a failover or a network failure costs a retry and no data. If the answer to a commit is lost, the
next connection asks for the state of that transaction (`pg_xact_status`), so work is done exactly once, even
across a restart during the commit.
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
from contextlib import contextmanager, nullcontext, suppress
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
    Pool,
    StatementRefused,
    connected,
    is_lost,
    is_pooled,
    is_refused_for_now,
    reason,
    shown,
)

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


log = logging.getLogger(__name__)

_LOCK = 0x6E61637265
"""The number of the advisory lock: `nacre` in ASCII."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
ALTER TABLE nacre_migrations ADD COLUMN IF NOT EXISTS is_breaking BOOLEAN NOT NULL DEFAULT FALSE
"""
_BREAKING = "-- Breaks programs of an older version"
"""The first line of a migration that locks out programs which do not know it. Other migrations only add."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A numbered SQL file."""

    number: int
    name: str
    sql: str

    @property
    def is_breaking(self) -> bool:
        """Whether programs that do not know this migration must exit."""
        return self.sql.startswith(_BREAKING)

    @property
    def checksum(self) -> str:
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
    """Applies all missing migrations in one transaction and returns their names.

    A program also works with tables of a newer version, unless a breaking migration was applied.

    Raises:
        DatabaseUnusable: a newer program applied a breaking migration, or an applied file has changed.
        psycopg.Error: the server refused; nothing was changed.
    """
    if not _missing(_applied(connection), migrations):
        return ()
    with connection.transaction():
        # Lock before the table is created: two processes that create it at once would conflict.
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
    # Tables of an older version lack this column.
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
            f"A newer Nacre made the tables of this database ({newer[-1]} is unknown to this version). "
            "Use that version; nothing was changed."
        )
    for migration in known:
        name, checksum, _ = applied.get(migration.number, ("", migration.checksum, False))
        if checksum != migration.checksum:
            raise DatabaseUnusable(
                f"The migration {name} that was applied to the database differs from this program's. Use the "
                "version of Nacre that applied it; nothing was changed."
            )
    return [migration for migration in known if migration.number not in applied]


FIRST_CONNECTION_SECONDS = 5.0
"""The limit for the first connection: a starting program reports a missing server soon; later it waits."""
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
    """A database, identified by its URL. The first work connects and migrates the tables.

    Work is a function of a connection, which it neither commits nor keeps. It may be called again, so it must
    change nothing but the database. No transaction is open before or after it.
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
        """The identity of this process for others, which take over its lanes and turns."""
        self._opening = threading.Lock()
        self._not_opened = (0.0, "")
        self._handing = threading.Lock()  # who closes may be on another event loop than who asks
        self._pool: Pool | None = None
        self._threads: ThreadPoolExecutor | None = None

    @cached_property
    def place(self) -> str:
        """The name of the database for people, without a password."""
        return shown(self._url)

    def notifications(self, heard: Callable[[str], None], *channels: str) -> Notifications:
        """Calls `heard` for each notification about turns, and on other channels. Close it after use."""
        return Notifications(self._url, self._limits, heard, channels)

    async def read(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """Returns the result of `work`, which reads a consistent snapshot.

        With `is_patient`, waits until the database can be reached and accepts the work.

        Raises:
            DatabaseUnreachable: there was no connection for `retry_seconds`.
            DatabaseUnusable: the tables belong to a newer program, or psycopg is missing.
            StatementRefused: the server refused a statement.
        """
        return await self._done(_Attempt(work, _READ), is_patient=is_patient)

    async def write(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """Commits `work` exactly once, or not at all if it raises, and returns its result.

        Cancellation waits for a running attempt. Raises the same errors as `read`.
        """
        return await self._done(_Attempt(work, _WRITE), is_patient=is_patient)

    async def single(self, work: Callable[[Connection], T], *, is_patient: bool = False) -> T:
        """Runs `work` that is a single statement, in one round trip instead of three.

        The statement is its own transaction. It is repeated if its answer was lost, so it must be idempotent.
        Raises the same errors as `read`.
        """
        return await self._done(_Attempt(work, _SINGLE), is_patient=is_patient)

    async def close(self) -> None:
        """Finishes pending work and closes the connections. Later work opens new ones."""
        with self._handing:
            threads, self._threads = self._threads, None

        def close() -> None:
            if threads is not None:
                threads.shutdown()
            with self._opening:
                pool, self._pool = self._pool, None
            if pool is not None:
                pool.connections.close()

        await asyncio.to_thread(close)

    def __del__(self) -> None:
        if (threads := getattr(self, "_threads", None)) is not None:
            threads.shutdown(wait=False)
        if (pool := getattr(self, "_pool", None)) is not None:
            pool.connections.close(timeout=0)

    async def _done(self, attempt: _Attempt[T], *, is_patient: bool) -> T:
        """Returns the result of an attempt, which is repeated while that may help."""
        began, pause_seconds = time.monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._on_a_thread(attempt)
            except Exception as error:  # noqa: BLE001 - raised again, unless another attempt may succeed
                self._raise_unless_passing(error, time.monotonic() - began, is_patient=is_patient)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _on_a_thread(self, attempt: _Attempt[T]) -> T:
        run = copy_context().run
        with self._handing:
            if self._threads is None:
                # As many threads as connections, so work waits for a thread and not for a connection.
                self._threads = ThreadPoolExecutor(
                    self._limits.most_connections, thread_name_prefix="postgres"
                )
            begun = self._threads.submit(run, self._tried, attempt)
        asked = asyncio.wrap_future(begun)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            if not begun.cancel():  # it is running, so wait for its end
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({asked})
                if asked.done() and not asked.cancelled():
                    asked.exception()
            raise

    def _tried(self, attempt: _Attempt[T]) -> T:
        seconds = min(FIRST_CONNECTION_SECONDS, max(0.1, self._limits.retry_seconds))
        try:
            with self._ready().connections.connection(timeout=seconds) as connection:
                return attempt.run(connection)
        except Exception as error:
            if self._pool is not None and not isinstance(error, DatabaseError) and is_lost(error):
                self._pool.connections.check()  # the other idle connections are probably lost, too
            raise

    def _raise_unless_passing(self, error: Exception, seconds: float, *, is_patient: bool) -> None:
        """Raises an error that another attempt after `seconds` would not fix, as a sentence."""
        if isinstance(error, DatabaseUnusable):  # first, because psycopg may be missing
            raise error
        import psycopg
        from psycopg_pool import PoolTimeout

        is_over = seconds >= self._limits.retry_seconds and not is_patient
        if isinstance(error, DatabaseUnreachable):  # there was no connection yet
            if is_over or (seconds >= FIRST_CONNECTION_SECONDS and not is_patient):
                raise error
        elif not isinstance(error, psycopg.Error):
            raise error
        elif isinstance(error, PoolTimeout) or is_lost(error):
            if is_over:
                why = self._pool.problem if self._pool is not None and isinstance(error, PoolTimeout) else ""
                raise DatabaseUnreachable(
                    f"{self.place} could not be reached for {self._limits.retry_seconds:.0f} seconds: "
                    f"{why or reason(error) + '.'} What was to be written may be tried again."
                ) from error
        elif is_patient and is_refused_for_now(error):
            log.warning("%s refused; the statement is repeated: %s", self.place, reason(error))
        else:
            raise StatementRefused(
                f"{self.place} refused: {reason(error)}. Nothing was written.",
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
        asked_at = time.monotonic()
        with self._opening:
            if self._pool is None:
                failed_at, problem = self._not_opened
                if failed_at >= asked_at:  # another thread has tried while this one waited
                    raise DatabaseUnreachable(problem)
                # A separate connection reports the problem at once and with the server's message.
                try:
                    with connected(self._url, self._limits) as connection:
                        known = packaged_migrations() if self._migrations is None else self._migrations
                        self._migrate(connection, known)
                except DatabaseUnreachable as error:
                    self._not_opened = time.monotonic(), str(error)
                    raise
                self._pool = Pool(self._url, self._limits)
            return self._pool


class _Attempt(Generic[T]):
    """One piece of work, over as many connections as it takes."""

    def __init__(self, work: Callable[[Connection], T], begin: str) -> None:
        self._work = work
        self._begin = begin
        self._unsure: tuple[_Transaction, T] | None = None
        """The transaction whose commit was not answered, and the result of its work."""

    def run(self, connection: Connection) -> T:
        """Returns the committed result; if the work raises, everything is rolled back."""
        if self._unsure is not None:
            unsure, result = self._unsure
            if _was_committed(connection, unsure):
                return result
            self._unsure = None
        if self._begin == _SINGLE:
            with _other_server_if_read_only(connection):
                return self._work(connection)
        with _other_server_if_read_only(connection):
            cursor = connection.execute(self._begin)
        row = cursor.fetchone() if cursor.nextset() else None
        transaction = _Transaction(*row) if row else None
        try:
            with _other_server_if_read_only(connection) if transaction else nullcontext():
                result = self._work(connection)
        except BaseException:
            with suppress(Exception):  # the server rolls back the transaction of a lost connection
                connection.execute("ROLLBACK")
            raise
        if transaction:
            self._unsure = (transaction, result)
        if connection.execute("COMMIT").statusmessage != "COMMIT":
            raise RuntimeError("work continued after a refused statement; nothing was written")
        return result


@contextmanager
def _other_server_if_read_only(connection: Connection) -> Iterator[None]:
    """Drops a connection to a read-only server, because a new one may reach the primary."""
    import psycopg

    try:
        yield
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.ReadOnlySqlTransaction) as error:
        connection.close()
        raise psycopg.OperationalError(
            f"{reason(error)}. The server or the database is read-only; with several hosts in the address, "
            "`target_session_attrs=read-write` chooses the primary"
        ) from error


class _Transaction(NamedTuple):
    """The number of a transaction, and its start by the server's clock."""

    number: str
    began_at: datetime


def _was_committed(connection: Connection, transaction: _Transaction) -> bool:
    """Whether a transaction was committed. Waits while it is in progress.

    An unknown transaction was lost in a failover. A crashed server may reuse numbers that it had not written
    to disk: a number that was unused at a checkpoint after the start belongs to another transaction.
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
WITH gone AS (DELETE FROM processes WHERE alive_until < clock_timestamp() - interval '1 hour'),
set_back AS (UPDATE processes SET alive_until = clock_timestamp() + make_interval(secs => %(seconds)s)
    WHERE number <> %(number)s AND alive_until > clock_timestamp() + interval '1 minute')
INSERT INTO processes (number, places, alive_until)
VALUES (%(number)s, %(places)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (number) DO UPDATE SET places = EXCLUDED.places, alive_until = EXCLUDED.alive_until
"""
"""If the server's clock was set back, a process that would stay alive for long has to send its next beat."""
_LEAVE = "UPDATE processes SET alive_until = '-infinity' WHERE number = %(number)s"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a process sends a heartbeat, and after how much silence its possessions are free."""

    beat_seconds: float = 2.5
    silent_seconds: float = 9.0


class TakenLane(NamedTuple):
    """A lane with its fence, and the rows read with it: the session's line and its transcript's head."""

    fence: int
    line: str | None
    name: str | None
    id: object
    lines: int | None
    size_bytes: int | None


class LeftLanes:
    """The lanes of a finished turn, which the statement that stores its outcome frees.

    Until then they belong to the process. Lanes left after `close` are freed at once.
    """

    def __init__(self) -> None:
        self.fences: dict[tuple[str, str], int] = {}
        """The fences by agent and session key."""
        self.is_closed = False

    def close(self) -> dict[tuple[str, str], int]:
        """Stops collecting lanes and returns those to free."""
        self.is_closed = True
        return self.fences


LEFT_LANES: ContextVar[LeftLanes | None] = ContextVar("left_lanes", default=None)
"""Set by the code that runs a turn and stores its outcome."""


class Process:
    """This process in one database, identified by a number.

    It counts as alive for `silent_seconds` after each heartbeat, by the server's clock. Lanes and turns name
    their process, and are free when it is silent. Fences refuse late writes of a silent process.
    """

    def __init__(self, database: Database, pace: Pace) -> None:
        self.number = secrets.randbits(62)
        self.places = 0
        """The number of turns that it runs at once; 0 if it is not a worker."""
        self.taken_lanes: dict[tuple[str, str], TakenLane] = {}
        """Lanes claimed together with a turn that has not started yet, by agent and session key."""
        self.asked: dict[tuple[str, str], bool] | None = None
        """Turns requested together with their message and not awaited yet, by agent and id; the value says
        that the turn is new and cannot be over. `None` if workers do not run turns."""
        self.stream = ""
        """The channel on which it hears the events of turns that others run; empty if it does not listen."""
        self.ledgers: set[str] = set()
        """The agents whose ledger this process holds."""
        self.pace = pace
        self._database = weakref.ref(database)
        self._beaten = -math.inf
        self._steady_since = math.inf
        self._is_beating = False

    @property
    def is_steady(self) -> bool:
        """Whether it has reached the database without interruption for `silent_seconds`.

        After an outage, all processes seem silent; only a steady process can tell who is.
        """
        return time.monotonic() - self._steady_since > self.pace.silent_seconds

    async def beat(self) -> None:
        """Sends a heartbeat, unless one was sent a moment ago. Raises `DatabaseError`."""
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
        """Sends heartbeats until it is cancelled."""
        while True:
            await asyncio.sleep(self.pace.beat_seconds)
            try:
                await self.beat()
            except DatabaseError as error:
                log.warning("a heartbeat of this process was not stored: %s", error)

    async def leave(self) -> None:
        """Frees everything that it holds. Raises `DatabaseError`."""
        database, values = self._database(), {"number": self.number}
        self._beaten = -math.inf
        if database is not None:
            await database.single(lambda connection: connection.execute(_LEAVE, values))


CHANNEL = "nacre_turns"
"""The channel of `NOTIFY`. The payload says what has changed."""
LISTEN_SECONDS = 0.5


class Notifications:
    """Calls `heard` on this event loop with each payload of `CHANNEL` and `others`, until it is closed.

    An empty payload means that listening has started: query again to miss nothing. Behind a pooler, there are
    no notifications.
    """

    def __init__(
        self, url: str, limits: ConnectionLimits, heard: Callable[[str], None], others: Sequence[str] = ()
    ) -> None:
        self.is_listening = False
        self._channels = (CHANNEL, *others)
        self._url = url
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-listen", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        self._is_closed.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                with connected(self._url, self._limits) as connection:
                    if is_pooled(connection):
                        return
                    self._listen(connection)
            except Exception as error:  # noqa: BLE001 - the connection was lost, and the next one is made
                level = logging.INFO if self.is_listening else logging.DEBUG  # once in an outage
                log.log(level, "notifications are not received for now: %s", reason(error))
            self.is_listening = False
            self._is_closed.wait(LONGEST_PAUSE_SECONDS)

    def _listen(self, connection: Connection) -> None:
        connection.execute("; ".join(f"LISTEN {channel}" for channel in self._channels).encode())
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
"""Weak references: an unused database is freed."""


def shared_database(
    url: str, *, limits: ConnectionLimits | None = None, pace: Pace | None = None
) -> Database:
    """Returns the process's database with this URL, or creates one. Does not connect yet.

    Any user may close it: the others reconnect when they need it.
    """
    with _OPENING:
        database = _OPENED.get(url)
        if database is None:
            database = _OPENED[url] = Database(url, limits=limits, pace=pace)
        return database
