"""Outages that last longer than everybody's patience: workers work again or exit, and nothing is doubled."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

import pytest

from nacre.extensions.postgres.server.connections import ConnectionLimits
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.crowd import Crowd
from tests.extensions.postgres.workers.served import answer, gateway, greeting, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.cut_network import CutNetwork
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

CHATS = 6
OUTAGE_SECONDS = float(os.environ.get("NACRE_WORKER_SECONDS", "6"))
RECOVERY_SECONDS = 150.0
IMPATIENT = ConnectionLimits(most_connections=3, retry_seconds=OUTAGE_SECONDS / 20)
"""An outage is for these what one of ten minutes is for others: twenty times as long as they try again."""


@pytest.mark.timeout(800)
@pytest.mark.parametrize(
    ("state", "limits", "is_gateway_cut"),
    [("cut", None, False), ("silent", None, True), ("cut", IMPATIENT, True)],
)
async def test_every_worker_takes_turns_after_an_outage(
    tmp_path: Path,
    database_url: str,
    state: Literal["cut", "silent"],
    limits: ConnectionLimits | None,
    is_gateway_cut: bool,
) -> None:
    """Each of three, asked alone; what was said during the outage is answered once, in order. Of the workers
    alone, or of the gateway too."""
    with (
        LineServer() as server,
        ProviderServer(responder=answer) as provider,
        CutNetwork(database_url) as network,
    ):
        write_settings(tmp_path, settings(provider, CHATS))
        workers = [started(tmp_path, network.url, limits=limits) for _ in range(3)]
        crowd = Crowd(server, CHATS)
        try:
            async with gateway(tmp_path, network.url if is_gateway_cut else database_url, server.port):
                await crowd.talk(3)
                network.become(state)
                await crowd.talk(OUTAGE_SECONDS)
                network.become("open")
                await crowd.answered(RECOVERY_SECONDS)
                assert crowd.problems() == []
                for worker in workers:
                    await _works_alone(worker, workers, crowd)
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


async def test_a_worker_that_starts_in_an_outage_exits(tmp_path: Path, database_url: str) -> None:
    """It does not hang, so whoever keeps it running starts the next one, which works."""
    with (
        LineServer() as server,
        ProviderServer(responder=greeting) as provider,
        CutNetwork(database_url) as network,
    ):
        write_settings(tmp_path, settings(provider, 1))
        network.become("cut")
        early = started(tmp_path, network.url)
        await asyncio.to_thread(early.join, RECOVERY_SECONDS)
        network.become("open")
        worker = started(tmp_path, network.url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hello", chat="n", sender="ann")
                await server.until(lambda server: server.sent)
        finally:
            for process in (early, worker):
                process.kill()
                process.join()
    assert early.exitcode == 1
    assert server.shown("n") == ["hi"]


async def test_programs_stop_in_an_outage(tmp_path: Path, database_url: str) -> None:
    """A worker in the middle of a turn, and its gateway: both end without the database, which they cannot
    tell, and others go on."""
    begun, goes_on = threading.Event(), threading.Event()

    def slow(_request: Mapping[str, Any]) -> wire.Step:
        begun.set()
        goes_on.wait(RECOVERY_SECONDS)
        return wire.reply("hi")

    with (
        LineServer() as server,
        ProviderServer(responder=slow) as provider,
        CutNetwork(database_url) as network,
    ):
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, network.url, limits=IMPATIENT)
        try:
            async with asyncio.timeout(RECOVERY_SECONDS), gateway(tmp_path, network.url, server.port):
                server.say("hello", chat="n", sender="ann")
                await asyncio.to_thread(begun.wait, RECOVERY_SECONDS)
                network.become("cut")
                assert worker.pid is not None
                os.kill(worker.pid, signal.SIGTERM)
                await asyncio.to_thread(worker.join, RECOVERY_SECONDS)
                assert worker.exitcode is not None
            goes_on.set()
            network.become("open")
            worker = started(tmp_path, network.url)
            async with gateway(tmp_path, network.url, server.port):
                await server.until(lambda server: server.sent)
        finally:
            worker.kill()
            worker.join()
    assert server.shown("n") == ["hi"]


LONG = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(64))
"""No index of the server takes it, and it cannot be made shorter."""


@pytest.mark.parametrize(
    "bad",
    [{"chat": "a\0b"}, {"chat": "a\ud800b"}, {"sender": "\0"}, {"thread_id": "\ud800"}, {"chat": LONG}],
    ids=["nul", "half a character", "sender", "thread", "long"],
)
async def test_a_bad_id_stops_nobody(tmp_path: Path, database_url: str, bad: Mapping[str, str]) -> None:
    """A message with an id that cannot be stored is passed over for good, and the next one is answered, also
    when its names have such characters."""
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        server.say("hello", **{"chat": "b", "sender": "ann", **bad})
        server.say("hello", chat="n", sender="ann", chat_name="a\0", sender_name="a\ud800b")
        try:
            async with gateway(tmp_path, database_url, server.port):
                await server.until(lambda server: server.sent)
            async with gateway(tmp_path, database_url, server.port) as again:
                server.say("hello", chat="m", sender="ann")
                await server.until(lambda server: server.shown("m"))
                assert [each.restarts for each in again.statuses] == [0]
        finally:
            worker.kill()
            worker.join()
    assert {sent.chat for sent in server.sent} == {"n", "m"}


async def test_a_turn_that_nobody_can_read_ends_no_worker(tmp_path: Path, database_url: str) -> None:
    """It is given up, and the next one of its session runs."""
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        await run_sql(database_url, SPOIL)
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("spoiled", chat="n", sender="ann")
                server.say("hello", chat="n", sender="ann")
                await server.until(lambda server: len(server.sent) == 2)
                assert worker.is_alive()
        finally:
            worker.kill()
            worker.join()
    assert "cannot be read" in server.shown("n")[0]
    assert server.shown("n")[1] == "hi"


SPOIL = """
CREATE FUNCTION spoiled() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN NEW.inbound = ''{}''; RETURN NEW; END';
CREATE TRIGGER spoiled BEFORE INSERT ON turns FOR EACH ROW
    WHEN (NEW.inbound LIKE '%spoiled%') EXECUTE FUNCTION spoiled();
