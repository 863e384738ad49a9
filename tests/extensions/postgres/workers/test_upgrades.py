"""Tables of former versions go on, and programs work beside those of a later one until they are replaced."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, LiteralString

import pytest

from nacre.extensions.postgres.server.database import Database, Migration, packaged_migrations
from nacre.extensions.postgres.workers.gateway import LOOK_SECONDS
from nacre.extensions.postgres.workers.stored_events import outcome_of
from nacre.runtime.contracts.events import ReplyReady
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.ledger.records import inbound_to_json
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.crowd import Crowd
from tests.extensions.postgres.workers.served import answer, gateway, greeting, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.house.tree import ROOT
from tests.runtime.agents import write_settings
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

FORMER = sorted((ROOT / "tests" / "fixtures" / "postgres").glob("schema-*.sql.gz"))
"""Dumps of what former versions left: ann said one and two and was answered; three waits."""
LATER = Migration(
    number=9_000,
    name="9000_later",
    sql="ALTER TABLE turns ADD COLUMN later TEXT; CREATE TABLE later (agent TEXT)",
)
END = Migration(number=9_001, name="9001_end", sql="-- Breaks programs of an older version\nDROP TABLE later")
SECONDS = 60.0
FORMER_FINISH: LiteralString = """
UPDATE turns SET state = 'done', outcome = %s, inbound = '', done_at = clock_timestamp()
WHERE state <> 'done' RETURNING pg_notify('nacre_turns', 'ended')::text
"""
FORMER_ASK: LiteralString = """
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered)
VALUES ('main', '1', 'agent:main:main', %s, FALSE) RETURNING pg_notify('nacre_turns', 'asked')::text
"""
"""As programs of 28 November say it."""


@pytest.mark.parametrize("former", FORMER, ids=lambda path: path.name.partition(".")[0])
async def test_what_a_former_version_left_goes_on(
    tmp_path: Path, postgres_server: PostgresServer, former: Path
) -> None:
    """The message that waited is answered, once, and the conversation goes on with what was said before."""
    from pgserver._commands import POSTGRES_BIN_PATH

    url = postgres_server.empty_database()
    restore = [str(POSTGRES_BIN_PATH / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", url]
    dump = gzip.decompress(former.read_bytes())
    await asyncio.to_thread(subprocess.run, restore, input=dump, check=True, capture_output=True)
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        written = settings(provider, 1)
        written["session"] |= {"reset": {"mode": "none"}}  # the tables were dumped on another day
        write_settings(tmp_path, written)
        for text in ("one", "two", "three"):
            server.say(text, chat="n", sender="ann")
        worker = started(tmp_path, url)
        try:
            async with gateway(tmp_path, url, server.port):
                await server.until(lambda server: server.sent)
                server.say("four", chat="n", sender="ann")
                await server.until(lambda server: len(server.sent) == 2)
        finally:
            worker.kill()
            worker.join()
        said = [
            message["content"]
            for message in provider.requests[-1]["messages"]
            # A day after the tables were dumped, the note of a new day stands between.
            if message["role"] == "user" and not message["content"].startswith("[Nacre adds this;")
        ]
    assert [each.rpartition("\n")[2].rpartition("] ")[2] for each in said] == ["one", "two", "three", "four"]
    assert len(provider.requests) == 2


async def test_everything_is_replaced_one_after_the_other(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """While six chats talk: the tables become a later version's, then each worker and the gateway ends and
    another begins. Nothing is lost, doubled or out of order. No worker begins behind its version's end."""
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 6))
        crowd, workers = Crowd(server, 6), [started(tmp_path, url) for _ in range(2)]
        try:
            async with gateway(tmp_path, url, server.port):
                await crowd.talk(1.5)
                await _migrated(url, LATER)
                await crowd.talk(1.5)
                for place, worker in enumerate(workers):
                    assert worker.pid is not None
                    os.kill(worker.pid, signal.SIGTERM)
                    workers[place] = started(tmp_path, url)
                    await crowd.talk(1.5)
                    await asyncio.to_thread(worker.join, SECONDS)
                    assert worker.exitcode == 0
            async with gateway(tmp_path, url, server.port):
                await crowd.talk(1.5)
                await crowd.answered(SECONDS)
            await _migrated(url, LATER, END)
            late = started(tmp_path, url)
            await asyncio.to_thread(late.join, SECONDS)
            assert late.exitcode == 1
        finally:
            for worker in workers:
                worker.kill()
                worker.join()
    assert sum(crowd.said.values()) > 12
    assert crowd.problems() == []


async def test_a_worker_of_before_is_heard_at_once(tmp_path: Path, database_url: str) -> None:
    """It says to all gateways that a turn has ended, and today's does not wait for its next look."""
    outcome, took = outcome_of(ReplyReady(reply=Reply(text="hi", session_key="k", session_id="s"))), []
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        async with gateway(tmp_path, database_url, server.port, hears=True):
            for number in range(1, 4):  # of several one is not held up by other work
                server.say(f"hello {number}", chat="n", sender="ann")
                async with asyncio.timeout(SECONDS):
                    while not await _asked(database_url, FORMER_FINISH, outcome):
                        pass
                ended = time.monotonic()
                await server.until(lambda at, number=number: len(at.sent) == number)
                took.append(time.monotonic() - ended)
    assert min(took) < 0.5 * LOOK_SECONDS


async def test_what_nobody_told_of_is_found(tmp_path: Path, database_url: str) -> None:
    """Whoever stored a turn, or its outcome, may be killed before it notifies: others look, too."""
    outcome = outcome_of(ReplyReady(reply=Reply(text="so", session_key="k", session_id="s")))
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        async with gateway(tmp_path, database_url, server.port, hears=True):
            server.say("hello", chat="n", sender="ann")
            async with asyncio.timeout(SECONDS):
                while not await _asked(database_url, _silent(FORMER_FINISH), outcome):
                    pass
            await server.until(lambda at: at.shown("n") == ["so"])
        inbound = Inbound(text="hello", message_id="1", chat_kind="direct", sender_id="ann")
        worker = started(tmp_path, database_url)
        try:
            await _asked(database_url, _silent(FORMER_ASK), inbound_to_json(inbound))
            async with asyncio.timeout(SECONDS):
                while await _asked(database_url, "SELECT %s FROM turns WHERE state <> 'done'", ""):
                    pass
        finally:
            worker.kill()
            worker.join()
    assert len(provider.requests) == 1


def _silent(statement: LiteralString) -> LiteralString:
    return f"{statement.partition('RETURNING')[0]} RETURNING id"


async def test_a_gateway_of_before_hears_of_its_turn(tmp_path: Path, database_url: str) -> None:
    """It names no channel for a turn, so a worker says to all that the turn has ended."""
    import psycopg

    with ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        inbound = inbound_to_json(Inbound(text="hello", message_id="1", chat_kind="direct", sender_id="ann"))
        worker = started(tmp_path, database_url)
        try:
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
                await connection.execute("LISTEN nacre_turns")
                await _asked(database_url, FORMER_ASK, inbound)
                heard = [each.payload async for each in connection.notifies(timeout=SECONDS, stop_after=2)]
        finally:
            worker.kill()
            worker.join()
    assert heard == ["asked", "ended"]


async def _asked(url: str, statement: LiteralString, value: str) -> list[Any]:
    import psycopg

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        return await (await connection.execute(statement, [value])).fetchall()


async def _migrated(url: str, *later: Migration) -> None:
    database = Database(url, migrations=[*packaged_migrations(), *later])
    await database.read(lambda connection: connection.execute("SELECT 1"))
    await database.close()
