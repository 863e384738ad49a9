"""Formats that several programs share: arrays of conversations in JSON, environment files, nested settings.

An export is never in memory as a whole: an array is read element by element. The only importer of ijson.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from nacre.extensions.importers.sources.pieces import Conversation, Files, Piece, Skipped, Variable
from nacre.runtime.settings.disk.secrets import variables_in

_MOST_BYTES = 1 << 20


class _ArrayBroken(Exception):
    """The JSON is cut off or not valid after the elements read so far; the message says why."""


def conversations_in(
    files: Files, name: str, parse: Callable[[Mapping[str, Any]], Conversation | None]
) -> Iterator[Piece]:
    """Yields the conversations in a file with a JSON array; `parse` returns `None` for anything else."""
    with files.open_file(name) as file:
        try:
            for number, raw in enumerate(_elements(file), 1):
                conversation = parse(raw) if isinstance(raw, dict) else None
                yield conversation or Skipped(
                    kind="sessions",
                    name=f"{name} #{number}",
                    reason="it has no ID or no messages",
                    file=name,
                )
        except _ArrayBroken as error:
            yield unreadable_rest("file", name, error)


def unreadable_rest(what: str, name: str, error: Exception) -> Skipped:
    """The sessions of a file that follow an error in it."""
    reason = f"the {what} cannot be read beyond this point: {error}"
    return Skipped(kind="sessions", name=f"the rest of {name}", reason=reason, file=name)


def leaves(
    value: Mapping[Any, Any],
    is_leaf: Callable[[Mapping[Any, Any]], bool] = lambda _value: False,
    above: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the values of nested settings with their keys.

    Lists, empty tables, and tables for which `is_leaf` is true are values.
    """
    for name, each in value.items():
        key = (*above, str(name))
        if isinstance(each, dict) and each and not is_leaf(each):
            yield from leaves(each, is_leaf, key)
        else:
            yield key, each


def _elements(file: IO[bytes]) -> Iterator[Any]:
    import ijson

    prefix = "item" if _first_char(file) == b"[" else ""
    try:
        yield from ijson.items(file, prefix, use_float=True)
    except (ijson.JSONError, RecursionError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise _ArrayBroken(reason[:200]) from error


def _first_char(file: IO[bytes]) -> bytes:
    """The first character that is not white space, leaving the file at its beginning."""
    head = file.read(4096)
    file.seek(0)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def variables(files: Files, name: str) -> Iterator[Piece]:
    """Yields the provider keys in an environment file; skips other variables and reports no values."""
    if files.size_bytes(name) > _MOST_BYTES:
        yield Skipped(kind="files", name=name, reason="it is too large for an environment file", file=name)
        return
    with files.open_file(name) as file:
        found = variables_in(file.read().decode("utf-8-sig", "replace"))
    for variable, value in found.items():
        if value and re.fullmatch(r"[A-Z][A-Z0-9_]*_API_KEY", variable):
            yield Variable(name=variable, secret=value, file=name)
        else:
            reason = "it is not a provider key" if value else "it is empty"
            yield Skipped(kind="settings", name=variable, reason=reason, file=name)
    if not found:
        yield Skipped(kind="files", name=name, reason="it contains no variables", file=name)
