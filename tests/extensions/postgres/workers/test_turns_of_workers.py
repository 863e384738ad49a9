"""`nacre status` beside a gateway whose turns workers run: what waits, how long, and for whom."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from nacre.extensions.postgres.workers.gateway import NO_WORKER_LIVES
from tests.bridges.line_channel import LineServer
from tests.cli.program import run_nacre
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres


async def test_what_waits_for_a_worker_is_told(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Three chats wait and nobody works, which is not well; the words say the same as the JSON.

    The log says it after five seconds, and `/status` at once.
    """

    def status(*options: str) -> CompletedProcess[str]:
        given = ("status", "--state-dir", str(tmp_path), *options)
        return run_nacre(tmp_path, *given, NACRE_DATABASE_URL=database_url)

    with LineServer() as server, ProviderServer() as provider:
        write_settings(tmp_path, {**settings(provider, 3), "storage": {"workers": True}})
        async with gateway(tmp_path, database_url, server.port) as opened:
            for chat in ("a", "b", "c"):
                server.say("hello", chat=chat, sender=chat)
            async with asyncio.timeout(30):
                while True:
                    done = await asyncio.to_thread(status, "--json")
                    turns = json.loads(done.stdout)["turns"]
                    if turns["waiting"] == 3:
                        break
            said = await asyncio.to_thread(status)
            server.say("/status", chat="n", sender="nora")
            async with asyncio.timeout(30):
                while not (NO_WORKER_LIVES in caplog.text and NO_WORKER_LIVES in "".join(server.shown("n"))):
                    await asyncio.to_thread(lambda: None)
            assert not opened.is_idle
    assert f"3 turns wait. {NO_WORKER_LIVES}" in caplog.text
    assert done.returncode == 1
    assert turns["waitingSeconds"] > 0
    assert {"running": 0, "leases": 0, "leasesRunOut": 0, "workers": 0, "places": 0}.items() <= turns.items()
    assert "⚙️ Turns: 3 wait" in said.stdout


async def test_the_gateway_does_not_cap_its_workers(tmp_path: Path, database_url: str) -> None:
    """Six turns run at once in a worker with eight places, although `maxConcurrent` is two."""
    together = threading.Barrier(6, timeout=120)

    def answer(_request: Mapping[str, Any]) -> wire.Step:
        together.wait()
        return wire.reply("together")

    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                for chat in "abcdef":
                    server.say("hello", chat=chat, sender=chat)
                await server.until(lambda server: len(server.sent) == 6)
        finally:
            worker.kill()
            worker.join()
    assert {sent.text for sent in server.sent} == {"together"}
