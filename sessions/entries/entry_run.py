"""A sequence of entries as it stood at one moment, without a copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from nacre.sessions.entries.entries import Entry


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
        """How many entries there were."""
        return self._length

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        """One entry, or a slice as a tuple."""
        if isinstance(place, slice):
            return tuple(self._grown[index] for index in range(*place.indices(self._length)))
        if not -self._length <= place < self._length:
            raise IndexError(f"there are {self._length} entries, so none at {place}")
        return self._grown[place if place >= 0 else self._length + place]

    def __iter__(self) -> Iterator[Entry]:
        """The entries in order."""
        return islice(self._grown, self._length)

    def __reversed__(self) -> Iterator[Entry]:
        """The entries, the last one first."""
        grown = self._grown
        return (grown[index] for index in range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of equal entries."""
        if not isinstance(other, Sequence) or len(other) != self._length:
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # what compares by content is no key

    def __repr__(self) -> str:
        """For people: the ids."""
        return f"EntryRun({[entry.id for entry in self]})"
