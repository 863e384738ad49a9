"""A server of the Model Context Protocol whose tools give the page in a file. Run as a program."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("pages")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def page() -> str:
    """Gives a page from the web."""
    return Path(sys.argv[1]).read_text(encoding="utf-8")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def broken_page() -> str:
    """Fails with what stands on a page."""
    raise ToolError(Path(sys.argv[1]).read_text(encoding="utf-8"))


if __name__ == "__main__":
    server.run()
