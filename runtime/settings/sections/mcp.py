"""`mcp`: Model Context Protocol servers whose tools the assistant may call."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.settings.sections.section import SettingsSection


class McpServer(SettingsSection):
    """`mcp.servers.<name>`: one server, in the format of Claude Code and OpenClaw."""

    enabled: bool = True
    """Whether the server is used."""
    type: Literal["", "stdio", "http", "streamable-http"] = ""
    """The transport. Default: `stdio` with `command`, HTTP with `url`."""
    command: str = ""
    """The program to start, which communicates over standard input and output."""
    args: tuple[str, ...] = ()
    """The arguments of the program."""
    env: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Environment variables for the program, in addition to `PATH`, `HOME` and similar ones; it gets nothing
    else of Nacre's environment. Write keys as `${NAME}`."""
    cwd: str = ""
    """The working folder of the program. Default: the home folder."""
    url: str = ""
    """The address of a server with streamable HTTP."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Headers for each request, such as `Authorization: "Bearer ${NAME}"`."""
    tools: ToolNames = Field(default_factory=ToolNames.unwritten)
    """The tools that are available, by the server's names."""
    chats: tuple[Literal["private", "direct", "group"], ...] = ("private",)
    """The chats in which its tools are available: `"private"` (the owner alone), `"direct"` (a direct chat
    with somebody else), `"group"` (every other chat). `tools.rules` can override this for single tools."""
    trusted: tuple[str, ...] = ()
    """Tools that need no approval by the owner; `*` matches anything. Tools that the server marks as
    read-only never need it; all others do."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """The time limit of one call."""
    start_seconds: Annotated[float, Field(gt=0)] = 30.0
    """The time limit of the start."""

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
    """`mcp`: the servers."""

    servers: Mapping[str, McpServer] = Field(default_factory=dict)
    """The servers, by names of your choice."""
