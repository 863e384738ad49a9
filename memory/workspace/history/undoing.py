"""A change taken back out of a text that went on since. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nacre.memory.workspace.history.attributing import hunks


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """What was to be taken back was changed again: at line `line` of the present text, from 1."""

    line: int


def taken_back(before: Sequence[str], after: Sequence[str], now: Sequence[str]) -> list[str] | Conflict:
    """`now` without the change from `before` to `after`.

    What was added elsewhere stays, also right beside it. A place whose lines are no longer as the change left
    them is a conflict.
    """
    since = list(hunks(after, now))
    lines = list(now)
    for a, b, c, d in reversed(list(hunks(before, after))):
        shift = 0
        for start, end, now_start, now_end in since:
            touches = start < d and end > c if c < d and start < end else c < start < d or start < c < end
            if touches:
                return Conflict(line=now_start + 1)
            if end <= c and not start == end == c == d:  # what goes back in comes before what was added there
                shift = now_end - end
        lines[c + shift : d + shift] = before[a:b]
    return lines
