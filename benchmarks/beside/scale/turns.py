"""What turns cost that go all the way: computing of each kind of process, rows, and how long people wait."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.beside.many_agents import CHAT_TABLES
from benchmarks.beside.scale.arithmetic import AT_ONCE, LOOPBACK_SECONDS, WORKERS
from benchmarks.beside.scale.kept import size_bytes
from benchmarks.beside.scale.processes import Busy, computed_seconds, resident_bytes, server_seconds
from benchmarks.beside.workers import running_worker
from nacre.extensions.postgres.server.database import Database
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import settings
from tests.extensions.postgres.workers.worker_process import gateway_started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

CHATS = 200
WARM_TURNS = 60
ASKED = "What did I say about the harbour, and when do the boats leave? It may have been in spring."
ANSWER = "The boats leave the harbour at six, but on Sundays at eight. You said so in March, and in May."
_STATISTICS = """
SELECT active_time, xact_commit::float, pg_current_wal_insert_lsn() - '0/0'
FROM pg_stat_database WHERE datname = current_database()
"""


class Clocked(LineServer):
    """Counts the seconds from what a chat says to its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, float] = {}
        self.took: list[float] = []

    def free(self) -> list[str]:
        """Chats that wait for nothing."""
        return [chat for chat in (f"chat-{number}" for number in range(CHATS)) if chat not in self.waiting]

    def ask(self, chat: str) -> None:
        """Says something in a chat."""
        self.waiting[chat] = time.perf_counter()
        self.say(ASKED, chat=chat, sender=chat)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["do"] == "send" and (began := self.waiting.pop(asked["chat"], None)) is not None:
            self.took.append(time.perf_counter() - began)
        return super()._answer(asked)


def _model(_request: Mapping[str, Any]) -> wire.Step:
    time.sleep(LOOPBACK_SECONDS)
    return wire.reply(ANSWER)


async def loads(url: str, rates: list[float], seconds: float) -> list[dict[str, float]]:
    """What turns cost at each of these rates, for so long each, and how long people waited."""
    database = Database(url)
    row = await database.read(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone())
    assert row is not None
    with (
        Clocked() as server,
        ProviderServer(responder=_model) as provider,
        _running(url, server, {**settings(provider, CHATS), "plugins": {}}, WORKERS, AT_ONCE) as processes,
    ):
        await _talk(server, WARM_TURNS, rates[-1])
        found = []
        for rate in rates:
            found.append(await _load(database, server, rate, round(rate * seconds), processes, row[0]))
    await database.close()
    return found


