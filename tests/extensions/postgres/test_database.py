"""Work is done once, whole or not at all, over restarts and lost answers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.server.connections import (
    ConnectionLimits,
    DatabaseUnreachable,
    DatabaseUnusable,
    StatementRefused,
)
from nacre.extensions.postgres.server.database import Database
from tests.servers.pgbouncer import pgbouncer
from tests.servers.postgres_server import PostgresServer, running_server

pytestmark = pytest.mark.postgres
TABLE = "CREATE TABLE words (agent TEXT, word TEXT)"


@asynccontextmanager
async def opened(url: str, **limits: Any) -> AsyncIterator[Database]:
    database = Database(url, limits=ConnectionLimits(**limits))
    try:
        yield database
    finally:
        await database.close()


def add(word: str) -> Any:
    return lambda db: db.execute("INSERT INTO words VALUES ('a', %s)", (word,))


def words(db: Any) -> list[str]:
    return [word for (word,) in db.execute("SELECT word FROM words ORDER BY word")]


async def test_work_is_whole_or_not_at_all(database_url: str) -> None:
    """What raises takes everything back, whoever raised; the connection is fit for the next work."""
    async with opened(database_url) as database:
        await database.write(lambda db: db.execute(TABLE))
        await database.write(add("kept"))

        def broken(db: Any) -> None:
            add("lost")(db)
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await database.write(broken)
        with pytest.raises(StatementRefused, match="does not exist") as refused:
            await database.write(lambda db: (add("lost")(db), db.execute("SELECT nothing")))
        assert refused.value.sqlstate == "42703"
        with pytest.raises(StatementRefused, match="read-only"):
            await database.read(add("lost"))
        assert await database.read(words) == ["kept"]


async def test_a_restart_of_the_server_costs_a_retry(
    postgres_server: PostgresServer, database_url: str
) -> None:
    """Work under way begins anew on a new connection, and nothing of its first half is left."""
    async with opened(database_url) as database:
        await database.write(lambda db: db.execute(TABLE))
        begun: list[str] = []

        def work(db: Any) -> None:
            add(f"half {len(begun)}")(db)
            begun.append("")
            if len(begun) == 1:
                postgres_server.restart()
            add("whole")(db)

        await database.write(work)
        assert len(begun) == 2
        assert await database.read(words) == ["half 1", "whole"]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_commit_without_an_answer_is_asked_about(
    postgres_server: PostgresServer, database_url: str, is_committed: bool
) -> None:
    """The connection dies around the commit: work that was committed is not done again, other work is."""
    import psycopg

    async with opened(database_url) as database:
        await database.write(lambda db: db.execute(TABLE))
        begun: list[str] = []

        def work(db: Any) -> str:
            add("once")(db)
            begun.append("")
            if len(begun) == 1:
                if is_committed:
                    db.execute("COMMIT")
                with psycopg.connect(database_url, autocommit=True) as other:
                    other.execute("SELECT pg_terminate_backend(%s, 5000)", (db.info.backend_pid,))
            return "done"

        assert await database.write(work) == "done"
        assert len(begun) == (1 if is_committed else 2)
        assert await database.read(words) == ["once"]


async def test_many_at_once_share_few_connections(database_url: str) -> None:
    """Whoever finds none free waits; the server sees no more than were allowed, under our name."""
    async with opened(database_url, most_connections=2) as database:
        await database.write(lambda db: db.execute(TABLE))
        await asyncio.gather(*(database.write(add(f"{number:02}")) for number in range(20)))

        def ours(db: Any) -> Any:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'nacre'"
            return db.execute(f"{query} AND datname = current_database()").fetchone()

        assert await database.read(words) == [f"{number:02}" for number in range(20)]
        assert await database.read(ours) <= (2,)


async def test_a_statement_has_a_limit(database_url: str) -> None:
    """One that takes too long is ended by the server, and the sentence says so."""
    async with opened(database_url, statement_seconds=0.05) as database:
        with pytest.raises(StatementRefused, match="statement timeout"):
            await database.read(lambda db: db.execute("SELECT pg_sleep(60)"))


async def test_cancelling_waits_for_the_work(database_url: str) -> None:
    """Who is told that a write was cancelled finds it done or not begun, never still to come."""
    async with opened(database_url) as database:
        await database.write(lambda db: db.execute(TABLE))
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(db: Any) -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            add("done")(db)

        task = asyncio.create_task(database.write(slow))
        await begun.wait()
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await database.read(words) == ["done"]


async def test_a_number_that_was_given_again_is_no_commit(
    postgres_server: PostgresServer,
) -> None:
    """A crashed server gives numbers again: another's commit is not taken for the one that was lost."""
    import psycopg

    attempts: list[str] = []
    with running_server() as server:
        url = server.database()
        async with opened(url) as database:
            await database.write(lambda db: db.execute(TABLE))

            def work(db: Any) -> None:
                attempts.append("again" if attempts else "first")
                if attempts == ["first"]:
                    server.restart()
                    with psycopg.connect(url, autocommit=True) as other:
                        for number in range(5):
                            other.execute("INSERT INTO words VALUES ('a', %s)", (f"other {number}",))
                else:
                    add("done")(db)

            await database.write(work)
            assert await database.read(words) == ["done", *(f"other {number}" for number in range(5))]


