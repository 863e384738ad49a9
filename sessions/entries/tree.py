"""A session's entries as a tree: by id, in file order, and the branch that is being talked on. Pure.

A parent is always an entry that was added before, so no chain of parents can be a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import eq
from typing import overload

from nacre.sessions.entries.entries import Compaction, CustomRecord, Entry, Label


class EntryRun(Sequence[Entry]):
    """The first `length` entries of a list that only ever grows at its end.

    Taking one costs the same however long the list is, and it stays what it was while the list grows.
    Equal to any sequence of equal entries.
    """

    __slots__ = ("_grown", "_length")

    def __init__(self, grown: list[Entry], length: int) -> None:
        self._grown = grown
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(place, slice):
            return tuple(map(self._grown.__getitem__, range(*place.indices(self._length))))
        if not -self._length <= place < self._length:
            raise IndexError(f"there are {self._length} entries, so none at {place}")
        return self._grown[place if place >= 0 else self._length + place]

    def __iter__(self) -> Iterator[Entry]:
        return islice(self._grown, self._length)

    def __reversed__(self) -> Iterator[Entry]:
        return map(self._grown.__getitem__, range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == self._length and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # what compares by content is no key

    def __repr__(self) -> str:
        return f"EntryRun({[entry.id for entry in self]})"


class EntryTree:
    """Takes entries in file order. The newest one is the leaf, whose child the next one will be.

    Adding an entry and looking at the branch cost the same however many entries there are, as long as
    the entry goes on where the one before it ended; only another branch is walked once.
    """

    def __init__(self) -> None:
        self._grown: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._labels: dict[str, str] = {}
        self._customs: dict[str, list[Entry]] = {}
        self._path: list[Entry] = []
        self._compactions = 0

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._by_id

    def __len__(self) -> int:
        return len(self._grown)

    @property
    def entries(self) -> EntryRun:
        """All entries in file order."""
        return EntryRun(self._grown, len(self._grown))

    @property
    def leaf_id(self) -> str | None:
        """The id of the newest entry."""
        return self._grown[-1].id if self._grown else None

    @property
    def compaction_count(self) -> int:
        """How many compactions the branch has."""
        self._walk()
        return self._compactions

    def customs(self, custom_type: str) -> EntryRun:
        """The custom entries of one type in file order, on all branches."""
        found = self._customs.get(custom_type, [])
        return EntryRun(found, len(found))

    def label(self, entry_id: str) -> str | None:
        """The name that was last given to an entry, if it was not taken away again."""
        return self._labels.get(entry_id)

    def labelled(self, label: str) -> str | None:
        """The id of the entry that carries a name; of several the one that got it last."""
        return next((entry_id for entry_id, name in reversed(self._labels.items()) if name == label), None)

    def add(self, entry: Entry) -> None:
        """Takes the newest entry. Its id is new and its parent was added before, or is `None`."""
        if self._path and self._path[-1].id == entry.parent_id:
            self._lengthen(entry)
        self._grown.append(entry)
        self._by_id[entry.id] = entry
        match entry.body:
            case CustomRecord(custom_type=custom_type):
                self._customs.setdefault(custom_type, []).append(entry)
            case Label(target_id=target_id, label=label):
                self._labels.pop(target_id, None)
                if label:
                    self._labels[target_id] = label

    def branch(self, leaf_id: str | None = None) -> EntryRun:
        """The entries from the root to an entry, the leaf unless given.

        Raises:
            ValueError: there is no entry of that id.
        """
        if leaf_id is None or leaf_id == self.leaf_id:
            self._walk()
            return EntryRun(self._path, len(self._path))
        path = self._chain(leaf_id)
        return EntryRun(path, len(path))

    def _walk(self) -> None:
        """Walks the branch if its end is not the leaf any more."""
        if not self._grown or (self._path and self._path[-1] is self._grown[-1]):
            return
        # A new list: runs of the old one must stay what they were.
        self._path, self._compactions = [], 0
        for entry in self._chain(self._grown[-1].id):
            self._lengthen(entry)

    def _lengthen(self, entry: Entry) -> None:
        self._path.append(entry)
        self._compactions += isinstance(entry.body, Compaction)

    def _chain(self, entry_id: str | None) -> list[Entry]:
        path: list[Entry] = []
        while entry_id is not None:
            entry = self._by_id.get(entry_id)
            if entry is None:
                raise ValueError(f"The transcript has no entry {entry_id!r}; nothing was changed.")
            path.append(entry)
            entry_id = entry.parent_id
        path.reverse()
        return path
