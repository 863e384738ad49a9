"""Which of a note's changes are whose: its present text in layers, one for each writer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Generic, TypeVar

MOST_COMPARISONS = 25_000_000
"""Lines times lines; what is more is taken for one change, as a comparison would take minutes."""

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change(Generic[W]):
    """The lines `old[start:end]` became `lines`, by the hand of `writer`."""

    start: int
    end: int
    lines: tuple[str, ...]
    writer: W


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The places where two texts differ: `old[a:b]` became `new[c:d]`, as `(a, b, c, d)`, in their order."""
    first, shorter = 0, min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if not before or not after or len(before) * len(after) > MOST_COMPARISONS:
        if before or after:
            yield first, first + len(before), first, first + len(after)
        return
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield first + a, first + b, first + c, first + d


def attributed(
    old: Sequence[str], new: Sequence[str], writer_of: Callable[[int], W | None], *, hand: W
) -> list[Change[W]]:
    """Every change from `old` to `new` with its writer.

    `writer_of` says whose the line of a number in `new` is, `None` where nothing is known of it. A line that
    also went away in these changes, be it with another line end, was moved and is the `hand`'s, as is
    a change without a known line. Lines of which nothing can be known, such as blank ones, go with those
    before them in their change.
    """
    places = list(hunks(old, new))
    gone = {line.rstrip() for a, b, _c, _d in places for line in old[a:b]}
    changes: list[Change[W]] = []
    for a, b, c, d in places:
        runs: list[tuple[W, int]] = []
        for number in range(c, d):
            line = new[number]
            writer = None if not line.strip() else hand if line.rstrip() in gone else writer_of(number)
            if writer is None and line.strip() and not line.lstrip().startswith("#"):
                writer = hand
            if writer is not None and (not runs or runs[-1][0] != writer):
                runs.append((writer, number if runs else c))
        if not runs:
            runs = [(hand, c)]
        for at, (writer, start) in enumerate(runs):
            stop = runs[at + 1][1] if at + 1 < len(runs) else d
            lines = tuple(new[start:stop])
            # what went away goes with the first that came
            changes.append(Change(start=a if at == 0 else b, end=b, lines=lines, writer=writer))
    return changes


def layer(old: Sequence[str], changes: Sequence[Change[W]], writers: frozenset[W]) -> list[str]:
    """`old` with the changes of these writers alone; `changes` as `attributed` gives them."""
    lines: list[str] = []
    done = 0
    for change in changes:
        if change.writer in writers:
            lines += old[done : change.start] if change.start > done else ()
            lines += change.lines
            done = max(done, change.end)
    return [*lines, *old[done:]]
