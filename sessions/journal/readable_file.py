"""Brings a transcript file into a shape in which its entries can be read: a header, the present format.

Edge: writes `.jsonl`, for the holder of the file's lock. A file that is there is never changed before a
copy of it was set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.sessions.contracts.errors import SessionVersionUnknown
from nacre.sessions.disk.durable import reading, remove_unfinished, replace_file, set_aside
from nacre.sessions.disk.lines import read_lines, split_lines, to_line
from nacre.sessions.entries.entries import FORMAT_VERSION, SessionHeader, header_from_json, header_to_json
from nacre.sessions.entries.migration import migrated


def readable_header(
    path: Path, *, fresh_header: SessionHeader, now: Callable[[], datetime]
) -> tuple[SessionHeader, tuple[str, ...]]:
    """The header of a transcript, and a sentence for each thing that was done to the file.

    A missing or blank file begins with `fresh_header`. A file that does not begin with a header is
    written anew from what can be read of it, one of format 1 or 2 in the present format.

    Raises:
        SessionVersionUnknown: a newer program wrote the file; it was left as it is.
        SessionCorrupt: `path` is a symbolic link or no plain file.
        SessionWriteFailed: the system refused to read or write.
    """
    first = _first_value(path)
    if first is None and not _has_content(path):
        remove_unfinished(path)
        replace_file(path, to_line(header_to_json(fresh_header)))
        return fresh_header, ()
    header = header_from_json(first) if first is not None else None
    notices: tuple[str, ...] = ()
    if header is None:
        header, notice = _salvaged(path, fresh_header, now)
        notices = (notice,)
    if _not_newer(header, path).version == FORMAT_VERSION:
        return header, notices
    header, notice = _migrated(path, header, now)
    return header, (*notices, notice)


def _first_value(path: Path) -> Mapping[str, Any] | None:
    with suppress(FileNotFoundError), reading(path) as file:
        return next((line.value for line in read_lines(file) if line.value is not None), None)
    return None


def _has_content(path: Path) -> bool:
    with suppress(FileNotFoundError), reading(path) as file:
        return any(True for _ in read_lines(file))
    return False


def _not_newer(header: SessionHeader, path: Path) -> SessionHeader:
    if header.version > FORMAT_VERSION:
        raise SessionVersionUnknown(
            f"{path} has format version {header.version}; this program reads up to "
            f"{FORMAT_VERSION}. Use a newer Nacre for it, or move the file away. It was left as it is."
        )
    return header


def _salvaged(
    path: Path, fresh_header: SessionHeader, now: Callable[[], datetime]
) -> tuple[SessionHeader, str]:
    """Sets the whole file aside and writes it anew: a header first, then the readable entries."""
    with reading(path) as file:
        data = file.read()
    values = [(line, line.value) for line in split_lines(data) if line.value is not None]
    headers = (header_from_json(value) for _, value in values)
    header = _not_newer(next(filter(None, headers), fresh_header), path)
    entries = [line.data + b"\n" for line, value in values if value["type"] != "session"]
    aside = set_aside(path, data, now=now)
    remove_unfinished(path)
    replace_file(path, to_line(header_to_json(header)) + b"".join(entries))
    return header, (
        f"{path.name} had no valid header; it was set aside as {aside.name} "
        f"and what could be read was taken over (entries: {len(entries)})."
    )


def _migrated(path: Path, header: SessionHeader, now: Callable[[], datetime]) -> tuple[SessionHeader, str]:
    """Keeps the file of an older format aside and writes it anew in the present one."""
    with reading(path) as file:
        data = file.read()
    lines = split_lines(data)
    aside = set_aside(path, data, now=now, mark=f"v{header.version}")
    remove_unfinished(path)
    replace_file(path, b"".join(map(to_line, migrated(lines, header))))
    left_out = sum(line.value is None for line in lines)
    return replace(header, version=FORMAT_VERSION), (
        f"{path.name} was brought from format version {header.version} to {FORMAT_VERSION}; "
        f"the file as it was is kept as {aside.name}"
        + (f", with {left_out} unreadable line(s) that were left out." if left_out else ".")
    )
