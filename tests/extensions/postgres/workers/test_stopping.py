"""`/stop` reaches a turn wherever it runs, and the session goes on behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from nacre.bridges.answering.dispatch import STOPPED
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import gateway_started, started
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


async def test_what_is_said_right_after_a_stop_is_answered(tmp_path: Path, database_url: str) -> None:
    """The worker has the next turn of the session before it leaves the one that was stopped."""
    rounds, hanging = 6, Queue[int]()

    def heard(request: Mapping[str, Any]) -> wire.Step:
        if "hang" in json.dumps(request["messages"][-1]):
            hanging.put(len(provider.requests))
        return answer(request)

    with LineServer() as server, ProviderServer(responder=heard) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port):
                for number in range(1, rounds + 1):
                    server.say("hang", chat="n", sender="nora")
                    await asyncio.to_thread(hanging.get, timeout=60)
                    server.say("/stop", chat="n", sender="nora")
                    server.say("more", chat="n", sender="nora")
                    await server.until(lambda at, sent=2 * number: len(at.sent) >= sent)
        finally:
            worker.kill()
            worker.join()
    assert sorted(server.shown("n")) == [*["re: more"] * rounds, *[STOPPED] * rounds]


async def test_a_turn_is_stopped_in_another_program(tmp_path: Path, database_url: str) -> None:
    """Nobody has workers: the owner writes in a chat of one program and stops in a chat of another one. The
    message is not answered again, and the session goes on.
    """
    with LineServer() as server, LineServer() as other, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, {**settings(provider, 1), "session": {}})
        serving = gateway_started(tmp_path, database_url, server.port, runs_here=True)
        try:
            server.say("hang", chat="n", sender="nora")
            await server.until(lambda _: provider.requests)
            async with gateway(tmp_path, database_url, 0, shares={"other": other.port}, runs_here=True):
                other.say("/stop", chat="n", sender="nora")
                await provider.client_left()
                await other.until(lambda at: at.sent)
                other.say("more", chat="n", sender="nora")
                await other.until(lambda at: len(at.sent) == 2)
        finally:
            serving.kill()
            await asyncio.to_thread(serving.join)
    assert other.shown("n") == [STOPPED, "re: more"]
    assert server.sent == []
    assert len(provider.requests) == 2
