"""The HTTP server beside the channels of `nacre serve`, with every door that it has."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nacre.bridges.server import Server
    from nacre.cli.invocation import Invocation
    from nacre.doors.http.door import Door
    from nacre.doors.http.tokens import Tokens
    from nacre.runtime.settings.config import Config

log = logging.getLogger(__name__)

NOT_INSTALLED = (
    "http.port is set, and the libraries of the server cannot be used here ({error}). "
    "Install them with `pip install 'nacre[serve]'`, or remove http.port."
)


def http_problem(config: Config) -> str:
    """Why the server that the settings want cannot be started here; empty when it can."""
    if config.settings.http.port is None:
        return ""
    try:
        import starlette  # noqa: F401 - told as missing before anything is opened
        import uvicorn  # noqa: F401 - the same
    except ImportError as error:
        return NOT_INSTALLED.format(error=error)
    return ""


@asynccontextmanager
async def http_doors(invocation: Invocation, server: Server, turn_seconds: float) -> AsyncIterator[None]:
    """Serves HTTP until the end of the block, if the settings want it.

    At its end, answers that still stream may take `turn_seconds`. Raises `click.ClickException`.
    """
    settings = invocation.config.settings.http
    if settings.port is None:
        yield
        return
    if problem := http_problem(invocation.config):
        if not server.statuses:
            raise click.ClickException(problem)
        invocation.warn(problem)  # the channels go on
        yield
        return
    from nacre.doors.http.server import HttpServer, ServerUnusable
    from nacre.doors.http.tokens import Tokens, TokensUnusable

    tokens = Tokens(invocation.config.state_dir)
    doors = _doors(invocation, server, tokens)
    try:
        serving = await HttpServer.start(
            doors,
            tokens=tokens,
            host=settings.host,
            port=settings.port,
            hosts=settings.hosts,
            trusted_proxies=settings.trusted_proxies,
            most_body_bytes=settings.max_body_mb * 1024 * 1024,
            figures=partial(_figures, server),
        )
    except (ServerUnusable, TokensUnusable) as error:
        raise click.ClickException(str(error)) from error
    invocation.say(f"Serving HTTP at {serving.url}.")
    try:
        yield
    finally:
        await serving.close(turn_seconds=turn_seconds)


async def _figures(server: Server) -> Mapping[str, float]:
    """What is to be done; nothing while that cannot be asked, for requests are counted all the same."""
    from nacre.bridges.contracts.errors import LedgerUnusable
    from nacre.postgres.errors import DatabaseError

    try:
        return await server.figures()
    except (LedgerUnusable, DatabaseError) as error:
        log.warning("/metrics says nothing of what is to be done: %s", error)
        return {}


def _doors(invocation: Invocation, server: Server, tokens: Tokens) -> list[Door]:
    from nacre import __version__
    from nacre.doors.mcp.http_door import memory_door
    from nacre.doors.openai.door import openai_door
    from nacre.doors.page.home.home import PageHome
    from nacre.doors.page.page import page_door
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.contracts.ids import random_id
    from nacre.runtime.recall.open_memory import embedder_of
    from nacre.runtime.settings.config import StateSettings

    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)
    embedders, homes, configs = {}, {}, {}
    settings = StateSettings(invocation.environment, config.state_dir)
    for agent in server.agents:
        own = settings.config(agent.id)
        configs[agent.id] = own
        homes[agent.id] = PageHome(agent, own, now)
        embedder = embedder_of(own, now) if own.settings.agent.memory_search.enabled else None
        if embedder is not None:
            embedders[agent.id] = embedder
    agents = {agent.id: agent for agent in server.agents}
    page = page_door(homes, tokens)  # the last: its path is the beginning of all others
    memory = memory_door(configs, now=now, version=__version__)
    return [openai_door(agents, embedders, now=now, new_id=random_id), memory, page]
