"""The MCP extension: the tools of `mcp.servers`, and the notes at `/mcp` of the HTTP server."""

from __future__ import annotations

from collections.abc import Mapping

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.extensions.host import ExtensionHost
from nacre.runtime.extensions.service import HttpMount
from nacre.runtime.settings.config import Config
from nacre.runtime.tools.function import ToolSource


def register(host: ExtensionHost) -> None:
    """Registers both without importing a library."""
    host.tool_source(tool_servers)
    host.http_mount(notes_mount)


def tool_servers(config: Config, now: Clock) -> ToolSource:
    """The servers of `mcp.servers`, not started."""
    from nacre.extensions.mcp.client.servers import ToolServers

    return ToolServers(
        config.settings.mcp.servers,
        home=config.home,
        folder=config.state_dir / "mcp",
        now_ms=lambda: epoch_ms(now()),
    )


def notes_mount(configs: Mapping[str, Config], now: Clock) -> HttpMount:
    """The notes of these agents for MCP clients; no index is opened yet."""
    from nacre import __version__
    from nacre.extensions.mcp.server.server import memory_mount

    return memory_mount(configs, now=now, version=__version__)
