"""The tools that a server lists, the stored copy of that list, and the tools that the owner approved.

The first list of a server is approved when it arrives, because the owner has just added the server to the
settings. A tool that is added or changed later is withheld until the owner approves it in a terminal.

A stored list:

    {"version": 1, "atMs": 1773480000000, "tools": [
    {"name": "get_time", "description": "…", "schema": {"type": "object"}, "isReadOnly": true}]}
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nacre.record import Record
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file

VERSION = 1
MOST_TOOLS = 200
"""The most tools of one server; all of them are sent with each request."""
MOST_DESCRIPTION_CHARS = 2_000
MOST_CHARS = 300_000
"""The most characters of names, descriptions and schemas together; further tools are left out."""
log = logging.getLogger(__name__)


class ListedTool(Record):
    """One tool: the server's name for it, its description, and the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    is_read_only: bool

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of everything that a model and an approval see of the tool."""
        return hashlib.sha256(self.to_json().encode("utf-8", "surrogatepass")).hexdigest()

    def to_json(self) -> str:
        """JSON with sorted keys. Raises `ValueError` or `RecursionError` if it cannot be encoded."""
        return json.dumps(
            {
                "name": self.name,
                "description": self.description,
                "schema": dict(self.schema),
                "isReadOnly": self.is_read_only,
            },
            sort_keys=True,
        )


class ToolList(Record):
    """The tools that a server listed at `at_ms`."""

    at_ms: int
    tools: tuple[ListedTool, ...]

    def to_json(self) -> bytes:
        tools = [json.loads(tool.to_json()) for tool in self.tools]
        return json.dumps({"version": VERSION, "atMs": self.at_ms, "tools": tools}, indent=1).encode()


def sendable(tools: Iterable[ListedTool]) -> tuple[ListedTool, ...]:
    """The first tools that are valid JSON and fit into `MOST_CHARS`; of several with one name, the first."""
    kept: dict[str, ListedTool] = {}
    left = MOST_CHARS
    for tool in tools:
        try:
            left -= len(tool.to_json())
        except (ValueError, TypeError, RecursionError):
            continue
        if left < 0 or len(kept) >= MOST_TOOLS:
            break
        kept.setdefault(tool.name, tool)
    return tuple(kept.values())


def parse_tool_list(data: bytes) -> ToolList | None:
    """Parses a stored list; `None` if it is invalid or of a later version and must be requested again."""
    try:
        raw = json.loads(data)
        if raw["version"] != VERSION:
            return None
        return ToolList(at_ms=int(raw["atMs"]), tools=tuple(_tool(item) for item in raw["tools"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _tool(raw: Mapping[str, Any]) -> ListedTool:
    name, description, schema = raw["name"], raw["description"], raw["schema"]
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(schema, dict)):
        raise TypeError("not a tool")
    return ListedTool(
        name=name, description=description, schema=schema, is_read_only=raw["isReadOnly"] is True
    )


class StoredToolList:
    """The file with the last list of one server. Failures are logged: each start then requests the list."""

    def __init__(self, folder: Path, name: str, server: McpServer) -> None:
        more = [sorted(server.env.items()), sorted(server.headers.items())]
        self._file = folder / f"{_file_name(name, server, *more)}.json"

    def read(self) -> ToolList | None:
        """The list; `None` if there is none that can be read."""
        try:
            found = read_plain(self._file)
        except (SessionError, OSError) as error:
            log.warning("%s cannot be read: %s", self._file, error)
            return None
        return parse_tool_list(found[0]) if found else None

    def write(self, listed: ToolList) -> None:
        try:
            make_folder(self._file.parent)
            replace_file(self._file, listed.to_json())
        except (SessionError, OSError) as error:
            log.warning("%s cannot be written: %s", self._file, error)


class ApprovedTools:
    """The digests of a server's approved tools, by the server's names for them.

    They belong to its command or address: other values in `env` or `headers` keep them, and another program
    starts anew. An approval by another process takes effect at the next call. An unreadable file approves
    nothing.
    """

    def __init__(self, folder: Path, name: str, server: McpServer) -> None:
        self._file = folder / "approved" / f"{_file_name(name, server)}.json"
        self._cached: tuple[tuple[int, int], Mapping[str, str]] | None = None

    def digests(self) -> Mapping[str, str] | None:
        """The approved digests; `None` if no list of the server was approved yet."""
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s", self._file, error)
            return {}
        stamp = (status.st_mtime_ns, status.st_size)
        if self._cached is None or self._cached[0] != stamp:
            self._cached = stamp, self._read()
        return self._cached[1]

    def approve(self, tools: Iterable[ListedTool], *, is_first: bool = False) -> None:
        """Approves tools as they are; with `is_first`, only if nothing of the server was approved before.

        Raises:
            SessionError, OSError: the system refused.
        """
        make_folder(self._file.parent.parent)
        make_folder(self._file.parent)
        with locked(self._file):
            known = self.digests()
            if is_first and known is not None:
                return
            digests = {**(known or {}), **{tool.name: tool.digest for tool in tools}}
            text = json.dumps({"version": VERSION, "tools": digests}, indent=1)
            replace_file(self._file, f"{text}\n".encode())
            self._cached = None

    def _read(self) -> Mapping[str, str]:
        try:
            found = read_plain(self._file)
            raw = json.loads(found[0]) if found else {}
            digests = raw["tools"]
            if raw["version"] == VERSION and all(isinstance(value, str) for value in digests.values()):
                return dict(digests)
        except (SessionError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        log.warning("%s is not valid: no tool of the server is approved", self._file)
        return {}


def _file_name(name: str, server: McpServer, *more: object) -> str:
    parts = [name, server.command, list(server.args), server.cwd, server.url, *more]
    digest = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{digest}"
