"""What rules alone find: a line that stands in several notes, a key that has several values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nacre.memory.files.sources.stored import line_key
from nacre.memory.files.tidy.edits import Edit, Place, has_lines_below, sections
from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.claims import Claim, has_other_value
from nacre.memory.text.evidence import fold
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM

_KEYED = re.compile(
    r"(?:\*\*|__)?([^\W\d_][^:=\uff1a|]{0,59}?)(?:\*\*|__)?\s*(?::(?:\*\*|__)?(?=\s)|\uff1a|=)\s*(\S.*)"
)
_TASK = re.compile(r"\[[ xX]\]\s+")
_NO_KEYS = frozenset(
    ("user", "assistant", "note", "notes", "todo", "idea", "done", "link", "url", "source", "see", "also")
)
"""What stands before a colon and has many values at once."""
_LEAST_WORDS = 2
"""A shorter line, such as `- ok`, is no repeat of another one."""
_WORD = re.compile(r"\w+")
_SECTIONS = frozenset(("facts", "preferences", "decisions", "people", "lessons", "retain", "notes", "log"))
"""Headings that say what kind of lines stand below, and not what these are about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A key with several values; the newest first, what has no day last."""

    key: str
    places: tuple[Place, ...]


def places(path: str, text: str) -> Iterator[Place]:
    """The lines of a note that say something: no headings, no code, no quotations."""
    fence = ""
    for number, line in enumerate(text.split("\n"), start=1):
        opens = FENCE.match(line)
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif opens:
            fence = opens[1]
        elif line.strip() and not HEADING.match(line) and not line.lstrip().startswith(">"):
            yield Place(path=path, number=number, text=line.strip())


def repeats(lines: Sequence[Place]) -> list[tuple[Place, ...]]:
    """Lines that say the same but for blanks and list marks, in several notes or twice in the curated one.

    Each group in the order of `lines`. What two days say alone may have happened twice: a group has at least
    one line of a note without a day.
    """
    found: dict[str, list[Place]] = {}
    for place in lines:
        if len(_WORD.findall(place.text)) >= _LEAST_WORDS and (key := line_key(fold(place.text))):
            found.setdefault(key, []).append(place)
    groups = (tuple(group) for group in found.values() if len(group) > 1)
    return [group for group in groups if any(day_in_path(place.path) is None for place in group)]


def without_repeats(path: str, text: str, known: Sequence[Place]) -> list[Edit]:
    """Edits that take out what the curated note says twice under one heading; the first one stays.

    `known` are the lines of it that count.
    """
    lines, marks = text.split("\n"), sections(text)
    first: dict[tuple[str, tuple[str, ...]], Place] = {}
    edits: list[Edit] = []
    for place in known:
        key = line_key(place.text)
        if place.path != path or not key or not ITEM.match(lines[place.number - 1]):
            continue
        stands = first.setdefault((key, _heading(marks, place.number)), place)
        if stands is not place and not has_lines_below(lines, place.number):
            edits.append(Edit(kind="duplicate", of=(stands,), removed=(place,)))
    return edits


def contradictions(lines: Sequence[Place], texts: Mapping[str, str]) -> list[Contradiction]:
    """Keys that have several values, such as `- Phone: 1` and `- Phone: 2`, by the newest value.

    Of one thing are lines below the same heading, or below none that names a thing. `texts` has the whole
    text of each note.
    """
    marks = {path: sections(text) for path, text in texts.items()}
    found: dict[tuple[str, str], list[Place]] = {}
    for place in lines:
        keyed = _KEYED.fullmatch(_bare(place.text))
        key = " ".join(_WORD.findall(fold(keyed[1]))) if keyed else ""
        if key and key not in _NO_KEYS and Claim(place.text).is_statement:
            path = _heading(marks[place.path], place.number)
            found.setdefault((_thing(path), key), []).append(place)
    told = [_told(key, group) for (_, key), group in found.items()]
    return sorted((each for each in told if each is not None), key=lambda each: _newest_first(each.places[0]))


def _told(key: str, group: Sequence[Place]) -> Contradiction | None:
    newest = sorted(group, key=_newest_first)
    differ = [place for place in newest[1:] if has_other_value(Claim(newest[0].text), Claim(place.text))]
    return Contradiction(key=key, places=(newest[0], *differ)) if differ else None


def _newest_first(place: Place) -> tuple[int, str, int]:
    day = day_in_path(place.path)
    return (-day.toordinal() if day else 0, place.path, -place.number)


def _bare(text: str) -> str:
    item = ITEM.match(text)
    return _TASK.sub("", text[item.end() :] if item else text, count=1).strip()


def _heading(marks: Sequence[tuple[int, tuple[str, ...]]], number: int) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    for line, headings in marks:
        if line >= number:
            break
        path = headings
    return path


def _thing(headings: tuple[str, ...]) -> str:
    """What the innermost heading says the lines are about; nothing for a title, a day, a time, a kind."""
    if len(headings) < 2:
        return ""
    name = fold(headings[-1]).strip()
    return "" if name in _SECTIONS or not re.match(r"[^\W\d_]", name) else name
