"""The mounts on a real server of this process, over an agent whose model is the loopback provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nacre import Agent
from nacre.extensions.http.openai.mount import openai_mount
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.mount import page_mount
from nacre.extensions.http.server.server import HttpServer
from nacre.extensions.http.server.tokens import Tokens
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.settings.config import load_config
from tests.memory.doubles import WordEmbedder
from tests.runtime.agents import write_settings
from tests.servers.provider_server import ProviderServer, Responder

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running server: its address, the tokens of an owner and a stranger, and what is behind it."""

    url: str
    owner: str
    stranger: str
    provider: ProviderServer
    state: Path
    agent: Agent


@asynccontextmanager
async def served(
    tmp_path: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    responder: Responder | None = None,
    with_page: bool = False,
) -> AsyncIterator[Served]:
    """The mounts of an agent until the end of the block. `responder` is the provider's."""
    state = tmp_path / ".nacre"
    async with ProviderServer(responder=responder) as provider:
        defaults: dict[str, Any] = {"userTimezone": "UTC", "memorySearch": {"provider": "none"}}
        write_settings(
            state,
            {
                "agents": {"defaults": {"model": {"primary": "openai/test-model"}, **defaults}},
                "models": {"providers": {"openai": {"baseUrl": provider.url, "apiKey": "sk-loopback"}}},
                **(settings or {}),
            },
        )
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        tokens = Tokens(state)
        owner = tokens.add("owner", agent_id="main", is_owner=True, now=NOW)
        stranger = tokens.add("stranger", agent_id="main", is_owner=False, now=NOW)
        async with await Agent.open(state_dir=state, environment=environment, watch=False) as agent:
            mount = openai_mount(
                {"main": agent}, {"main": WordEmbedder()}, now=owner_clock("UTC"), new_id=random_id
            )
            mounts = [mount]
            if with_page:
                config = load_config(environment, state_dir=state)
                mounts.append(page_mount({"main": PageHome(agent, config, owner_clock("UTC"))}, tokens))
            server = await HttpServer.start(mounts, tokens=tokens, host="127.0.0.1", port=0)
            try:
                yield Served(
                    url=server.url,
                    owner=owner,
                    stranger=stranger,
                    provider=provider,
                    state=state,
                    agent=agent,
                )
            finally:
                await server.close()
