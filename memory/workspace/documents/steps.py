"""What becomes of a file when a folder and a workspace are brought together. Pure.

Three texts decide, `None` for a missing file: `base`, what both had when they last met, `there`, what the
workspace has, and `here`, what the folder has.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from nacre.memory.contracts.notes import IGNORED_FOLDERS

THEIRS = ".theirs"
"""Behind the name of a file that cannot be merged: the workspace's text, beside the folder's."""
KEPT_FOLDER = ".nacre"
"""The folder in the folder that holds what both had when they last met."""
HERE_MARK, THERE_MARK = b"<<<<<<< this folder", b">>>>>>> the workspace"
_STAYS = frozenset(name.casefold() for name in IGNORED_FOLDERS)
_LEFT_BY_A_KILL = re.compile(r"\.[0-9a-f]{16}\.tmp")

Text = bytes | None


class Step(Enum):
    """What is done with one file."""

    NOTHING = auto()
    MET = auto()
    """Both have the same: it is noted that they met."""
    COPY = auto()
    """One did not change it, so it gets what the other has, or loses what the other removed."""
    KEEP = auto()
    """Removed there and changed here: it stays, and the next push makes it again."""
    MERGE = auto()
    """Both changed it."""


def pulled(base: Text, there: Text, here: Text) -> Step:
    """What a pull does, which changes the folder alone."""
    if there == here:
        return Step.NOTHING if base == there else Step.MET
    if there == base:
        return Step.NOTHING
    if here in (base, None):
        return Step.COPY
    return Step.KEEP if there is None else Step.MERGE


def pushed(base: Text, there: Text, here: Text) -> Step:
    """What a push does, which changes the workspace alone; to merge is for a pull to do first."""
    if there == here:
        return Step.NOTHING if base == there else Step.MET
    if here == base:
        return Step.NOTHING
    return Step.COPY if there == base else Step.MERGE


def travels(name: str) -> bool:
    """Whether a file goes from one to the other.

    What programs keep in folders of their own stays where it is: a name like `.git/hooks/…` from a workspace
    would be run by git.
    """
    parts = name.split("/")
    if name.endswith(THEIRS) or _LEFT_BY_A_KILL.fullmatch(parts[-1]):
        return False
    return all(part.casefold() not in _STAYS for part in parts)


def has_marks(text: bytes) -> bool:
    """Whether a text has the marks of a conflict that a pull wrote."""
    return HERE_MARK in text and THERE_MARK in text


def only_appended(base: Text, there: bytes, here: bytes) -> bool:
    """Whether both went on behind what they had, as in a log."""
    return bool(base) and there.startswith(base or b"") and here.startswith(base or b"")
