"""`sessions.json` as bytes: one object, a member a key. JSON5 is read, JSON is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nacre.sessions.disk.json_text import indented_json, json_value


def parsed_index(data: bytes) -> dict[str, Any] | None:
    """The object of an index file, JSON or JSON5; `None` when it holds none."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        value = json_value(data)
    except (ValueError, RecursionError):
        value = _json5(data)
    return value if isinstance(value, dict) else None


def index_bytes(lines: Mapping[str, Any]) -> bytes:
    """An index file that holds these lines."""
    return indented_json(lines) + b"\n"


def _json5(data: bytes) -> object:
    import pyjson5

    try:
        return pyjson5.decode(data.decode(), maxdepth=100)
    except (ValueError, pyjson5.Json5Exception):
        return None
