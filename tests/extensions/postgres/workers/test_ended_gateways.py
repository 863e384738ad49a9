"""A gateway that ends again and again while workers have a turn does not give the message up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.queueing.batches import MAX_ATTEMPTS
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.serving.test_serve import line_settings, taken_over
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres
MOST_WAIT_SECONDS = 60


def answer(request: Mapping[str, Any]) -> wire.Step:
    """What was said last."""
    return wire.reply("re: " + re.findall(r"number \w+", json.dumps(request["messages"]))[-1])


async def test_a_turn_outlives_gateway_after_gateway(tmp_path: Path, database_url: str) -> None:
    """Each begins the message anew; only where it runs the turn may the message be the cause."""
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 1))
        server.say("number one", chat="n", sender="nora")
        for attempts in range(1, MAX_ATTEMPTS + 2):
            async with gateway(tmp_path, database_url, server.port):
                await _begun(database_url, attempts)
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                await server.until(lambda server: server.sent)
        finally:
            worker.kill()
            worker.join()
    assert server.shown("n") == ["re: number one"]


def test_a_standby_takes_over_from_a_gateway_that_was_killed(tmp_path: Path, database_url: str) -> None:
    """It has a state folder of its own, as on another machine; a message is answered by one of both."""
    path = install_line(tmp_path / "site")
    first, second = tmp_path / "first", tmp_path / "second"
    with LineServer() as server:
        for home in (first, second):
            home.mkdir()
            line_settings(home, server.port, storage={"driver": "postgres", "url": database_url})
        taken_over(server, first, second, PYTHONPATH=path)


async def _begun(url: str, attempts: int) -> None:
    import psycopg

    asked = "SELECT 1 FROM ledger_inbound WHERE attempts >= %s"
    with psycopg.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(MOST_WAIT_SECONDS):
            while connection.execute(asked, (attempts,)).fetchone() is None:
                await asyncio.to_thread(lambda: None)
