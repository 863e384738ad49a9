"""Connections of a url, with the time-outs that they have. Edge.

psycopg and its pool are imported here and in the files beside it alone, when the first connection is wanted.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from nacre.installation import install_command
from nacre.runtime.storage.backend import StorageFailed

if TYPE_CHECKING:
    from psycopg import Connection as _Connection
    from psycopg_pool import ConnectionPool

    Connection: TypeAlias = _Connection[tuple[Any, ...]]
    Pool: TypeAlias = ConnectionPool[Connection]


class DatabaseError(StorageFailed):
    """Any failure that this folder reports."""


class DatabaseUnreachable(DatabaseError):
    """No connection could be had for as long as one waits for it, or the log-in was refused."""


class DatabaseUnusable(DatabaseError):
    """The database is there and cannot serve: a newer program made its tables, or the driver is missing."""


class StatementRefused(DatabaseError):
    """The server refused a statement, and its whole transaction was taken back.

    `sqlstate` is its reason, five characters of the appendix "PostgreSQL Error Codes".
    """

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


MOST_CONNECTIONS = 8
CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30.0
IDLE_TRANSACTION_SECONDS = 15.0
"""A transaction whose program went to sleep is taken back by the server."""
UNUSED_SECONDS = 120.0
_KEEPALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """How many connections a program has at most, and how long things may take.

    `retry_seconds` is for how long a lost connection is asked for again.
    """

    most_connections: int = MOST_CONNECTIONS
    statement_seconds: float = STATEMENT_SECONDS
    retry_seconds: float = 30.0


def connected(url: str, limits: ConnectionLimits) -> Connection:
    """One connection, each statement of it a transaction of its own.

    Raises:
        DatabaseUnreachable: nobody answered, or the log-in was refused; with the server's reason.
        DatabaseUnusable: psycopg is not installed, or the url cannot be read.
    """
    psycopg = _driver()
    wanted = connection_arguments(url)
    try:
        connection = psycopg.connect(**wanted)
        configure(connection, limits)
    except psycopg.Error as error:
        raise DatabaseUnreachable(f"{shown(url)} cannot be used: {reason(error)}.") from error
    return connection


def opened_pool(url: str, limits: ConnectionLimits) -> Pool:
    """A pool whose connections are made when they are wanted and closed when nobody wants them.

    Raises:
        DatabaseUnusable: psycopg is not installed, or the url cannot be read.
    """
    _driver()
    from psycopg_pool import ConnectionPool

    # A server that restarts is a retry and no word; what lasts is told by whoever waits for a connection.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
    return ConnectionPool(
        kwargs=connection_arguments(url),
        min_size=0,
        max_size=limits.most_connections,
        max_idle=UNUSED_SECONDS,
        reconnect_timeout=limits.retry_seconds,
        configure=lambda connection: configure(connection, limits),
        num_workers=2,
        name="nacre",
        open=True,
    )


def configure(connection: Connection, limits: ConnectionLimits) -> None:
    """Gives a new connection its limits, which the server keeps."""
    connection.execute(
        "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
        "set_config('idle_in_transaction_session_timeout', %s, false)",
        (_ms(limits.statement_seconds), _ms(limits.statement_seconds), _ms(IDLE_TRANSACTION_SECONDS)),
    )


def is_lost(error: Exception) -> bool:
    """Whether an error says that the connection went, so that another one may do: a restart, a fail-over.

    A transaction that stood in another's way counts.
    """
    import psycopg
    from psycopg_pool import PoolTimeout

    if isinstance(error, PoolTimeout):
        return False
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return False
    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith("08") or state in ("57P01", "57P02", "57P03", "40001", "40P01", "25P03")


def reason(error: Exception) -> str:
    """The first line of what the server or the library said; it names no password."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def shown(url: str) -> str:
    """Which database a url names, without a password; where psycopg cannot read it, whose it is."""
    try:
        _driver()
        named = connection_arguments(url)
    except DatabaseUnusable:
        return "The PostgreSQL database of storage.url"
    host = named.get("host") or "this machine"
    return f"The PostgreSQL database {named.get('dbname') or named.get('user') or ''!r} on {host}"


def _driver() -> Any:
    try:
        import psycopg
        import psycopg_pool  # noqa: F401 - told as missing before anything begins
    except ImportError as error:
        raise DatabaseUnusable(
            f"PostgreSQL needs psycopg, which cannot be used here ({error}). Install it with "
            f"`{install_command('postgres')}`."
        ) from error
    return psycopg


def connection_arguments(url: str) -> dict[str, Any]:
    """What to connect with: what the url says goes before what is set here.

    Raises:
        DatabaseUnusable: the url cannot be read.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        told = conninfo_to_dict(url)
    except psycopg.Error:
        # The library's words quote the address, with the password.
        raise DatabaseUnusable(
            "The address of the database cannot be read. It is written as "
            "postgresql://user:password@host:5432/database."
        ) from None
    usual = {"connect_timeout": CONNECT_SECONDS, "application_name": "nacre", **_KEEPALIVE}
    return {**usual, **told, "autocommit": True}


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))


LOOK_SECONDS = 2.0
"""So long a connection that was there is taken to be there still."""
GONE_SECONDS = 7.0
"""A process without its lock that said nothing for so long has ended. One that lives says something each five
seconds, and takes its lock again before, so that a server that restarts takes nothing from it."""
_TAKE = b"SELECT pg_try_advisory_lock(%s)"


class Life:
    """That of a process in one database. Its methods wait for the server: call them on a thread."""

    def __init__(self, url: str, limits: ConnectionLimits) -> None:
        self.number = secrets.randbits(62)
        """What the process is known by while it lives."""
        self._url = url
        self._limits = limits
        self._changing = threading.Lock()
        self._connection: Connection | None = None
        self._keys: set[int] = set()
        self._looked = 0.0

    def hold(self, *more: int) -> bool:
        """Takes the lock of `number` and of `more` numbers, again where the connection was lost; whether all
        are had. Without them others wait for the silence."""
        with self._changing:
            wanted = {self.number, *more}
            is_new = time.monotonic() - self._looked < LOOK_SECONDS
            if self._connection is not None and wanted <= self._keys and is_new:
                return True
            try:
                self._take(wanted)
            except DatabaseError:
                return False
            except Exception:  # noqa: BLE001 - it went; the next call makes one
                self._drop()
                return False
            return wanted <= self._keys

    def close(self) -> None:
        """Lets go of all. Who asks afterwards takes them again."""
        with self._changing:
            self._drop()

    def _take(self, wanted: set[int]) -> None:
        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except Exception:  # noqa: BLE001 - it was lost, and a new one is made
                self._drop()
        if self._connection is None:
            self._connection = connected(self._url, self._limits)
        for key in sorted(wanted - self._keys):
            row = self._connection.execute(_TAKE, (key,)).fetchone()
            if row is not None and row[0]:
                self._keys.add(key)
        self._looked = time.monotonic()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._keys.clear()
        if connection is not None:
            with suppress(Exception):
                connection.close()
