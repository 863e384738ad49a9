"""A gateway whose turns workers run, with an agent whose model is a loopback provider."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.gateway import Gateway
from nacre.extensions.postgres.workers.gateway import handed_over
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import system_clock
from nacre.runtime.settings.config import load_config
from nacre.runtime.storage.storage import ledger_of
from tests.bridges.chats import FOLLOW_UP
from tests.bridges.line_channel import LineBridge
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

MODEL_SECONDS = 0.1
"""How long `answer` takes."""


def answer(request: Mapping[str, Any]) -> wire.Step:
    """A model's: the last thing that was said, after a while."""
    threading.Event().wait(MODEL_SECONDS)
    said = re.findall(r"chat-\d+ says \d+", json.dumps(request["messages"]))
    return wire.reply(f"re: {said[-1]}")


def greeting(_request: Mapping[str, Any]) -> wire.Step:
    return wire.reply("hi")


def settings(provider: ProviderServer, chats: int) -> dict[str, Any]:
    """Everybody is answered, by the provider's model; so many chats at once."""
    return {
        **FOLLOW_UP,
        "plugins": {"slots": {"memory": "none"}},
        "session": {"dmScope": "per-channel-peer"},
        "agents": {"defaults": {"model": "openai/test", "maxConcurrent": 2 * chats}},
        "models": {"providers": {"openai": {"baseUrl": provider.url, "apiKey": "sk-test"}}},
    }


@asynccontextmanager
async def gateway(
    state_dir: Path,
    url: str,
    port: int,
    *,
    shares: Mapping[str, int] | None = None,
    runs_here: bool = False,
    hears: bool = False,
) -> AsyncIterator[Gateway]:
    """An open gateway that leaves its turns to workers; it may share accounts, each with a port.

    With `hears`, it already listens for what workers say of running turns.
    """
    environment = {"HOME": str(state_dir), "NACRE_DATABASE_URL": url}
    config = load_config(environment, state_dir=state_dir)
    now = system_clock(UTC)
    agent = await Agent.open(state_dir=state_dir, environment=environment, watch=False)
    async with agent, handed_over(config, runs_here=runs_here) as runner:
        while hears and not runner._process.stream:
            await asyncio.to_thread(lambda: None)
        agents = BoundAgents([agent], agent.settings)
        bridges = [LineBridge(port)] if shares is None else list(map(_bridge(shares), shares))
        opening = Gateway.open(
            agents,
            bridges,
            state_dir=state_dir,
            ledger=ledger_of(config),
            now=now,
            runner=runner,
            make_bridge=None if shares is None else lambda account: _bridge(shares)(account[1]),
        )
        async with await opening as opened:
            yield opened


def _bridge(ports: Mapping[str, int]) -> Callable[[str], LineBridge]:
    return lambda account: LineBridge(ports[account], account=account)
