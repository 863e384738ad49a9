"""Connections to a URL, with their timeouts.

psycopg and its pool are only imported in this folder, for the first connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from nacre.installation import install_command
from nacre.runtime.storage.backend import StorageFailed

if TYPE_CHECKING:
    from psycopg import Connection as _Connection
    from psycopg_pool import ConnectionPool

    Connection: TypeAlias = _Connection[tuple[Any, ...]]

log = logging.getLogger(__name__)


class DatabaseError(StorageFailed):
    """The base class of all errors of this folder."""


class DatabaseUnreachable(DatabaseError):
    """There was no connection within the time limit, or the login was refused."""


class DatabaseUnusable(DatabaseError):
    """The database cannot be used: its tables belong to a newer program, or the driver is missing."""


class StatementRefused(DatabaseError):
    """The server refused a statement, and the transaction was rolled back.

    `sqlstate` has five characters; see the appendix "PostgreSQL Error Codes".
    """

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


MOST_CONNECTIONS = 8
CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30.0
IDLE_TRANSACTION_SECONDS = 15.0
"""After this time the server rolls back the transaction of an idle program."""
UNUSED_SECONDS = 120.0
ANSWER_SECONDS = 5.0
"""How much longer than the server's own limit a program waits for a statement."""
_CERTIFICATES = (
    " In the address, `sslrootcert` must name the certificate of the server's authority, and the host must "
    "be a name in the server's own."
)
_CONNECTIONS = (
    " Programs get too few connections: a worker opens at most 4, a gateway 9. Raise max_connections of the "
    "server or the limit of the role (`ALTER ROLE … CONNECTION LIMIT`), or connect through pgbouncer."
)
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The maximum number of connections, and time limits.

    `retry_seconds` limits the attempts to replace a lost connection.
    """

    most_connections: int = MOST_CONNECTIONS
    statement_seconds: float = STATEMENT_SECONDS
    retry_seconds: float = 30.0


def connected(url: str, limits: ConnectionLimits) -> Connection:
    """Opens a connection in autocommit mode.

    Raises:
        DatabaseUnreachable: there was no answer, or the login was refused; with the server's reason.
        DatabaseUnusable: psycopg is not installed, or the URL is invalid.
    """
    psycopg = _driver()
    wanted = connection_arguments(url)
    try:
        connection: Connection = _bounded_connection().connect(**wanted)
        configure(connection, limits)
    except psycopg.Error as error:
        raise DatabaseUnreachable(f"{shown(url)} cannot be used: {_remedied(reason(error))}") from error
    return connection


def _remedied(text: str) -> str:
    """A reason as a sentence, with what helps."""
    if "too many" in text or "connection slots" in text:
        return f"{text}.{_CONNECTIONS}"
    return f"{text}.{_CERTIFICATES}" if "certificate" in text and "FATAL" not in text else f"{text}."


class Pool:
    """The `connections` to a URL, which are made on demand and closed when they are idle.

    Raises:
        DatabaseUnusable: psycopg is not installed, or the URL is invalid.
    """

    def __init__(self, url: str, limits: ConnectionLimits) -> None:
        _driver()
        from psycopg_pool import ConnectionPool

        # A restart only costs a retry and is not reported; the code that waits reports a lasting failure.
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        self.problem = ""
        """Why the last connection was not made."""
        self.connections: ConnectionPool[Connection] = ConnectionPool(
            connection_class=cast("type[Connection]", self),  # a pool only calls `connect`
            kwargs=connection_arguments(url),
            min_size=0,
            max_size=limits.most_connections,
            max_idle=UNUSED_SECONDS,
            reconnect_timeout=min(limits.retry_seconds, CONNECT_SECONDS),  # its pauses grow to half of this
            configure=lambda connection: configure(connection, limits),
            num_workers=2,
            name="nacre",
            open=True,
        )

    def connect(self, *arguments: Any, **named: Any) -> Connection:
        """Makes a connection for the pool."""
        try:
            made: Connection = _bounded_connection().connect(*arguments, **named)
        except Exception as error:
            before, self.problem = self.problem, _remedied(reason(error))
            if self.problem.endswith(_CONNECTIONS) and self.problem != before:
                log.warning("no further connection: %s", self.problem)
            raise
        self.problem = ""
        return made


def configure(connection: Connection, limits: ConnectionLimits) -> None:
    """Sets the server-side limits of a new connection.

    A pooler such as pgbouncer reports its own process id. Behind one, each transaction may use a different
    server connection, which lacks the prepared statements.
    """
    connection.answer_seconds = limits.statement_seconds + ANSWER_SECONDS
    row = connection.execute(
        "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
        "set_config('idle_in_transaction_session_timeout', %s, false), pg_backend_pid()",
        (_ms(limits.statement_seconds), _ms(limits.statement_seconds), _ms(IDLE_TRANSACTION_SECONDS)),
    ).fetchone()
    if row is not None and row[3] != connection.info.backend_pid:
        connection.prepare_threshold = None


def is_pooled(connection: Connection) -> bool:
    """Whether the connection goes through a pooler, which does not support LISTEN."""
    return connection.prepare_threshold is None


@cache
def _bounded_connection() -> Any:
    """A class of connections that stop waiting for a server that does not answer.

    `statement_timeout` and TCP's limits do not help if a proxy accepts data and never answers.
    """
    import psycopg

    class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
        answer_seconds = STATEMENT_SECONDS + ANSWER_SECONDS

        def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
            return super().wait(self._ended(gen), *arguments, **named)

        def _ended(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            ends = time.monotonic() + self.answer_seconds
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > ends:
                        self.close()
                        raise psycopg.OperationalError(f"no answer for {self.answer_seconds:.0f} seconds")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return BoundedConnection


def is_lost(error: Exception) -> bool:
    """Whether a new connection may help: the old one was lost by a restart or a failover, or transactions
    conflicted.
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


def is_refused_for_now(error: Exception) -> bool:
    """Whether the same statement may succeed later: a full disk, a missing right, a held lock."""
    state = getattr(error, "sqlstate", None) or ""
    return state[:2] not in ("22", "23", "42", "NA") or state == "42501"


def reason(error: Exception) -> str:
    """The first line of the error message, without a password."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def shown(url: str) -> str:
    """The database of a URL for people, without a password. Works for invalid URLs, too."""
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
        import psycopg_pool  # noqa: F401 - reported as missing before anything begins
    except ImportError as error:
        raise DatabaseUnusable(
            f"PostgreSQL needs psycopg, which cannot be used here ({error}). Install it with "
            f"`{install_command('postgres')}`."
        ) from error
    return psycopg


def connection_arguments(url: str) -> dict[str, Any]:
    """The connection parameters; those in the URL override the defaults.

    Raises:
        DatabaseUnusable: the URL is invalid.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # The library's message quotes the URL with the password.
        raise DatabaseUnusable(
            "The address of the database cannot be read. It is written as "
            "postgresql://user:password@host:5432/database."
        ) from None
    usual = {"connect_timeout": CONNECT_SECONDS, "application_name": "nacre", **_KEEPALIVE}
    return {**usual, **given, "autocommit": True}


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
