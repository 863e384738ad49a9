"""Searches bytes for what is to be forgotten: text in any dress, JSON, base64, SQLite, freed pages. Edge."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from nacre.cli.memory.care.forgetting.wanted import Wanted

_SQLITE = b"SQLite format 3\0"
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"age-encryption.org/")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NO_TEXT = re.compile("[\0-\x1f\x7f-\x9f\ufffd]+")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4,}\s*){2,}={0,2}")
_BLANKS = re.compile(r"\s+")
_PLAIN_BASE64 = str.maketrans("-_", "+/")
_LEAST_NEEDLE_BYTES = 4


def is_packed(head: bytes) -> bool:
    """Whether a file begins like one that is compressed or encrypted as a whole."""
    return head.startswith(_PACKED)


def says_in(text: str, wanted: Wanted) -> bool:
    """Whether a text says it, plain, in base64, with JSON's escapes, or as a value of JSON on a line."""
    if wanted.says_any(text) or ("\\u" in text and wanted.says_any(_unescaped(text))):
        return True
    if any(wanted.says_any(decoded) for decoded in _decoded(text)):
        return True
    if "{" not in text and "[" not in text:
        return False
    return any(wanted.says_any(value) for line in (text, *text.splitlines()) for value in _values(line))


def says_name(name: str, wanted: Wanted) -> bool:
    """Whether the name of a file or folder says it; `_` parts words there."""
    return wanted.says(name.replace("_", " "))


def needles_of(lines: Sequence[str]) -> tuple[bytes, ...]:
    """The bytes by which lines are found where nothing parts them from what stands beside them."""
    plain = (line.strip(" -*+>").encode() for line in lines)
    return tuple(needle for needle in plain if len(needle) >= _LEAST_NEEDLE_BYTES)


def file_has(path: Path, wanted: Wanted, needles: Sequence[bytes]) -> bool:
    """Whether a file says it anywhere in its bytes.

    Raises:
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if any(needle in data for needle in needles):
        return True
    if data.startswith(_SQLITE) and (
        any(says_in(value, wanted) for value in _cells(path)) or any(map(wanted.says, _indexed(path)))
    ):
        return True
    if b"\0" not in data:
        return says_in(data.decode("utf-8", "replace"), wanted)
    # UTF-16 is plain text without the zero bytes, for the letters that have them.
    return any(
        _binary_says(each.decode("utf-8", "replace"), wanted) for each in (data, data.replace(b"\0", b""))
    )


def _binary_says(text: str, wanted: Wanted) -> bool:
    """Whether a piece between bytes that are no text says it; a word may touch its neighbor on one side."""
    whole = [re.compile(rf"\b{re.escape(word)}|{re.escape(word)}\b") for word in wanted.words]
    for piece in _NO_TEXT.split(text):
        if wanted.says(piece):
            return True
        folded = piece.casefold()
        if (
            whole
            and all(word in folded for word in wanted.words)
            and all(each.search(folded) for each in whole)
        ):
            return True
    return False


def _cells(path: Path) -> Iterator[str]:
    """Every text of every row that a SQLite file holds; none of tables that need another program."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            ).fetchall()
            for (table,) in tables:
                quoted = table.decode("utf-8", "replace").replace('"', '""')
                for row in database.execute(f'SELECT * FROM "{quoted}"'):
                    yield from (cell.decode("utf-8", "replace") for cell in row if isinstance(cell, bytes))
    except sqlite3.Error:
        return  # its bytes are searched all the same


def _indexed(path: Path) -> Iterator[str]:
    """The words of each row that the full-text indexes of a SQLite file hold, in their order."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            found = database.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5%'"
            ).fetchall()
            for number, (table,) in enumerate(found):
                yield from _words_by_row(database, table, f"temp.words{number}")
    except sqlite3.Error:
        return  # its bytes are searched all the same


def _words_by_row(database: sqlite3.Connection, table: str, view: str) -> Iterator[str]:
    quoted = table.replace('"', '""')
    with suppress(sqlite3.Error):  # it needs another program, or keeps no order
        database.execute(f'CREATE VIRTUAL TABLE {view} USING fts5vocab(main, "{quoted}", instance)')
        rows = database.execute(f"SELECT doc, term FROM {view} ORDER BY doc, col, offset")
        for _row, words in groupby(rows, key=lambda row: row[0]):
            yield " ".join(str(term) for _, term in words)


def _decoded(text: str) -> Iterator[str]:
    """What stands in base64 in a text, also where that is broken into lines, or a word stands before it."""
    for found in _BASE64.finditer(text):
        packed = _BLANKS.sub("", found[0]).rstrip("=").translate(_PLAIN_BASE64)
        for start in range(4):
            piece = packed[start:]
            piece = piece[: len(piece) - (len(piece) % 4 == 1)]
            yield base64.b64decode(piece + "=" * (-len(piece) % 4)).decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _values(line: str) -> Iterator[str]:
    """The texts in a line that is JSON, keys as well, and JSON in such a text."""
    try:
        stack: list[Any] = [json.loads(line)]
    except (ValueError, RecursionError):
        return
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
            if value.startswith(("{", "[")):
                yield from _values(value)
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            stack += [*value, *value.values()]
