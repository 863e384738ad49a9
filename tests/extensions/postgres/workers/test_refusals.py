"""A server that refuses its programs for a while: a sentence says why, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.server.connections import ConnectionLimits, DatabaseUnreachable
from nacre.extensions.postgres.server.database import Database
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, run_nacre
from tests.cli.serving.test_serve import line_settings, serving
from tests.extensions.postgres.workers.crowd import Crowd
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.test_outages import RECOVERY_SECONDS, answer
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers.postgres_server import PostgresServer, running_server
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres
CHATS = 4
CUT = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'app'"
REFUSALS = {
    "password": ("ALTER ROLE app PASSWORD 'other'", "ALTER ROLE app PASSWORD 'right'", "password"),
    "connections": (
        *("ALTER ROLE app CONNECTION LIMIT 0", "ALTER ROLE app CONNECTION LIMIT -1"),
        "too many connections.*a worker opens at most 4.*`ALTER ROLE",
    ),
    "read-only": (
        "ALTER ROLE app SET default_transaction_read_only = on",
        "ALTER ROLE app RESET default_transaction_read_only",
        "read-only transaction.*`target_session_attrs=read-write`",
    ),
    "renamed": (
        f"ALTER DATABASE {{name}} ALLOW_CONNECTIONS false; {CUT}; ALTER DATABASE {{name}} RENAME TO away",
        "ALTER DATABASE away RENAME TO {name}; ALTER DATABASE {name} ALLOW_CONNECTIONS true",
        "does not exist",
    ),
}
"""How each begins and ends, and what a program says of it."""


@pytest.fixture
def app_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of a role with a password."""
    access = Path(postgres_server._server.pgdata, "pg_hba.conf")
    before = access.read_text()
    access.write_text(f"local all app scram-sha-256\n{before}")
    url = postgres_server.empty_database()
    name = url.split("@/")[1].split("?")[0]
    for statement in (
        "SELECT pg_reload_conf()",
        "CREATE ROLE app LOGIN PASSWORD 'right'",
        f"ALTER DATABASE {name} OWNER TO app",
    ):
        postgres_server.run(statement)
    run_on(url, "CREATE EXTENSION vector")
    yield url.replace("postgres:@", "app:right@")
    postgres_server.drop(url)
    postgres_server.run("DROP ROLE app")
    access.write_text(before)


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refusal_is_told_and_survived(
    tmp_path: Path, postgres_server: PostgresServer, app_url: str, refusal: str
) -> None:
    """Open connections end, and new ones are refused or read-only. A program that runs and one that starts
    say so; gateway and worker answer everybody afterwards, once and in order."""
    begin, end, told = REFUSALS[refusal]
    name = app_url.split("@/")[1].split("?")[0]

    async def become(statements: str) -> None:
        for statement in [*statements.format(name=name).split("; "), CUT]:
            await asyncio.to_thread(postgres_server.run, statement)

    def add(connection: Any) -> None:
        connection.execute("INSERT INTO paused_agents VALUES ('nobody') ON CONFLICT DO NOTHING")

    running, starting = (Database(app_url, limits=ConnectionLimits(retry_seconds=1.5)) for _ in range(2))
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, CHATS))
        await running.write(add)
        worker, crowd = started(tmp_path, app_url), Crowd(server, CHATS)
        try:
            async with gateway(tmp_path, app_url, server.port):
                crowd.speak()
                await crowd.answered(RECOVERY_SECONDS)
                await become(begin)
                for database in (running, starting):
                    with pytest.raises(DatabaseUnreachable, match=told):
                        await database.write(add)
                await crowd.talk(2)  # each says one more thing
                await become(end)
                await crowd.answered(RECOVERY_SECONDS)
            assert worker.is_alive()
        finally:
            worker.kill()
            worker.join()
            for database in (running, starting):
                await database.close()
    assert sum(crowd.said.values()) == 2 * CHATS
    assert crowd.problems() == []


