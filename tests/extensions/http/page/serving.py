"""The page on a real server of this process, over an agent whose model is the loopback provider."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from nacre import Agent
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.mount import page_mount
from nacre.extensions.http.server.server import HttpServer
from nacre.extensions.http.server.tokens import Tokens
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings
from tests.servers.provider_server import ProviderServer, Responder

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running page: its address, the tokens of an owner and a stranger, its model, its notes."""

    url: str
    owner: str
    stranger: str
    provider: ProviderServer
    workspace: Path
    state: Path


class Browser:
    """What a browser does without scripts: forms with their hidden fields, redirects, one cookie."""

    def __init__(self, page: Served) -> None:
        self.page = page
        self.http = httpx.AsyncClient(base_url=page.url, follow_redirects=True, timeout=20)
        self.form_key = ""

    async def login(self, token: str = "") -> httpx.Response:
        """Shows a token, the owner's unless given."""
        token = token or self.page.owner
        answer = await self.http.post("/login", data={"token": token, "to": "/chat"})
        found = re.search(r'name="form_key" value="([^"]+)"', answer.text)
        self.form_key = found[1] if found else ""
        return answer

    async def get(self, path: str) -> str:
        """The text of a page that must be there."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, (answer.status_code, answer.text[-400:])
        return answer.text

    async def post(self, path: str, /, **fields: str) -> httpx.Response:
        """Sends a form of the page."""
        return await self.http.post(path, data={"form_key": self.form_key, **fields})

    async def events(self, path: str) -> list[tuple[str, str]]:
        """The whole stream of a turn: names and data."""
        found: list[tuple[str, str]] = []
        async with self.http.stream("GET", path) as answer:
            name, data = "", []
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and name:
                    found.append((name, "\n".join(data)))
                    name, data = "", []
        return found


@asynccontextmanager
async def served(
    tmp_path: Path, settings: Mapping[str, Any] | None = None, *, responder: Responder | None = None
) -> AsyncIterator[Served]:
    """The page of an agent until the end of the block."""
    state = tmp_path / ".nacre"
    async with ProviderServer(responder=responder) as provider:
        defaults: dict[str, Any] = {"userTimezone": "UTC", "memorySearch": {"provider": "none"}}
        write_settings(
            state,
            {
                "agents": {"defaults": {"model": {"primary": "openai/test-model"}, **defaults}},
                **(settings or {}),
                "models": {"providers": {"openai": {"baseUrl": provider.url, "apiKey": "sk-loopback"}}},
            },
        )
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        config = load_config(environment, state_dir=state)
        tokens = Tokens(state)
        owner = tokens.add("owner", agent_id="main", is_owner=True, now=NOW)
        stranger = tokens.add("stranger", agent_id="main", is_owner=False, now=NOW)
        async with await Agent.open(state_dir=state, environment=environment, watch=False) as agent:
            mount = page_mount({"main": PageHome(agent, config, owner_clock("UTC"))}, tokens)
            server = await HttpServer.start([mount], tokens=tokens, host="127.0.0.1", port=0)
            try:
                yield Served(
                    url=server.url,
                    owner=owner,
                    stranger=stranger,
                    provider=provider,
                    workspace=config.workspace,
                    state=state,
                )
            finally:
                await server.close()
