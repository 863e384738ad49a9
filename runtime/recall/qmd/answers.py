"""What qmd's answers mean. Pure; nothing that it writes is trusted, and what cannot be read is an error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from nacre.records.record import Record
from nacre.runtime.recall.qmd.program import QmdFailed, Said

_NOTHING = re.compile(
    r"(?:\[[^\]\n]*\]\s*|(?:warning|info|error|qmd):\s*)*no results found\.?", re.IGNORECASE
)
_OPTION = re.compile(
    r"(?:unknown|unrecogni[sz]ed|unexpected|invalid|unsupported)\s+(?:flag|option|argument|command|mode)"
    r"|(?:flag|option) (?:provided but )?not (?:defined|supported)",
    re.IGNORECASE,
)
_NO_COLLECTION = re.compile(
    r"collection (?:not found|.* (?:does not exist|not found))|no such collection", re.IGNORECASE
)
_BUSY = re.compile(r"database is (?:locked|busy)|SQLITE_BUSY|timed out", re.IGNORECASE)
_DAMAGED = re.compile(r"file is not a database|disk image is malformed", re.IGNORECASE)
_BROKEN_INDEX = re.compile(
    r"ENOTDIR.*(?:\\0|\\x00|\\u0000|\0|null byte)|(?:\\0|\\x00|\\u0000|\0|null byte).*ENOTDIR"
    r"|UNIQUE constraint failed: documents",
    re.IGNORECASE | re.DOTALL,
)
_URI = re.compile(r"qmd://([^/]+)/(.+)", re.DOTALL)
_LINES = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? @@")
_LISTED = re.compile(r"^(\S+) \(qmd://", re.MULTILINE)
_PIECES = 200
_SHOWN_CHARS = 200


class Place(Record):
    """Where qmd found something: lines from 1, both included; `score` 0…1."""

    collection: str
    path: str
    start_line: int
    end_line: int
    score: float


def places(said: Said, mode: str) -> list[Place]:
    """The places of an answer, in its order; what names no document is left out.

    Raises:
        QmdFailed: it is no answer.
    """
    return [place for item in _array(said, mode) if (place := _place(item)) is not None]


def refuses_option(said: Said) -> bool:
    """Whether this build of qmd does not know the command, or one of its options."""
    return said.code != 0 and _OPTION.search(f"{said.err}\n{said.out}") is not None


def misses_collection(said: Said) -> bool:
    """Whether a collection that was asked is not there."""
    return said.code != 0 and _NO_COLLECTION.search(f"{said.err}\n{said.out}") is not None


def is_busy(problem: str) -> bool:
    """Whether it may work in a moment."""
    return _BUSY.search(problem) is not None


def is_damaged(problem: str) -> bool:
    """Whether qmd's index is no index any more."""
    return _DAMAGED.search(problem) is not None


def needs_repair(problem: str) -> bool:
    """Whether qmd's index is in a state that only making the collections anew mends."""
    return _BROKEN_INDEX.search(problem) is not None


def listed_collections(said: Said) -> frozenset[str]:
    """The names in `qmd collection list`, which newer builds print as text and others as JSON."""
    try:
        found = json.loads(said.out)
    except (ValueError, RecursionError):
        return frozenset(_LISTED.findall(said.out))
    items = found if isinstance(found, list) else []
    names = (item.get("name") if isinstance(item, dict) else item for item in items)
    return frozenset(name for name in names if isinstance(name, str))


def _array(said: Said, mode: str) -> list[Any]:
    for found in _json_in(said.out):
        if isinstance(found, list):
            return found
    lines = (said.out if said.out.strip() else said.err).splitlines()
    if any(_NOTHING.fullmatch(line.strip()) for line in lines):
        return []
    shown = " ".join(said.out.split())[:_SHOWN_CHARS] or "nothing"
    raise QmdFailed(f"qmd {mode} returned invalid JSON: {shown}")


def _json_in(text: str) -> Iterator[Any]:
    """The whole text as JSON; else each piece of JSON that begins at a bracket, with noise around it."""
    decoder = json.JSONDecoder()
    try:
        yield decoder.decode(text)
        return
    except (ValueError, RecursionError):
        pass
    start = -1
    for _ in range(_PIECES):
        start = text.find("[", start + 1)
        if start < 0:
            return
        try:
            found, _end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        # a tag such as [1] or ["warn"] of a log line is no answer
        if not found or all(isinstance(item, dict) for item in found):
            yield found


def _place(item: Any) -> Place | None:
    if not isinstance(item, dict):
        return None
    file, score, snippet = item.get("file"), item.get("score"), item.get("snippet")
    named = _URI.fullmatch(file) if isinstance(file, str) else None
    if named is None or isinstance(score, bool) or not isinstance(score, int | float):
        return None
    if not math.isfinite(score):
        return None
    header = _LINES.search(snippet) if isinstance(snippet, str) else None
    line = item.get("line")
    start = int(header[1]) if header else line if isinstance(line, int) else 1
    count = int(header[2] or 1) if header else 1
    start = max(1, start)
    return Place(
        collection=named[1],
        path=named[2],
        start_line=start,
        end_line=start + max(1, count) - 1,
        score=min(1.0, max(0.0, float(score))),
    )
