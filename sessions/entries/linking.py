"""Turns the objects of a transcript file, in file order, into entries with sound ids and parents.

Pure. Ids that a line lacks are derived from its place, so that every reading gives the same ones, and
an entry whose parent cannot be found hangs on the entry before it, so that nothing older is orphaned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping
from typing import Any

from nacre.sessions.entries.entries import Entry, is_misshapen, placed_entry
from nacre.sessions.entries.tree import EntryTree


class EntryLinker:
    """Reads entries one after the other into `tree`. What was mended stands in `notices`."""

    def __init__(self, session_id: str) -> None:
        self.tree = EntryTree()
        self.notices: list[str] = []
        self._session_id = session_id
        self._aliases: dict[str, str] = {}
        self._gap = False

    def skip_unreadable(self) -> None:
        """Notes that a line was lost here, so that the next entry may miss its parent without a notice."""
        self._gap = True

    def read(self, raw: Mapping[str, Any], *, offset_bytes: int) -> Entry:
        """The entry of one line, linked to those before it."""
        stored = raw.get("id")
        parent_id = self._parent(raw)
        entry_id = stored if isinstance(stored, str) and stored else self._derived_id(offset_bytes)
        if entry_id in self.tree:
            self.notices.append(f"Two entries have the id {entry_id!r}; the later one was given another.")
            entry_id = self._derived_id(offset_bytes)
        entry = placed_entry(self._renamed(raw), entry_id=entry_id, parent_id=parent_id)
        if is_misshapen(entry):
            self.notices.append(
                f"The entry {entry_id!r} of type {raw.get('type')!r} cannot be read, so no model sees it."
            )
        self.add(entry)
        if isinstance(stored, str) and stored != entry_id:
            self._aliases[stored] = entry_id
        return entry

    def add(self, entry: Entry) -> None:
        """Takes an entry that is sound already as the newest one."""
        self.tree.add(entry)
        self._gap = False

    def unused_id(self, new_id: Callable[[], str]) -> str:
        """An id of eight hex digits that no entry has; after a hundred collisions a longer one."""
        for _ in range(100):
            candidate = _digest(new_id(), digest_bytes=4)
            if candidate not in self.tree:
                return candidate
        return _digest(f"{new_id()}:{len(self.tree)}", digest_bytes=16)

    def _parent(self, raw: Mapping[str, Any]) -> str | None:
        if "parentId" not in raw:
            return self.tree.leaf_id
        stored = raw["parentId"]
        if stored is None:
            return None
        known = self._known(stored) if isinstance(stored, str) else None
        if known is None and not self._gap:
            self.notices.append(
                f"The entry {raw.get('id')!r} names the parent {stored!r}, which does not stand before it, "
                "so it was linked to the entry before it."
            )
        return known or self.tree.leaf_id

    def _known(self, stored_id: str) -> str | None:
        """The entry that a stored id means: of several with one id the latest."""
        return self._aliases.get(stored_id) or (stored_id if stored_id in self.tree else None)

    def _renamed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """A compaction and a label speak of entries by their stored ids."""
        if not self._aliases:
            return raw
        for name in ("firstKeptEntryId", "targetId"):
            stored = raw.get(name)
            if isinstance(stored, str) and stored in self._aliases:
                raw = {**raw, name: self._aliases[stored]}
        return raw

    def _derived_id(self, offset_bytes: int) -> str:
        return derived_id(self._session_id, offset_bytes, taken=self.tree)


def derived_id(session_id: str, offset_bytes: int, *, taken: Container[str]) -> str:
    """The id of an entry whose line has none: the same at each reading, a longer one if it is `taken`."""
    place = f"{session_id}:{offset_bytes}"
    short = _digest(place, digest_bytes=4)
    return short if short not in taken else _digest(place, digest_bytes=16)


def _digest(text: str, *, digest_bytes: int) -> str:
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=digest_bytes).hexdigest()
