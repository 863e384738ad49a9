"""Transcripts of the formats 1 and 2, brought to version 3. Pure: lines in, objects out.

Version 1 has neither ids nor parents, and its compactions count entries instead of naming them.
Version 2 calls the message role `custom` `hookMessage`. Source: pi's session format notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nacre.sessions.disk.lines import Line
from nacre.sessions.entries.entries import FORMAT_VERSION, SessionHeader
from nacre.sessions.entries.linking import derived_id


def migrated(lines: Iterable[Line], header: SessionHeader) -> Iterator[dict[str, Any]]:
    """The readable lines of an old transcript as version 3 has them, its header first.

    Ids are derived from each line's place in the old file, so that migrating twice gives the same
    ones. Keys that are not known here are kept; further header lines are left out.
    """
    chain = _Chain(header.id)
    is_begun = False
    for line in lines:
        if line.value is None:
            continue
        if line.value["type"] == "session":
            # Version 1 counts header lines as well.
            chain.ids.append(None)
            if not is_begun:
                is_begun = True
                yield {**line.value, "version": FORMAT_VERSION}
            continue
        raw = _renamed(line.value)
        yield chain.linked(raw, offset_bytes=line.start) if header.version < 2 else raw


def _renamed(raw: Mapping[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if isinstance(message, Mapping) and message.get("role") == "hookMessage":
        return {**raw, "message": {**message, "role": "custom"}}
    return dict(raw)


class _Chain:
    """Entries of version 1, one behind the other."""

    def __init__(self, session_id: str) -> None:
        self.ids: list[str | None] = []
        self._session_id = session_id
        self._taken: set[str] = set()
        self._newest: str | None = None

    def linked(self, raw: dict[str, Any], *, offset_bytes: int) -> dict[str, Any]:
        """The entry with an id, the one before it as its parent, and the first kept entry by name."""
        entry_id = raw.get("id")
        if not isinstance(entry_id, str) or not entry_id:
            entry_id = derived_id(self._session_id, offset_bytes, taken=self._taken)
        linked = {**raw, "id": entry_id, "parentId": raw.get("parentId", self._newest)}
        index = linked.pop("firstKeptEntryIndex", None)
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self.ids):
            linked.setdefault("firstKeptEntryId", self.ids[index])
        self.ids.append(entry_id)
        self._taken.add(entry_id)
        self._newest = entry_id
        return linked
