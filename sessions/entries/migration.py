"""Transcripts of the formats 1 and 2, brought to version 3. Pure: lines in, objects out.

Version 1 has neither ids nor parents, and its compactions count entries instead of naming them.
Version 2 calls the message role `custom` `hookMessage`. Source: pi's session format notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nacre.sessions.disk.json_text import Line
from nacre.sessions.entries.entries import FORMAT_VERSION, SessionHeader, derived_id


def migrated(lines: Iterable[Line], header: SessionHeader) -> Iterator[dict[str, Any]]:
    """The readable lines of an old transcript as version 3 has them, its header first.

    Ids are derived from each line's place in the old file, so that migrating twice gives the same
    ones. Keys that are not known here are kept; further header lines are left out.
    """
    ids: list[str | None] = []
    taken: set[str] = set()
    newest: str | None = None
    for line in lines:
        if line.value is None:
            continue
        if line.value["type"] == "session":
            if None not in ids:
                yield {**line.value, "version": FORMAT_VERSION}
            # Version 1 counts header lines as well.
            ids.append(None)
            continue
        raw = _renamed(line.value)
        if header.version >= 2:
            yield raw
            continue
        entry_id = raw.get("id")
        if not isinstance(entry_id, str) or not entry_id:
            entry_id = derived_id(header.id, line.start, taken=taken)
        raw |= {"id": entry_id, "parentId": raw.get("parentId", newest)}
        index = raw.pop("firstKeptEntryIndex", None)
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(ids):
            raw.setdefault("firstKeptEntryId", ids[index])
        ids.append(entry_id)
        taken.add(entry_id)
        newest = entry_id
        yield raw


def _renamed(raw: Mapping[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if isinstance(message, Mapping) and message.get("role") == "hookMessage":
        return {**raw, "message": {**message, "role": "custom"}}
    return dict(raw)
