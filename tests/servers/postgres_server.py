"""A PostgreSQL server of this run of tests, from the package `pgserver`, and a new database for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_TEMPLATE = "nacre_template"
_MARK = "@@"


class PostgresServer:
    """One server. Its databases are forgotten with it, so it need not wait for the disk."""

    def __init__(self, server: Any, control: Any) -> None:
        self._server = server
        self._control = control
        self._numbers = count(1)
        self.run("ALTER SYSTEM SET fsync = off")
        self.run("SELECT pg_reload_conf()")
        self.run(f"CREATE DATABASE {_TEMPLATE}")
        self._migrate(_TEMPLATE)

    def url(self, database: str = "postgres") -> str:
        """Where a database is."""
        found: str = self._server.get_uri(database=database)
        return found

    def empty_database(self) -> str:
        """The url of a database without a table."""
        return self._made("template0")

    def database(self) -> str:
        """The url of a database with empty tables."""
        return self._made(_TEMPLATE)

    def drop(self, url: str) -> None:
        """Removes a database of `database` or `empty_database`, whoever is still connected."""
        self.run(f"DROP DATABASE {_name(url)} WITH (FORCE)")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """What the server's owner may say, in the database `postgres`."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def logged(self, url: str) -> Iterator[list[str]]:
        """The statements that programs make in a database during the block, there at its end."""
        database = _name(url)
        found: list[str] = []
        self.run(f"ALTER SYSTEM SET log_line_prefix = '{_MARK}%d {_MARK}'")
        self.run("ALTER SYSTEM SET log_statement = 'all'")
        self.run("SELECT pg_reload_conf()")
        self.run("SELECT pg_sleep(0.2)")
        log = Path(self._server.log)
        start = log.stat().st_size
        try:
            yield found
        finally:
            self.run("ALTER SYSTEM RESET log_statement")
            self.run("SELECT pg_reload_conf()")
        text = log.read_bytes()[start:].decode("utf-8", "replace")
        for entry in text.split(f"{_MARK}{database} {_MARK}")[1:]:
            kind, _, statement = entry.split(_MARK)[0].removeprefix("LOG:  ").partition(": ")
            if kind == "statement" or kind.startswith("execute"):
                found.append(" ".join(statement.split()))

    def restart(self) -> None:
        """Ends every connection in the middle of what it does, as a crash would, and is there again."""
        self._controlled("-l", str(self._server.log), "restart")

    @contextmanager
    def standby(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """A read-only copy that each commit waits for: its folder, and what makes it the primary."""
        from pgserver._commands import pg_basebackup

        folder, user = _short_folder(), self._server.system_user
        folder.chmod(0o777)
        control = partial(self._control, pgdata=folder / "data", user=user)
        wanted = f"-D {folder}/data -h {self._server.pgdata} -U postgres -R -X stream -c fast"
        pg_basebackup(wanted.split(), user=user)
        control(["-w", "-l", f"{folder}/log", "-o", f"-h '' -k {folder}", "start"])
        self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.run("SELECT pg_reload_conf()")
        try:
            yield str(folder), lambda: control(["-w", "promote"])
        finally:
            control(["-w", "-m", "immediate", "stop"])
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self) -> None:
        """Ends it; `pgserver` would look for the process that it started, and not for a restarted one."""
        self._controlled("stop")

    def _controlled(self, *words: str) -> None:
        arguments = ["-m", "immediate", "-w", *words]
        self._control(arguments, pgdata=self._server.pgdata, user=self._server.system_user)

    def _made(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def _migrate(self, database: str) -> None:
        import psycopg

        from nacre.extensions.postgres.server.database import migrate, packaged_migrations

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            migrate(connection, packaged_migrations())


def _name(url: str) -> str:
    return url.split("@/")[1].split("?")[0]


def _short_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="nacre-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server in a new folder with a short name, because a socket lies in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the system says no folder for sockets, it takes its own
        import pgserver
        from pgserver._commands import pg_ctl
    folder = _short_folder()
    server = pgserver.get_server(folder, cleanup_mode=None)
    running = PostgresServer(server, pg_ctl)
    try:
        yield running
    finally:
        running.stop()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this run; a test that wants it is left out where there is none."""
    if None in map(find_spec, ("psycopg", "psycopg_pool", "pgserver")):
        pytest.skip("there is no PostgreSQL; `make postgres` brings it")
    with running_server() as server:
        yield server


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A new database with empty tables."""
    url = postgres_server.database()
    yield url
    postgres_server.drop(url)