async def test_what_is_wrong_is_said_without_the_password(database_url: str) -> None:
    """No server, no such database, no address: sentences that name the place and the reason."""
    nowhere = "postgresql://me:hushhush@127.0.0.1:1/mine"
    cases = [
        (nowhere, DatabaseUnreachable, "'mine' on 127.0.0.1 cannot be used"),
        (database_url.replace("/test_", "/none_"), DatabaseUnreachable, "does not exist"),
        ("postgresql://[me:hushhush", DatabaseUnusable, "postgresql://user:password@host"),
    ]
    for url, kind, words_of_it in cases:
        async with opened(url, retry_seconds=0.0) as database:
            with pytest.raises(kind, match=words_of_it) as told:
                await database.read(words)
            assert "hush" not in str(told.value)


async def test_who_waits_with_another_shares_its_failure() -> None:
    """A silent server is waited for once, and not by one piece of work after the other."""
    asked: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: asked.append(writer), "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    async with opened(f"postgresql://me@{host}:{port}/mine?connect_timeout=2", retry_seconds=0.0) as database:
        told = await asyncio.gather(*(database.read(words) for _ in range(4)), return_exceptions=True)
    assert {(type(each), "timeout" in str(each)) for each in told} == {(DatabaseUnreachable, True)}
    assert len(asked) == 1
    for writer in asked:
        writer.close()
    silent.close()


def certificate(folder: Path, name: str, by: str = "") -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that another one vouches for, or itself; and its key, for all to read."""
    crt, key = folder / f"{name}.crt", folder / f"{name}.key"
    wanted = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
    files = ["-keyout", str(key), "-out", str(crt), "-addext", "subjectAltName=IP:127.0.0.1"]
    if by:
        files += ["-CA", str(folder / f"{by}.crt"), "-CAkey", str(folder / f"{by}.key")]
        files += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(["openssl", *wanted.split(), *files], check=True, capture_output=True)
    key.chmod(0o644)
    return crt, key


@pytest.fixture
def served(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path]]:
    """A database behind TLS alone: its url, the certificate of its authority, and that of another one."""
    folder = tmp_path_factory.mktemp("tls")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    ours, _ = certificate(folder, "authority")
    other, _ = certificate(folder, "other")
    crt, key = certificate(folder, "database", by="authority")
    options = f"client_tls_sslmode = require\nclient_tls_cert_file = {crt}\nclient_tls_key_file = {key}"
    with pgbouncer(database_url, options) as url:
        yield url, ours, other


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_a_known_server_is_spoken_to_in_secret(served: tuple[str, Path, Path]) -> None:
    """With `sslmode=verify-full`: a server of another authority or name is refused, with what to do."""
    url, ours, other = served
    database = Database(f"{url}?sslmode=verify-full&sslrootcert={ours}")
    assert await database.read(lambda connection: connection.pgconn.ssl_in_use)
    await database.close()

    elsewhere = f"{url.replace('127.0.0.1', 'db.example')}?hostaddr=127.0.0.1&sslmode=verify-full"
    remedy = r"\. In the address, `sslrootcert` must name the certificate of"
    for wrong, told in (
        (f"{url}?sslmode=verify-full&sslrootcert={other}", "certificate verify failed" + remedy),
        (f"{elsewhere}&sslrootcert={ours}", 'does not match host name "db.example"' + remedy),
        (f"{url}?sslmode=verify-full&sslrootcert={ours}.none", "does not exist" + remedy),
        (f"{url}?sslmode=disable", r"SSL required\.$"),
    ):
        async with opened(wrong, retry_seconds=0.1) as refused:
            with pytest.raises(DatabaseUnreachable, match=told):
                await refused.read(lambda connection: connection.execute("SELECT 1").fetchone())
