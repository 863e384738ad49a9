"""Edits of the curated note, each with the lines that support it.

An edit finds its lines by their text, near their old line numbers. Any selection of edits can be applied, to
any text that still has the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from nacre.memory.files.proposals import NoteChange
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.text.markdown_blocks import ITEM, outline

MOST_CITATIONS = 4
"""The most places that one line cites; the first and the newest stay."""
_PLACE = r"(?:memory|bank)/[^\s()#]+\.md#L\d+"
_CITED = re.compile(rf"\s*\(({_PLACE}(?:; {_PLACE})*)\)\s*$")

EditKind: TypeAlias = Literal["fold", "superseded", "duplicate"]
"""`fold` adds lines of logs, perhaps in place of others; `superseded` removes lines that a newer line
replaces; `duplicate` removes repeated lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of a note: its number, from 1, and its text without surrounding blanks."""

    path: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """The place in the form of citations, such as `MEMORY.md#L4`."""
        return f"{self.path}#L{self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One change of the curated note, which can be applied without the others.

    `removed` are lines of the note. `added` replace the first of them, or go to the end of the section
    `under`, which is added if it is missing; without `under`, to the end of the note. `evidence` are the
    lines that are folded in, or that supersede or repeat the removed ones. `reason` is for the owner. With
    `page`, the lines go to the page at this path instead, which gets the `title` if it is new.
    """

    kind: EditKind
    evidence: tuple[Place, ...]
    removed: tuple[Place, ...] = ()
    added: tuple[str, ...] = ()
    under: str = ""
    reason: str = ""
    page: str = ""
    title: str = ""

    @property
    def description(self) -> str:
        """The edit in one line, with the places that support it."""
        names = ", ".join(place.name for place in self.evidence)
        why = f": {self.reason}" if self.reason else ""
        if self.kind == "duplicate":
            return f"also in {names}{why}"
        return f"{'folded in from' if self.kind == 'fold' else 'superseded by'} {names}{why}"


def without_citation(line: str) -> str:
    """A line without the places in parentheses at its end."""
    return _CITED.sub("", line)


def with_citation(line: str, evidence: Iterable[Place], covered: Iterable[Place]) -> str:
    """A line that ends with its places: those that the `covered` lines cite, and the `evidence`."""
    found = [_CITED.search(text) for text in (line, *(place.text for place in covered))]
    kept = [name for each in found if each for name in each[1].split("; ")]
    names = list(dict.fromkeys((*kept, *(place.name for place in evidence))))
    shown = names if len(names) <= MOST_CITATIONS else [names[0], *names[1 - MOST_CITATIONS :]]
    bare = without_citation(line)
    return f"{bare} ({'; '.join(shown)})" if shown else bare


class TidiedNote(NoteChange):
    """A note before and after the edits `edits`."""

    edits: tuple[Edit, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The description of each edit."""
        return tuple(edit.description for edit in self.edits)


def tidied(path: str, before: str | None, edits: Sequence[Edit]) -> TidiedNote:
    """The note with these edits, without those of other pages and those whose lines it does not have."""
    text, applied = before or "", list[Edit]()
    for edit in edits:
        changed = _with(text, edit) if edit.page in ("", path) else None
        if changed is not None:
            text = changed
            applied.append(edit)
    return TidiedNote(path=path, before=before, after=text, edits=tuple(applied))


def redacted(note: TidiedNote) -> TidiedNote:
    """The note without keys and passwords in its new lines."""
    return replace(note, after=without_new_secrets(note.after, note.before or ""))


def sections(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """The headings of a text: each one's line, from 0, and the path of headings that ends with it."""
    found = outline(text.split("\n")).headings
    return list(zip(found.lines, found.paths, strict=True))


def has_lines_below(lines: Sequence[str], number: int) -> bool:
    """Whether the line `number`, from 1, is a list item with indented lines below it."""
    if number >= len(lines):
        return False
    item, below = ITEM.match(lines[number - 1]), lines[number]
    return item is not None and bool(below.strip()) and len(below) - len(below.lstrip()) > len(item[1])


def _with(text: str, edit: Edit) -> str | None:
    """The text with one edit; `None` if a line to be removed is missing."""
    end = "\r" if "\r\n" in text else ""
    lines = text.split("\n")
    gone: set[int] = set()
    for place in edit.removed:
        near = [at for at, line in enumerate(lines) if line.strip() == place.text and at not in gone]
        if not near:
            return None
        gone.add(min(near, key=lambda at: abs(at + 1 - place.number)))
    added = [f"{line}{end}" for line in edit.added]
    at = min(gone) if gone and not edit.under else None
    kept = [line for number, line in enumerate(lines) if number not in gone]
    if at is None:
        return "\n".join(_under(kept, edit.under, added, end) if added else kept)
    return "\n".join([*kept[:at], *added, *kept[at:]])


def _under(lines: list[str], under: str, added: list[str], end: str) -> list[str]:
    """The lines with `added` at the end of a section, which is added if it is missing."""
    marks = sections("\n".join(lines))
    wanted = under.strip("# \t").casefold()
    begins = [at for at, (_, path) in enumerate(marks) if path and path[-1].casefold() == wanted]
    if wanted and not begins:
        while lines and not lines[-1].strip():
            lines = lines[:-1]
        return [*lines, *([end] if lines else []), f"## {under.strip('# ')}{end}", end, *added, ""]
    stop = len(lines)
    start = 0
    if wanted:
        start, path = marks[begins[0]]
        stop = next((line for line, other in marks[begins[0] + 1 :] if len(other) <= len(path)), stop)
    last = stop
    while last > start and not lines[last - 1].strip():
        last -= 1
    is_bare = last == start + 1 and bool(wanted)
    follows_item = last > 0 and ITEM.match(lines[last - 1]) is not None
    gap = [end] if is_bare or (last and not follows_item) else []
    rest = lines[last:] if any(line.strip() for line in lines[last:]) else [""]
    return [*lines[:last], *gap, *added, *rest]
