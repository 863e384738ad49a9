"""The HTTP server in this process with all mounts, over an agent whose model is a loopback provider."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from nacre import Agent
from nacre.bridges.answering.turns import RunHere
from nacre.extensions.http.openai.mount import openai_mount
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.mount import page_mount
from nacre.extensions.http.server.server import HttpServer
from nacre.extensions.http.server.tokens import Tokens
from nacre.extensions.postgres.workers.gateway import handed_over
from nacre.runtime.contracts.clock import owner_clock, random_id
from nacre.runtime.settings.config import load_config
from tests.memory.doubles import WordEmbedder
from tests.runtime.agents import write_settings
from tests.servers.provider_server import ProviderServer, Responder

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running server: its URL, the tokens of an owner and a stranger, and what is behind it."""

    url: str
    owner: str
    stranger: str
    provider: ProviderServer
    workspace: Path
    state: Path
    agent: Agent


@asynccontextmanager
async def served(
    tmp_path: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    responder: Responder | None = None,
    database_url: str = "",
) -> AsyncIterator[Served]:
    """Serves an agent until the end of the block. `responder` is the provider's.

    With a database, workers run the turns, if there are any.
    """
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
        if database_url:
            environment["NACRE_DATABASE_URL"] = database_url
        config, now = load_config(environment, state_dir=state), owner_clock("UTC")
        tokens = Tokens(state)
        owner = tokens.add("owner", agent_id="main", is_owner=True, now=NOW)
        stranger = tokens.add("stranger", agent_id="main", is_owner=False, now=NOW)
        opening = Agent.open(state_dir=state, environment=environment, watch=False)
        runners = handed_over(config) if database_url else nullcontext(RunHere())
        async with await opening as agent, runners as runner:
            mounts = [
                openai_mount({"main": agent}, {"main": WordEmbedder()}, runner, now=now, new_id=random_id),
                page_mount({"main": PageHome(agent, config, now)}, tokens, runner),
            ]
            server = await HttpServer.start(mounts, tokens=tokens, host="127.0.0.1", port=0)
            try:
                yield Served(
                    url=server.url,
                    owner=owner,
                    stranger=stranger,
                    provider=provider,
                    workspace=config.workspace,
                    state=state,
                    agent=agent,
                )
            finally:
                await server.close()


class Browser:
    """A browser without scripts: forms with their hidden fields, redirects, one cookie."""

    def __init__(self, page: Served) -> None:
        self.page = page
        self.http = httpx.AsyncClient(verify=False, base_url=page.url, follow_redirects=True, timeout=60)
        self.form_key = ""

    async def login(self, token: str = "") -> httpx.Response:
        """Submits a token, by default the owner's."""
        token = token or self.page.owner
        answer = await self.http.post("/login", data={"token": token, "to": "/chat"})
        found = re.search(r'name="form_key" value="([^"]+)"', answer.text)
        self.form_key = found[1] if found else ""
        return answer

    async def get(self, path: str) -> str:
        """The text of a page, which must exist."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, (answer.status_code, answer.text[-400:])
        return answer.text

    async def post(self, path: str, /, **fields: str) -> httpx.Response:
        return await self.http.post(path, data={"form_key": self.form_key, **fields})

    async def say(self, text: str, *, session: str = "main", reply: str | None = "Noted.") -> None:
        """Says something and waits for the end of its turn; `None` leaves the reply to the responder."""
        if reply is not None:
            self.page.provider.reply(reply)
        shown = await self.post("/chat/say", session=session, text=text)
        await self.events(re.findall(r'sse-connect="([^"]+)"', shown.text)[0])

    async def events(self, path: str) -> list[tuple[str, str]]:
        """The names and data of all events of a turn."""
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
