"""JSON as bytes, read and written by msgspec, and by the standard library where msgspec refuses. Pure.

msgspec reads the same values four times as fast, but not everything that the standard library does: halves
of characters as `\\ud800`, NaN, numbers beyond the range of a double. What has such a value is read and
written by `json`, so that no file becomes unreadable for being odd.
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
    """The value of a JSON text in UTF-8.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply to be read.
    """
    try:
        return _decoder()(data)
    except (ValueError, RecursionError):
        return json.loads(data.decode())


def compact_json(value: object) -> bytes:
    """A value as JSON in UTF-8 without blanks.

    Raises:
        TypeError, ValueError, RecursionError: JSON or UTF-8 has no such value, or msgspec does not know it.
    """
    return _encoder()(value)


def indented_json(value: object) -> bytes:
    """A value as JSON with two blanks for each level, as `json.dumps(…, indent=2)` writes it, in UTF-8.

    A half of a character is written as its `\\u` escape.
    """
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

    `start` and `end` are offsets in bytes, `end` behind the line feed if there is one (`is_ended`).
    `value` is the object that the line holds, `None` when it holds no object with a `type`.
    """

    start: int
    end: int
    data: bytes
    is_ended: bool
    value: Mapping[str, Any] | None


def read_lines(file: BinaryIO, *, offset_bytes: int = 0) -> Iterator[Line]:
    """The lines of an open file from where it stands, which is `offset_bytes`; blank ones are left out.

    One line at a time is in memory, so a file may be of any size.
    """
    start = offset_bytes
    for data in file:
        end = start + len(data)
        content = data.rstrip(b"\r\n")
        if content and not content.isspace():
            yield Line(
                start=start,
                end=end,
                data=content,
                is_ended=data.endswith(b"\n"),
                value=_object(content.removeprefix(b"\xef\xbb\xbf")),
            )
        start = end


def split_lines(data: bytes, *, offset_bytes: int = 0) -> list[Line]:
    """The lines of `data`, which begins at `offset_bytes` of its file; blank lines are left out."""
    return list(read_lines(BytesIO(data), offset_bytes=offset_bytes))


def to_line(raw: Mapping[str, Any]) -> bytes:
    """One JSONL line, line feed included; what JSON cannot hold is written as text or null."""
    with suppress(TypeError, ValueError, RecursionError):
        return compact_json(raw) + b"\n"
    try:
        text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        text = json.dumps(_tamed(raw), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; its \u escape is plain ASCII.
        return json.dumps(json.loads(text), separators=(",", ":")).encode() + b"\n"


def timestamp_text(moment: datetime) -> str:
    """A moment as pi writes it: ISO 8601 in UTC with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch of an entry's timestamp; zero when it cannot be read."""
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
    """A copy with text for keys, null for numbers that JSON lacks, and text for foreign objects."""
    if isinstance(value, Mapping):
        return {str(key): _tamed(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_tamed(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
