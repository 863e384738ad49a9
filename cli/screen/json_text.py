"""JSON for scripts: one value on standard output, readable, and safe to show in a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any


def camel_json(value: object, *names: str) -> dict[str, Any]:
    """The named attributes of a dataclass under their names in camel case; all of its fields unless named.

    Dataclasses in tuples become objects too. The keys of mappings stay as they are.
    """
    assert is_dataclass(value)
    chosen = names or tuple(field.name for field in fields(value))
    return {camel(name): _plain(getattr(value, name)) for name in chosen}


def json_text(value: Any) -> str:
    """`value` as JSON, two spaces a level; text stays text, control characters become escapes.

    >>> json_text({"reply": "né\\x9b"})
    '{\\n  "reply": "né\\\\u009b"\\n}'
    """
    return escaped_controls(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def escaped_controls(text: str) -> str:
    """JSON with escapes in place of what could control a terminal; line feeds and tabs stay."""
    return _raw_controls().sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: Any) -> int:
    """Writes `value` to standard output, and returns the exit code 0."""
    sys.stdout.write(json_text(value) + "\n")
    return 0


def _plain(value: object) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return camel_json(value) if is_dataclass(value) else value


def camel(name: str) -> str:
    """A name in snake case as the key in JSON output."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def moment(seconds: float | None) -> str | None:
    """A time in seconds since the epoch in ISO 8601, such as `2026-03-14T12:00:00Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@cache
def _raw_controls() -> re.Pattern[str]:
    return re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
