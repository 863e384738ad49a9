"""The elements of a JSON array, one after the other: an export is never in memory as a whole. Edge.

The only importer of ijson.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any


class ArrayBroken(Exception):
    """The text ends, or is no JSON any more, behind what was given so far; the sentence says why."""


def elements(file: IO[bytes]) -> Iterator[Any]:
    """The elements of the array that a file holds; of anything else that one value.

    Raises:
        ArrayBroken: the file is no JSON from some place on.
    """
    import ijson

    first = _first_char(file)
    prefix = "item" if first == b"[" else ""
    try:
        yield from ijson.items(file, prefix, use_float=True)
    except (ijson.JSONError, RecursionError, UnicodeDecodeError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise ArrayBroken(told[:200]) from error


def _first_char(file: IO[bytes]) -> bytes:
    """The first character that is no white space; the file stands at its beginning afterwards."""
    head = file.read(4096)
    file.seek(0)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
