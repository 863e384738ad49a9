"""Workers killed and paused, a gateway killed, a server that is away or refuses: all is answered once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.crowd import Crowd
from tests.extensions.postgres.workers.served import answer, gateway, settings
from tests.extensions.postgres.workers.test_outages import run_sql
from tests.extensions.postgres.workers.worker_process import PACE, gateway_started, started, stuck_started
from tests.runtime.agents import write_settings
from tests.servers.postgres_server import PostgresServer
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres

CHATS = int(os.environ.get("NACRE_WORKER_CHATS", "24"))
SECONDS = float(os.environ.get("NACRE_WORKER_SECONDS", "12"))
"""`make soak` is the long run."""
PAUSE_SECONDS = PACE.silent_seconds + 1.5
SETTLE_SECONDS = 60 + CHATS
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
FULL = """
CREATE FUNCTION refused() RETURNS TRIGGER LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''no space left on device'' USING ERRCODE = ''53100''; END';
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON ledger_outbound FOR EACH ROW EXECUTE FUNCTION refused();
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON transcript_lines FOR EACH ROW EXECUTE FUNCTION refused();
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON turns FOR EACH ROW EXECUTE FUNCTION refused();
"""


async def test_a_stuck_worker_exits_and_another_one_continues(tmp_path: Path, database_url: str) -> None:
    """Its event loop stands still in the middle of a turn: a thread ends the program, with a sentence."""
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 1))
        stuck = stuck_started(tmp_path, database_url)
        async with gateway(tmp_path, database_url, server.port):
            server.say("chat-0 says 1", chat="0", sender="0")
            await asyncio.to_thread(stuck.join, SETTLE_SECONDS)
            assert stuck.exitcode == 1
            assert "the worker is stuck and exits" in (tmp_path / "workers.log").read_text(encoding="utf-8")
            worker = started(tmp_path, database_url)
            try:
                await server.until(lambda server: server.shown("0") == ["re: chat-0 says 1"])
            finally:
                worker.kill()
                worker.join()


class Troubles:
    """What happens to the workers while people talk."""

    def __init__(self, state_dir: Path, url: str, postgres: PostgresServer, port: int) -> None:
        self._new = partial(started, state_dir, url)
        self._new_gateway = partial(gateway_started, state_dir, url, port)
        self.gateway = self._new_gateway()
        self._url = url
        self._postgres = postgres
        self._random = random.Random(7)
        self.workers: list[BaseProcess] = [self._new() for _ in range(3)]
        self.counts = dict.fromkeys(("kill", "pause", "restart", "gateway", "outage", "cut", "full"), 0)

    async def go_on(self, seconds: float) -> None:
        """One trouble after the other, each at least once."""
        ends = asyncio.get_running_loop().time() + seconds
        order = list(self.counts)
        while asyncio.get_running_loop().time() < ends or not all(self.counts.values()):
            await asyncio.sleep(self._random.uniform(0.5, 2.5))
            # One that starts in an outage exits, and whoever keeps it running starts the next one.
            self.workers = [each if each.is_alive() else self._new() for each in self.workers]
            self.gateway = self.gateway if self.gateway.is_alive() else self._new_gateway()
            await getattr(self, f"_{order[sum(self.counts.values()) % len(order)]}")()

    async def _kill(self) -> None:
        number = self._random.randrange(3)
        self.workers[number].kill()
        await asyncio.to_thread(self.workers[number].join)
        self.workers[number] = self._new()
        self.counts["kill"] += 1

    async def _pause(self) -> None:
        process = self._random.choice(self.workers)
        assert process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_SECONDS)
            os.kill(process.pid, signal.SIGCONT)
        self.counts["pause"] += 1

    async def _gateway(self) -> None:
        self.gateway.kill()
        await asyncio.to_thread(self.gateway.join)
        self.gateway = self._new_gateway()
        self.counts["gateway"] += 1

    async def _restart(self) -> None:
        await asyncio.to_thread(self._postgres.restart)
        self.counts["restart"] += 1

    async def _outage(self) -> None:
        await asyncio.to_thread(self._postgres.stop)
        await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.to_thread(self._postgres.restart)
        self.counts["outage"] += 1

    async def _cut(self) -> None:
        await asyncio.to_thread(self._postgres.run, CUT)
        self.counts["cut"] += 1

    async def _full(self) -> None:
        await run_sql(self._url, FULL)
        await asyncio.sleep(PAUSE_SECONDS)
        await run_sql(self._url, "DROP FUNCTION refused CASCADE")
        self.counts["full"] += 1

    def end(self) -> None:
        for process in (*self.workers, self.gateway):
            process.kill()
            process.join()


@pytest.mark.timeout(int(SECONDS) + 2 * SETTLE_SECONDS + 120)
async def test_every_message_is_answered_once(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """kill -9, SIGSTOP and outages for longer than the heartbeat, restarts, cut connections, a full disk:
    nothing lost, nothing twice, in order.
    """
    url = postgres_server.database()
    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, CHATS))
        troubles = Troubles(tmp_path, url, postgres_server, server.port)
        crowd = Crowd(server, CHATS)
        try:
            await asyncio.gather(crowd.talk(SECONDS), troubles.go_on(SECONDS))
            await crowd.answered(SETTLE_SECONDS)
        finally:
            troubles.end()
        total = sum(crowd.said.values())
        asked = len(provider.requests)
    print(f"{CHATS} chats, {total} messages, {asked} model calls, {troubles.counts}")  # noqa: T201 - figures of docs/workers.md
    assert crowd.problems() == []
    assert all(troubles.counts.values())
