"""JSON as bytes, and the lines and timestamps of transcripts.

msgspec reads the same values four times as fast as the standard library, but rejects some: lone surrogates
such as `\\ud800`, NaN, and numbers beyond the range of a double. `json` handles those, so that no file
becomes unreadable for an odd value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple


def json_value(data: bytes) -> Any:
    """Parses a JSON text in UTF-8.

    Raises:
        ValueError: it is not valid JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return _decoder()(data)
    except (ValueError, RecursionError):
        return json.loads(data.decode())


def compact_json(value: object) -> bytes:
    """Serializes a value as JSON in UTF-8 without whitespace.

    Raises:
        TypeError, ValueError, RecursionError: JSON, UTF-8 or msgspec cannot represent the value.
    """
    return _encoder()(value)


def indented_json(value: object) -> bytes:
    """Serializes a value as `json.dumps(…, indent=2)` does, in UTF-8. A lone surrogate becomes a `\\u`
    escape."""
    import msgspec

    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace")


@cache
def _encoder() -> Callable[[Any], bytes]:
    import msgspec

    return msgspec.json.Encoder().encode


@cache
def _decoder() -> Callable[[bytes], Any]:
    import msgspec

    return msgspec.json.Decoder().decode


class Line(NamedTuple):
    """One line that is not blank.

    `start` and `end` are offsets in bytes; `end` includes the line feed if there is one (`is_ended`). `value`
    is the line's JSON object, or `None` if the line has no object with a `type`.
    """

    start: int
    end: int
    data: bytes
    is_ended: bool
    value: Mapping[str, Any] | None


def read_lines(file: BinaryIO, *, offset_bytes: int = 0) -> Iterator[Line]:
    """Yields the non-blank lines of an open file from its current position, which is `offset_bytes`.

    Only one line at a time is in memory, so a file may have any size.
    """
    start = offset_bytes
    for data in file:
        end = start + len(data)
        content = data.rstrip(b"\r\n")
        if content and not content.isspace():
            value = _object(content.removeprefix(b"\xef\xbb\xbf"))
            yield Line(start, end, content, data.endswith(b"\n"), value)
        start = end


def line_value(data: bytes) -> Mapping[str, Any] | None:
    """The `value` of a `Line` with these bytes; `None` for a blank line."""
    content = data.strip(b"\r\n")
    return _object(content.removeprefix(b"\xef\xbb\xbf")) if content and not content.isspace() else None


def split_lines(data: bytes, *, offset_bytes: int = 0) -> list[Line]:
    """The non-blank lines of `data`, which begins at `offset_bytes` of its file."""
    return list(read_lines(BytesIO(data), offset_bytes=offset_bytes))


def to_line(raw: Mapping[str, Any]) -> bytes:
    """One JSONL line with its line feed. Values that JSON cannot represent become text or null."""
    with suppress(TypeError, ValueError, RecursionError):
        return compact_json(raw) + b"\n"
    try:
        text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        text = json.dumps(_tamed(raw), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 encoding; its \u escape is plain ASCII.
        return json.dumps(json.loads(text), separators=(",", ":")).encode() + b"\n"


def timestamp_text(moment: datetime) -> str:
    """Formats a datetime as pi does: ISO 8601 in UTC with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch of an entry's timestamp, or zero if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def _object(content: bytes) -> Mapping[str, Any] | None:
    try:
        value = json_value(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, set | frozenset) else str(value)


def _tamed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _tamed(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_tamed(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
