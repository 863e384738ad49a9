"""What programs ask of the server: statements of a turn and of nothing to do, and work behind a pooler."""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.server.database import Pace
from nacre.runtime.ledger.records import LedgerUnusable
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.pgbouncer import pgbouncer
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

TURNS = 6
MOST_STATEMENTS = 14
"""For the turn of several that made the fewest; 13 where nothing waits. BEGIN and COMMIT count, and so
does each statement that a transaction begins with. A slow machine only adds some: it looks once more."""
MOST_WRITING = 8
"""Transactions that got a number and do not only notify, for a turn; 7 where nothing waits."""
FRESH_SECONDS = 3
"""Files that were written in the last two seconds are read in each turn, for they may change once more."""
_OF_THE_CLOCK = ("INTO processes", "UPDATE processes", "FROM ledger_gateways")


def greeting(_request: Mapping[str, Any]) -> wire.Step:
    return wire.reply("hi")


async def test_a_turn_makes_few_statements(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Of gateway and worker together, from the message to the answer that was sent."""
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, url)
        try:
            async with gateway(tmp_path, url, 0, shares={"default": server.port}):
                began_at = time.monotonic()
                while time.monotonic() < began_at + FRESH_SECONDS:
                    await _talk(server, 1)
                wrote: list[int] = []
                with postgres_server.logged(url) as statements:
                    for _ in range(TURNS):
                        began = _transactions(postgres_server)
                        await _talk(server, 1)
                        wrote.append(_transactions(postgres_server) - began)
        finally:
            worker.kill()
            worker.join()
    made: list[list[str]] = []
    turn: list[str] = []
    for each in statements:
        if "ledger_receive" in each:
            made.append(turn := [])
        if not any(words in each for words in _OF_THE_CLOCK):
            turn += each.split("; ")
    assert len(made) == TURNS
    assert min(map(len, made)) <= MOST_STATEMENTS, "\n".join(min(made, key=len))
    notes = [sum("pg_notify(" in each for each in turn) for turn in made]
    only_notes = [sum(each.startswith("SELECT pg_notify(") for each in turn) for turn in made]
    assert notes == only_notes, "of transactions that notify, the server commits one at a time"
    assert min(map(operator.sub, wrote, notes)) <= MOST_WRITING


async def test_who_has_nothing_to_do_says_little(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """A worker says that it lives and looks for turns, at most once a second each; a gateway says that it
    lives and looks for accounts, too."""
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, url, Pace())
        try:
            async with gateway(tmp_path, url, 0, shares={"default": server.port}):
                await _talk(server, 1)
                with postgres_server.logged(url) as statements:
                    began = time.monotonic()
                    await asyncio.sleep(6)
                    seconds = time.monotonic() - began
                [(connections,)] = postgres_server.run(_CONNECTIONS.format(url.split("@/")[1].split("?")[0]))
        finally:
            worker.kill()
            worker.join()
    assert len(statements) / seconds <= 2, "\n".join(statements)
    assert connections <= 4 + 4, "those of the worker, and of a gateway that uses few"


_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'"


def _transactions(server: PostgresServer) -> int:
    [(number,)] = server.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    return int(number)


async def test_gateway_and_workers_run_behind_a_pooler(tmp_path: Path, database_url: str) -> None:
    """Several chats at once through pgbouncer in transaction mode, whose connections everybody shares; and
    a second gateway is kept away."""
    chats = 4
    with (
        LineServer() as server,
        ProviderServer(responder=greeting) as provider,
        pgbouncer(database_url) as pooled_url,
    ):
        write_settings(tmp_path, settings(provider, chats))
        workers = [started(tmp_path, pooled_url) for _ in range(2)]
        try:
            async with gateway(tmp_path, pooled_url, server.port):
                for turn in range(1, 6):
                    for chat in range(chats):
                        server.say("hello", chat=f"{chat}", sender=f"{chat}")
                    await server.until(lambda server, turn=turn: len(server.sent) == turn * chats)
                with pytest.raises(LedgerUnusable, match="Another program"):
                    async with gateway(tmp_path, database_url, server.port):
                        pass
        finally:
            for worker in workers:
                worker.kill()
                worker.join()
    assert {sent.text for sent in server.sent} == {"hi"}


async def _talk(server: LineServer, turns: int) -> None:
    for _ in range(turns):
        before = len(server.sent)
        server.say("hello", chat="n", sender="ann")
        await server.until(lambda server, before=before: len(server.sent) > before)