"""


async def test_refused_answers_are_sent_when_the_database_accepts_them(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """Twenty answers wait while each change of the outbox is refused, and none needs a new start."""
    url = postgres_server.database()
    chats = 20
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, chats))
        worker = started(tmp_path, url)
        crowd = Crowd(server, chats)
        try:
            async with gateway(tmp_path, url, server.port):
                await run_sql(url, REFUSE)
                crowd.speak()
                await crowd.answered(3)
                assert server.sent == []
                await run_sql(url, "DROP TRIGGER refused ON ledger_outbound")
                await crowd.answered(RECOVERY_SECONDS)
        finally:
            worker.kill()
            worker.join()
    assert crowd.problems() == []


REFUSE = """
CREATE FUNCTION refused() RETURNS TRIGGER LANGUAGE plpgsql
AS 'BEGIN RAISE EXCEPTION ''no space left on device'' USING ERRCODE = ''disk_full''; END';
CREATE TRIGGER refused BEFORE UPDATE ON ledger_outbound FOR EACH ROW EXECUTE FUNCTION refused();
"""


async def run_sql(url: str, statements: str) -> None:
    import psycopg

    def run() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statements.encode())

    await asyncio.to_thread(run)


async def _works_alone(worker: BaseProcess, workers: Sequence[BaseProcess], crowd: Crowd) -> None:
    """A worker answers everybody while the others are paused, or has exited."""
    if not worker.is_alive():
        return
    others = [each.pid for each in workers if each is not worker and each.is_alive() and each.pid]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        crowd.speak()
        await crowd.answered(RECOVERY_SECONDS)
        assert crowd.problems() == []
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
