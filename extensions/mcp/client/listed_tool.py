"""A tool as its server describes it, and the list of them as it is kept on disk. Pure.

{"version": 1, "atMs": 1773480000000, "tools": [
    {"name": "get_time", "description": "…", "schema": {"type": "object"}, "isReadOnly": true}]}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nacre.record import Record

VERSION = 1
MOST_TOOLS = 200
"""More tools of one server are left out: every one is sent with each request."""
MOST_DESCRIPTION_CHARS = 2_000
MOST_CHARS = 300_000
"""Tools whose names, descriptions and schemas are longer together are left out from there on."""


class ListedTool(Record):
    """One tool: the server's name for it, what a model reads, the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    is_read_only: bool

    @property
    def digest(self) -> str:
        """SHA-256 of all that a model and the approval of calls are given of it, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode("utf-8", "surrogatepass")).hexdigest()

    def to_json(self) -> str:
        """The tool as JSON with sorted keys. Raises `ValueError` or `RecursionError` for what is no JSON."""
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
    """The tools of a server, as it gave them at `at_ms`."""

    at_ms: int
    tools: tuple[ListedTool, ...]

    def to_json(self) -> bytes:
        """The file's bytes."""
        tools = [json.loads(tool.to_json()) for tool in self.tools]
        return json.dumps({"version": VERSION, "atMs": self.at_ms, "tools": tools}, indent=1).encode()


def sendable(tools: Iterable[ListedTool]) -> tuple[ListedTool, ...]:
    """The first tools that are JSON and have at most `MOST_CHARS` together; of one name only the first."""
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


def tool_list(data: bytes) -> ToolList | None:
    """Reads a file; `None` where it is none, or of a later version: the list is then asked for anew."""
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
        raise TypeError("no tool")
    return ListedTool(
        name=name, description=description, schema=schema, is_read_only=raw["isReadOnly"] is True
    )
