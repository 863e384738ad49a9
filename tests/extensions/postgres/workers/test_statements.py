"""What programs ask of the server: statements of a turn and of nothing to do, and work behind a pooler."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from nacre.extensions.postgres.server.database import Pace
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

TURNS = 6
MOST_STATEMENTS = 46
"""For a turn; 42 where nothing waits. BEGIN and COMMIT count, and so does each statement that a transaction
begins with. A slow machine looks for turns and edits a draft once more."""
MOST_WRITING = 15
"""Transactions that wrote, for a turn; 13.5 where nothing waits."""
_OF_THE_CLOCK = ("INTO processes", "UPDATE processes")


def greeting(_request: Mapping[str, Any]) -> wire.Step:
    return wire.reply("hi")


async def test_a_turn_makes_few_statements(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Of gateway and worker together, from the message to the answer that was sent."""
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, url)
        try:
            async with gateway(tmp_path, url, server.port):
                await _talk(server, 2)
                began = _transactions(postgres_server)
                with postgres_server.logged(url) as statements:
                    await _talk(server, TURNS)
                    await asyncio.sleep(0.3)
                wrote = _transactions(postgres_server) - began
        finally:
            worker.kill()
            worker.join()
    beats = sum(any(words in each for words in _OF_THE_CLOCK) for each in statements)
    made = sum(len(each.split("; ")) for each in statements) - beats
    assert made / TURNS <= MOST_STATEMENTS, "\n".join(statements)
    assert (wrote - beats) / TURNS <= MOST_WRITING


async def test_who_has_nothing_to_do_says_little(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """A worker says that it lives and looks for turns, at most once a second each; a gateway says nothing."""
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, url, Pace())
        try:
            async with gateway(tmp_path, url, server.port):
                await _talk(server, 1)
                with postgres_server.logged(url) as statements:
                    await asyncio.sleep(6)
                [(connections,)] = postgres_server.run(_CONNECTIONS.format(url.split("@/")[1].split("?")[0]))
        finally:
            worker.kill()
            worker.join()
    assert len(statements) / 6 <= 2, "\n".join(statements)
    assert connections <= 4 + 4, "those of the worker, and of a gateway that uses few"


_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'"


def _transactions(server: PostgresServer) -> int:
    [(number,)] = server.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    return int(number)


@pytest.fixture
def pooled_url(tmp_path: Path, database_url: str) -> Iterator[str]:
    """The database through a pgbouncer in transaction mode with two connections to the server."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer: apt-get install pgbouncer")
    folder = parse_qs(urlsplit(database_url).query)["host"][0]
    name = urlsplit(database_url).path[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        users, config = Path(place, "users.txt"), Path(place, "pgbouncer.ini")
        users.write_text('"postgres" ""\n')
        config.write_text(
            f"[databases]\n{name} = host={folder} dbname={name}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
            "pool_mode = transaction\ndefault_pool_size = 2\n"
        )
        user = ["-u", Path(folder).owner()] if os.getuid() == 0 else []
        running = subprocess.Popen([program, *user, str(config)], stderr=subprocess.DEVNULL)
        try:
            url = f"postgresql://postgres:@127.0.0.1:{port}/{name}"
            _await_port(port)
            yield url
        finally:
            running.terminate()
            running.wait()


def _await_port(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            threading.Event().wait(0.05)
    raise AssertionError("pgbouncer did not start")


async def test_workers_run_behind_a_pooler(tmp_path: Path, database_url: str, pooled_url: str) -> None:
    """Several chats at once through pgbouncer in transaction mode, whose connections everybody shares."""
    chats = 4
    with LineServer() as server, ProviderServer(responder=greeting) as provider:
        write_settings(tmp_path, settings(provider, chats))
        workers = [started(tmp_path, pooled_url) for _ in range(2)]
        try:
            async with gateway(tmp_path, database_url, server.port):
                for turn in range(1, 6):
                    for chat in range(chats):
                        server.say("hello", chat=f"{chat}", sender=f"{chat}")
                    await server.until(lambda server, turn=turn: len(server.sent) == turn * chats)
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
