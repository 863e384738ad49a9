"""Turns the objects of a transcript file, in file order, into entries with sound ids and parents.

Pure. Older formats are brought to version 3 here, in memory only: the file stays as it is, and ids
that it lacks are derived from each line's place, so that every reading gives the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nacre.sessions.entries import Entry, entry_from_json, is_misshapen


class EntryLinker:
    """Reads entries one after the other. A parent is always an earlier entry, so no chain can be a loop."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._by_id: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}
        self._by_index: list[str | None] = []
        self._leaf_id: str | None = None
        self._gap = False
        self.notices: list[str] = []

    @property
    def leaf_id(self) -> str | None:
        """The id of the newest entry, whose child the next one will be."""
        return self._leaf_id

    def skip_header(self) -> None:
        """Counts a header line: version 1 refers to entries by their place in the file."""
        self._by_index.append(None)

    def skip_unreadable(self) -> None:
        """Notes that a line was lost here, so that the next entry may miss its parent without a notice."""
        self._gap = True

    def read(self, raw: Mapping[str, Any], *, offset_bytes: int) -> Entry:
        """The entry of one line, linked to those before it."""
        stored = raw.get("id")
        parent_id = self._parent(raw)
        entry_id = stored if isinstance(stored, str) and stored else self._derived_id(offset_bytes)
        if entry_id in self._by_id:
            self.notices.append(f"Two entries have the id {entry_id!r}; the later one was given another.")
            entry_id = self._derived_id(offset_bytes)
        raw = self._modernised(raw)
        entry = replace(entry_from_json({**raw, "id": entry_id}), parent_id=parent_id)
        if is_misshapen(entry):
            self.notices.append(
                f"The entry {entry_id!r} of type {raw.get('type')!r} cannot be read, so no model sees it."
            )
        self.add(entry)
        self._aliases[stored if isinstance(stored, str) else entry_id] = entry_id
        return entry

    def add(self, entry: Entry) -> None:
        """Takes an entry that is sound already as the newest one."""
        self._by_id[entry.id] = entry
        self._aliases[entry.id] = entry.id
        self._by_index.append(entry.id)
        self._leaf_id = entry.id
        self._gap = False

    def branch(self) -> tuple[Entry, ...]:
        """The entries from the root to the newest one."""
        path: list[Entry] = []
        entry_id = self._leaf_id
        while entry_id is not None:
            path.append(self._by_id[entry_id])
            entry_id = path[-1].parent_id
        return tuple(reversed(path))

    def unused_id(self, new_id: Callable[[], str]) -> str:
        """An id of eight hex digits that no entry has; after a hundred collisions a longer one."""
        for _ in range(100):
            candidate = _digest(new_id(), digest_bytes=4)
            if candidate not in self._by_id:
                return candidate
        return _digest(f"{new_id()}:{len(self._by_id)}", digest_bytes=16)

    def _parent(self, raw: Mapping[str, Any]) -> str | None:
        if "parentId" not in raw:
            return self._leaf_id
        stored = raw["parentId"]
        if stored is None:
            return None
        known = self._aliases.get(stored) if isinstance(stored, str) else None
        if known is None and not self._gap:
            self.notices.append(
                f"The entry {raw.get('id')!r} names the parent {stored!r}, which does not stand before it, "
                "so it was linked to the entry before it."
            )
        return known or self._leaf_id

    def _derived_id(self, offset_bytes: int) -> str:
        candidate = _digest(f"{self._session_id}:{offset_bytes}", digest_bytes=4)
        if candidate in self._by_id:
            return _digest(f"{self._session_id}:{offset_bytes}", digest_bytes=16)
        return candidate

    def _modernised(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Version 1 counted entries instead of naming them; version 2 called `custom` `hookMessage`."""
        message = raw.get("message")
        if isinstance(message, Mapping) and message.get("role") == "hookMessage":
            return {**raw, "message": {**message, "role": "custom"}}
        if raw.get("type") != "compaction":
            return raw
        index, kept = raw.get("firstKeptEntryIndex"), raw.get("firstKeptEntryId")
        if kept is None and isinstance(index, int) and 0 <= index < len(self._by_index):
            return {**raw, "firstKeptEntryId": self._by_index[index]}
        return {**raw, "firstKeptEntryId": self._aliases.get(kept, kept)} if isinstance(kept, str) else raw


def _digest(text: str, *, digest_bytes: int) -> str:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=digest_bytes).hexdigest()
