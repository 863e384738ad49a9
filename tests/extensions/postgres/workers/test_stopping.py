"""`/stop` reaches a turn that a worker runs, and the session goes on behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.answering.dispatch import STOPPED
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres


def answer(request: Mapping[str, Any]) -> wire.Step:
    """Hangs over the first words, for ever."""
    return wire.reply("re: more") if "more" in json.dumps(request["messages"][-1]) else wire.stall()


async def test_a_turn_is_stopped_where_it_runs(tmp_path: Path, database_url: str) -> None:
    """The worker leaves the model and the session, and runs the next turn."""
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                server.say("hang", chat="n", sender="nora")
                await server.until(lambda _: provider.requests)
                server.say("/stop", chat="n", sender="nora")
                await provider.client_left()
                server.say("more", chat="n", sender="nora")
                await server.until(lambda server: len(server.sent) == 2)
        finally:
            worker.kill()
            worker.join()
    assert server.shown("n") == [STOPPED, "re: more"]