async def test_everybody_is_answered_where_nothing_can_notify(
    tmp_path: Path, postgres_server: PostgresServer, app_url: str
) -> None:
    """As with a queue of notifications that is full: messages and outcomes are stored, and looked for."""
    run_on(postgres_server.url(app_url.split("@/")[1].split("?")[0]), NO_NOTIFY)
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, CHATS))
        worker, crowd = started(tmp_path, app_url), Crowd(server, CHATS)
        try:
            async with gateway(tmp_path, app_url, server.port):
                crowd.speak()
                await crowd.answered(RECOVERY_SECONDS)
        finally:
            worker.kill()
            worker.join()
    assert crowd.problems() == []
    assert len(provider.requests) == CHATS


NO_NOTIFY = "REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC"


async def test_a_program_with_few_connections_goes_on_and_says_so(
    postgres_server: PostgresServer, app_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Concurrent statements share the only connection, and the log names the limits that help."""
    database = Database(app_url)
    await database.read(lambda connection: connection.execute("SELECT"))
    await asyncio.to_thread(postgres_server.run, "ALTER ROLE app CONNECTION LIMIT 1")
    work = [database.read(lambda connection: connection.execute("SELECT pg_sleep(0.1)")) for _ in range(4)]
    began = time.monotonic()
    await asyncio.gather(*work)
    assert time.monotonic() - began < ConnectionLimits().retry_seconds
    await database.close()
    [told] = [each.getMessage() for each in caplog.records if "too many connections" in each.getMessage()]
    assert "`ALTER ROLE … CONNECTION LIMIT`" in told
    assert "right" not in told


@pytest.mark.slow
async def test_a_standby_is_told_and_takes_over(tmp_path: Path) -> None:
    """An address that leads to it alone is refused with what helps. With both hosts, programs go on once it
    is the primary, and everybody is answered, once and in order."""
    with (
        running_server() as primary,
        primary.standby() as (folder, promote),
        LineServer() as server,
        ProviderServer(responder=answer) as provider,
    ):
        url = primary.database()
        host = url.split("host=")[1]
        alone = Database(url.replace(host, folder), limits=ConnectionLimits(retry_seconds=1.5))
        for work in (alone.write, alone.single):
            with pytest.raises(DatabaseUnreachable, match="`target_session_attrs=read-write` chooses"):
                await work(lambda connection: connection.execute("DELETE FROM turns"))
        await alone.close()
        both = url.replace(host, f"{folder},{host}&target_session_attrs=read-write")
        write_settings(tmp_path, settings(provider, CHATS))
        worker, crowd = started(tmp_path, both), Crowd(server, CHATS)
        try:
            async with gateway(tmp_path, both, server.port):
                await crowd.talk(2)
                await asyncio.to_thread(primary.stop)
                await crowd.talk(1)
                await asyncio.to_thread(promote)
                await crowd.answered(RECOVERY_SECONDS)
                crowd.speak()
                await crowd.answered(RECOVERY_SECONDS)
        finally:
            worker.kill()
            worker.join()
            primary.restart()
    assert crowd.problems() == []


def test_a_gateway_whose_rows_are_gone_ends(tmp_path: Path, database_url: str) -> None:
    """As behind the restore of an older dump: exit code 1 and a sentence, and the next start answers."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port, storage={"driver": "postgres", "url": database_url})
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("Who are you?", chat="before")
            server.wait_for(lambda server: server.shown("before"))
            for table in ("holders", "gateways", "accounts"):
                run_on(database_url, f"DELETE FROM ledger_{table}")
            assert process.wait(WAIT_SECONDS) == 1
            assert process.stderr is not None
            assert "an older database was restored" in process.stderr.read()
        with serving(tmp_path, PYTHONPATH=path):
            server.say("Who are you?", chat="after")
            server.wait_for(lambda server: server.shown("after"))


def run_on(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_check_tries_to_write(tmp_path: Path, app_url: str) -> None:
    """A read-only database is reported before anything starts. The check changes nothing in another one."""
    path = install_line(tmp_path / "site")
    line_settings(tmp_path, 9, storage={"driver": "postgres", "url": app_url})

    usable = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=path)
    run_on(app_url, "REVOKE DELETE ON ledger_people FROM app")
    unusable = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=path)

    assert usable.returncode == 0, usable.stderr
    assert unusable.returncode == 1
    assert "permission denied for table ledger_people" in unusable.stderr
