"""Sources as they are stored: a line of JSON for each source, with the keys of the lines that it is of. Pure.

A contract: bytes on disk. A line that cannot be read is passed over, so that a merge of two devices' files,
with the marks of a conflict in it, loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, get_args

from nacre.memory.files.sources.source import PRIVATE, Source, Speaker, Writer
from nacre.record import Record

FORMAT_VERSION = 1
_KEY_CHARS = 20
_MARKER = re.compile(r"(?:>\s*)*(?:[-*+]\s+)?")
_WORD = re.compile(r"[^\W_]")

T = TypeVar("T", bound=str)


class StoredSource(Record):
    """A source, and the lines that it is of: the note that they were written into, and their keys."""

    path: str
    keys: tuple[str, ...]
    source: Source


def line_key(line: str) -> str:
    """What names a line wherever it stands: a digest of its words.

    Indents, list markers and quotation marks do not count. `""` for a line without a letter or digit.
    """
    words = " ".join(_MARKER.sub("", line.strip(), count=1).split())
    if not _WORD.search(words):
        return ""
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:_KEY_CHARS]


def to_lines(stored: Iterable[StoredSource]) -> str:
    """The JSON lines."""
    return "".join(json.dumps(_to_json(each), ensure_ascii=False) + "\n" for each in stored)


def from_lines(data: bytes) -> Iterator[StoredSource]:
    """What JSON lines say, in their order."""
    for line in data.splitlines():
        try:
            raw = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and isinstance(raw.get("path"), str):
            yield StoredSource(path=raw["path"], keys=_texts(raw.get("lines")), source=source_from_json(raw))


def without_keys(data: bytes, keys: Collection[str]) -> bytes:
    """JSON lines without these keys; a source of no other line goes, what cannot be read stays."""
    left: list[bytes] = []
    for line in data.splitlines(keepends=True):
        found = next(from_lines(line), None)
        if found is None or not set(found.keys) & set(keys):
            left.append(line)
        elif kept := tuple(key for key in found.keys if key not in keys):
            left.append(to_lines([replace(found, keys=kept)]).encode())
    return b"".join(left)


def source_json(source: Source) -> dict[str, Any]:
    """A source for scripts; what is not known of it is left out."""
    told: dict[str, Any] = {
        "writtenBy": source.written_by,
        "saidBy": list(source.said_by),
        "names": list(source.names),
        "audience": source.audience,
        "sessionKey": source.session_key,
        "sessionId": source.session_id,
        "entryIds": list(source.entry_ids),
        "chat": source.chat,
        "at": source.at,
    }
    return {name: value for name, value in told.items() if value}


def _to_json(stored: StoredSource) -> dict[str, Any]:
    return {
        "version": FORMAT_VERSION,
        "path": stored.path,
        **source_json(stored.source),
        "lines": list(stored.keys),
    }


def source_from_json(raw: Mapping[str, Any]) -> Source:
    """A source that `source_json` told, also by a careless program: what is not known is nobody's word."""
    said_by: tuple[Speaker, ...] = tuple(
        _known(name, get_args(Speaker), "unknown") for name in _texts(raw.get("saidBy"))
    )
    audience = _text(raw, "audience")
    return Source(
        written_by=_known(raw.get("writtenBy"), get_args(Writer), "import"),
        audience=audience or PRIVATE,
        said_by=said_by or ("unknown",),
        names=_texts(raw.get("names")),
        session_key=_text(raw, "sessionKey"),
        session_id=_text(raw, "sessionId"),
        entry_ids=_texts(raw.get("entryIds")),
        chat=_text(raw, "chat"),
        at=_text(raw, "at"),
    )


def _known(value: object, values: Sequence[T], otherwise: T) -> T:
    return next((each for each in values if each == value), otherwise)


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
