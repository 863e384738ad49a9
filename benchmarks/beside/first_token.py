"""How much later the first words of an answer come when a worker runs the turn: `/v1` with `stream: true`.

    python -m benchmarks.beside.first_token postgresql://… [--turns 100]

The database must be an empty one. Two servers with one agent, a model in its own process, and one client.
Turns run in the gateway and in a worker, in changing order, so both have the same machine. Printed are the
times from the request to the first words, and the difference of each pair.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks.beside.many_streams import free_port, running
from benchmarks.beside.scale.processes import computed_seconds
from benchmarks.beside.workers import running_worker
from nacre import Agent
from nacre.bridges.answering.turns import RunHere
from nacre.extensions.http.openai.mount import openai_mount
from nacre.extensions.http.server.server import HttpServer
from nacre.extensions.http.server.tokens import Tokens
from nacre.extensions.postgres.workers.gateway import handed_over
from nacre.runtime.contracts.clock import owner_clock, random_id
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings

WARM_TURNS = 10


def _settings(port: int) -> dict[str, object]:
    provider = {"baseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "k"}
    return {
        "plugins": {"slots": {"memory": "none"}},
        "agents": {"defaults": {"model": "openai/m"}},
        "models": {"providers": {"openai": provider}},
    }


async def _first_words(http: httpx.AsyncClient, number: int) -> float:
    """Seconds until the first words; the rest of the answer is read, too."""
    body = {"stream": True, "messages": [{"role": "user", "content": f"When, for the {number}th time?"}]}
    began, took = time.perf_counter(), 0.0
    asking = http.stream("POST", "/chat/completions", json=body, headers={"x-nacre-session": f"s{number}"})
    async with asking as answer:
        async for line in answer.aiter_lines():
            if not took and '"content":"' in line and '"content":""' not in line:
                took = time.perf_counter() - began
    return took


async def _measured(url: str, turns: int) -> None:
    async with AsyncExitStack() as stack:
        state_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        provide = (sys.executable, "-m", "benchmarks.beside.many_streams", "--provide", str(port))
        pace = ("--tokens", "20", "--a-second", "1000")
        stack.enter_context(running((*provide, *pace), os.environ, port))
        write_settings(state_dir, _settings(port))
        worker = stack.enter_context(running_worker(state_dir, url, at_once=16))
        environment = {"HOME": str(state_dir), "NACRE_DATABASE_URL": url}
        config, now, tokens = (
            load_config(environment, state_dir=state_dir),
            owner_clock("UTC"),
            Tokens(state_dir),
        )
        token = tokens.add("owner", agent_id="main", is_owner=True, now=now())
        opening = Agent.open(state_dir=state_dir, environment=environment, watch=False)
        agent = await stack.enter_async_context(await opening)
        clients = []
        for runner in (RunHere(), await stack.enter_async_context(handed_over(config))):
            mount = openai_mount({"main": agent}, {}, runner, now=now, new_id=random_id)
            server = await HttpServer.start([mount], tokens=tokens, host="127.0.0.1", port=0)
            stack.push_async_callback(server.close)
            headers = {"authorization": f"Bearer {token}"}
            http = httpx.AsyncClient(base_url=f"{server.url}/v1", headers=headers, timeout=60)
            clients.append(await stack.enter_async_context(http))
        pairs = []
        for number in range(turns + WARM_TURNS):
            if number == WARM_TURNS:
                pairs.clear()
                spent = computed_seconds(worker)
            order = clients if number % 2 else clients[::-1]
            took = {http: await _first_words(http, number) for http in order}
            pairs.append([took[http] for http in clients])
        for name, took in zip(("gateway", "worker"), zip(*pairs, strict=True), strict=True):
            print(f"{name}: p50 {1000 * median(took):.1f} ms, p95 {1000 * quantiles(took, n=20)[-1]:.1f} ms")
        added = [worker_seconds - here for here, worker_seconds in pairs]
        print(f"added: p50 {1000 * median(added):.1f} ms, p95 {1000 * quantiles(added, n=20)[-1]:.1f} ms")
        computed = 1000 * (computed_seconds(worker) - spent) / turns
        print(f"the worker computed {computed:.0f} ms a turn; load average {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Prints a line for each place and one for the difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--turns", type=int, default=100)
    told = parser.parse_args()
    asyncio.run(_measured(told.url, told.turns))


if __name__ == "__main__":
    main()
