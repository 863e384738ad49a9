"""A message that comes while a worker runs its chat's turn is said into that turn, in `steer`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres
MOST_WAIT_SECONDS = 60


async def test_a_message_goes_into_the_turn_that_a_worker_runs(tmp_path: Path, database_url: str) -> None:
    """The model reads it behind its tools, one answer is for both, and no turn follows.

    A worker looks each second, which is how long this takes.
    """
    said = threading.Event()
    numbers = iter(range(1, 1_000))

    def answer(request: Mapping[str, Any]) -> wire.Step:
        """Reads on until it heard the second message."""
        said.wait(MOST_WAIT_SECONDS)
        if "and two" in json.dumps(request["messages"]):
            return wire.reply("both")
        return wire.tool_calls(("read", {"path": "MEMORY.md", "offset": next(numbers)}))

    with LineServer() as server, ProviderServer(responder=answer) as provider:
        chosen = settings(provider, 1)
        chosen["agents"]["defaults"]["maxSteps"] = 1_000
        queue = {"mode": "steer", "debounceMs": 0}
        write_settings(tmp_path, {**chosen, "messages": {"queue": queue}})
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port) as opened:
                server.say("one", chat="n", sender="nora")
                await server.until(lambda _: provider.requests)
                server.say("and two", chat="n", sender="nora")
                await _said_into(database_url)
                said.set()
                await server.until(lambda server: len(server.sent) == 1)
                async with asyncio.timeout(MOST_WAIT_SECONDS):
                    while not opened.is_idle:
                        await asyncio.to_thread(lambda: None)
                assert (await opened.tables.not_done()) == {}
        finally:
            said.set()
            worker.kill()
            worker.join()
    assert server.shown("n") == ["both"]


async def _said_into(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(MOST_WAIT_SECONDS):
            while connection.execute("SELECT 1 FROM turn_words").fetchone() is None:
                await asyncio.to_thread(lambda: None)
