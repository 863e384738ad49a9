"""`mcp`: servers of the Model Context Protocol whose tools the assistant may call. Values only."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.settings.sections.section import SettingsSection


class McpServer(SettingsSection):
    """`mcp.servers.<name>`: one server, as Claude Code and OpenClaw write it."""

    enabled: bool = True
    """`false` leaves the server alone."""
    type: Literal["", "stdio", "http", "streamable-http"] = ""
    """How it is reached; unset follows from `command` or `url`."""
    command: str = ""
    """The program that is started and spoken with over standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Variables for it, beside `PATH`, `HOME` and the like; it gets nothing else of Nacre's environment.
    Write keys as `${NAME}`."""
    cwd: str = ""
    """The folder that it is started in; unset is the one that Nacre runs in."""
    url: str = ""
    """Its address, where it is reached over HTTP (streamable HTTP)."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Headers of each request, such as `Authorization: "Bearer ${NAME}"`."""
    tools: ToolNames = Field(default_factory=ToolNames.unwritten)
    """Which of its tools are offered, by the server's own names for them."""
    chats: tuple[Literal["private", "direct", "group"], ...] = ("private",)
    """Where its tools are offered: `"private"` is the owner alone, `"direct"` a chat with somebody else,
    `"group"` every other chat. `tools.rules` may say otherwise of a single tool."""
    trusted: tuple[str, ...] = ()
    """Tools that are called without asking the owner; `*` stands for anything. One that its server marks as
    read-only is never asked about, every other one is."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Longest that one call may take."""
    start_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Longest that its start may take."""

    @model_validator(mode="after")
    def _is_reached_one_way(self) -> Self:
        over_http = self.type.endswith("http") or (not self.type and bool(self.url))
        if over_http and not self.url.startswith(("http://", "https://")):
            raise ValueError("an HTTP server needs a url that begins with http:// or https://")
        if not over_http and not self.command.strip():
            raise ValueError("a server needs either a command or a url")
        if self.command and self.url:
            raise ValueError("a server has either a command or a url, not both")
        return self


class McpSettings(SettingsSection):
    """`mcp`."""

    servers: Mapping[str, McpServer] = Field(default_factory=dict)
    """Servers by the names that you give them."""
