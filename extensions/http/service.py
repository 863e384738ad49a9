"""The HTTP extension: the server that runs beside the channels of `nacre serve`, with the page and OpenAI's
protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nacre.installation import install_command
from nacre.runtime.extensions.host import ExtensionHost
from nacre.runtime.extensions.service import Service, ServiceFailed, Serving

if TYPE_CHECKING:
    from nacre.extensions.http.server.tokens import Tokens
    from nacre.runtime.extensions.service import HttpMount
    from nacre.runtime.settings.config import Config

NOT_INSTALLED = (
    "http.port is set, but the libraries of the server cannot be imported ({error}). "
    "Install them with `{command}`, or remove http.port."
)


def register(host: ExtensionHost) -> None:
    """Registers the server without importing a library."""
    host.service(Service(run=http_server, problem=http_problem))


def http_problem(config: Config) -> str:
    """Why the server cannot start with these settings; empty if it can, or if no port is set."""
    if config.settings.http.port is None:
        return ""
    try:
        import starlette  # noqa: F401 - reported as missing before anything is opened
        import uvicorn  # noqa: F401 - see above
    except ImportError as error:
        return NOT_INSTALLED.format(error=error, command=install_command("serve"))
    return ""


@asynccontextmanager
async def http_server(serving: Serving) -> AsyncIterator[None]:
    """Serves HTTP for the duration of the block, if a port is set. Raises `ServiceFailed`."""
    settings = serving.config.settings.http
    if settings.port is None:
        yield
        return
    if problem := http_problem(serving.config):
        if not serving.has_channels:
            raise ServiceFailed(problem)
        serving.warn(problem)  # the channels still run
        yield
        return
    from nacre.extensions.http.server.server import HttpServer, ServerUnusable
    from nacre.extensions.http.server.tokens import Tokens, TokensUnusable

    tokens = Tokens(serving.config.state_dir)
    try:
        server = await HttpServer.start(
            _mounts(serving, tokens),
            tokens=tokens,
            host=settings.host,
            port=settings.port,
            hosts=settings.hosts,
            trusted_proxies=settings.trusted_proxies,
            most_body_bytes=settings.max_body_mb * 1024 * 1024,
            figures=serving.figures,
        )
    except (ServerUnusable, TokensUnusable) as error:
        raise ServiceFailed(str(error)) from error
    serving.say(f"Serving HTTP at {server.url}.")
    try:
        yield
    finally:
        await server.close(turn_seconds=serving.turn_seconds)


def _mounts(serving: Serving, tokens: Tokens) -> list[HttpMount]:
    from nacre.extensions.http.openai.mount import openai_mount
    from nacre.extensions.http.page.home import PageHome
    from nacre.extensions.http.page.mount import page_mount
    from nacre.runtime.contracts.clock import random_id
    from nacre.runtime.recall.open_memory import embedder_of
    from nacre.runtime.settings.config import StateSettings

    config = serving.config
    now = config.clock
    embedders, homes, configs = {}, {}, {}
    settings = StateSettings(serving.environment, config.state_dir)
    for agent in serving.agents:
        agent_config = settings.config(agent.id)
        configs[agent.id] = agent_config
        homes[agent.id] = PageHome(agent, agent_config, now)
        embedder = (
            embedder_of(agent_config, now) if agent_config.settings.agent.memory_search.enabled else None
        )
        if embedder is not None:
            embedders[agent.id] = embedder
    agents = {agent.id: agent for agent in serving.agents}
    extension_mounts = [make(configs, now) for make in serving.http_mounts]
    page = page_mount(
        homes, tokens, serving.runner
    )  # the last one, because its path is a prefix of all others
    openai = openai_mount(agents, embedders, serving.runner, now=now, new_id=random_id)
    return [openai, *extension_mounts, page]