@contextmanager
def _running(
    url: str, server: Clocked, told: Mapping[str, Any], workers: int, places: int
) -> Iterator[dict[str, list[int]]]:
    """The process ids of a gateway and its workers, with the settings `told`."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        state_dir = Path(folder)
        write_settings(state_dir, dict(told))
        started = [running_worker(state_dir, url, at_once=places) for _ in range(workers)]
        pids = [running.enter_context(worker) for worker in started]
        gateway = gateway_started(state_dir, url, server.port)
        running.callback(gateway.join)
        running.callback(gateway.kill)
        assert gateway.pid is not None
        yield {"gateway": [gateway.pid], "worker": pids}


FLEETS = (1, 2, 4)
FLEET_PLACES = 16
FLEET_CHATS = 160


def _slow_model(_request: Mapping[str, Any]) -> wire.Step:
    time.sleep(1)
    return wire.reply(ANSWER)


async def fleets(url: str, seconds: float) -> list[dict[str, float]]:
    """Turns a second of 1, 2 and 4 workers with 16 places and a model that takes a second.

    160 chats say the next thing as soon as they are answered. `cores` are those that all of it used.
    """
    database = Database(url)
    row = await database.read(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone())
    assert row is not None
    found = []
    # One server for all: what a fleet leaves, the next one finds as after a kill.
    with Clocked() as server, ProviderServer(responder=_slow_model) as provider:
        for count in FLEETS:
            with _running(url, server, settings(provider, FLEET_CHATS), count, FLEET_PLACES) as processes:
                await _everybody_talks(server, 3 + 6 / count)
                measured = await _fleet(database, server, seconds, processes, row[0])
            found.append({"workers": count, **measured})
    await database.close()
    return found


async def _fleet(
    database: Database, server: Clocked, seconds: float, processes: Mapping[str, list[int]], backend: int
) -> dict[str, float]:
    server.took.clear()
    spent, rows, busy = _seconds(processes, backend), await _rows(database), Busy()
    began = time.perf_counter()
    await _everybody_talks(server, seconds)
    wall, used, turns = time.perf_counter() - began, busy.cores(), len(server.took)
    spent = {name: each - spent[name] for name, each in _seconds(processes, backend).items()}
    commits = ((await _rows(database))["commits"] - rows["commits"]) / turns
    return {
        "turns_a_second": turns / wall,
        "commits": commits,
        "cores": sum(spent.values()) / wall,
        "cores_of_others": max(0.0, used - sum(spent.values()) / wall),
        **{f"{name}_seconds": each / turns for name, each in spent.items()},
    }


async def _everybody_talks(server: Clocked, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for number in range(FLEET_CHATS):
            if f"chat-{number}" not in server.waiting:
                server.ask(f"chat-{number}")
        await asyncio.sleep(0.02)


async def _load(
    database: Database,
    server: Clocked,
    rate: float,
    turns: int,
    processes: Mapping[str, list[int]],
    backend: int,
) -> dict[str, float]:
    server.took.clear()
    seconds, rows = _seconds(processes, backend), await _rows(database)
    busy, began = Busy(), time.perf_counter()
    await _talk(server, turns, rate)
    wall, used = time.perf_counter() - began, busy.cores()
    took = sorted(server.took)
    await asyncio.sleep(2)  # the server's connections report what they did within a second
    spent = {name: value - seconds[name] for name, value in _seconds(processes, backend).items()}
    added = {name: (value - rows[name]) / turns for name, value in (await _rows(database)).items()}
    return {
        "asked_a_second": rate,
        "turns_a_second": turns / wall,
        "p50_seconds": took[len(took) // 2],
        "p95_seconds": took[len(took) * 95 // 100],
        "cores_of_others": max(0.0, used - sum(spent.values()) / wall),
        **{f"{name}_seconds": value / turns for name, value in spent.items()},
        **{f"{name}_bytes": max(map(resident_bytes, pids)) for name, pids in processes.items()},
        **added,
    }


async def _talk(server: Clocked, turns: int, rate: float) -> None:
    """So many messages, by chance in time and in chats that wait for nothing, and all their answers."""
    chance, loop = random.Random(7), asyncio.get_running_loop()
    wanted, at = len(server.sent) + turns, loop.time()
    for _ in range(turns):
        at += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, at - loop.time()))
        while not (free := server.free()):  # noqa: ASYNC110 - everybody waits, for another thread
            await asyncio.sleep(0.01)
        server.ask(chance.choice(free))
    await server.until(lambda _: len(server.sent) >= wanted, 300)


def _seconds(processes: Mapping[str, list[int]], backend: int) -> dict[str, float]:
    seconds = {name: sum(map(computed_seconds, pids)) for name, pids in processes.items()}
    return {**seconds, "database": server_seconds(backend), "outside": time.process_time()}


async def _rows(database: Database) -> dict[str, float]:
    row = await database.read(lambda connection: connection.execute(_STATISTICS).fetchone())
    assert row is not None
    return {
        "statement_ms": float(row[0]),
        "commits": float(row[1]),
        "log_bytes": float(row[2]),
        "kept_bytes": float(await size_bytes(database, CHAT_TABLES)),
        "all_bytes": float(await size_bytes(database, None)),
    }
