"""What would be changed in the curated notes, edit by edit, each with the lines it rests on. Pure.

An edit finds its lines by what they say, near where they stood, so that some of several can be done, and in
any text that still has the lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.memory.text.markdown_blocks import ITEM, outline
from nacre.record import Record

EditKind: TypeAlias = Literal["fold", "superseded", "duplicate"]
"""Lines of logs come in, also in the place of others; lines go that a newer one supersedes; repeats go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of a note: its number, from 1, and what it says, without blanks around it."""

    path: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """The place as citations have it, such as `MEMORY.md#L4`."""
        return f"{self.path}#L{self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One change of the curated notes, which can be done without the others.

    `removed` are lines of them that go; `added` stand in the place of the first, or at the end of the section
    `under`, which is made if need be; `""` is the end of the text. `of` are the lines that say so: those that
    are folded in, or that supersede what goes. `reason` is for the owner.
    """

    kind: EditKind
    of: tuple[Place, ...]
    removed: tuple[Place, ...] = ()
    added: tuple[str, ...] = ()
    under: str = ""
    reason: str = ""

    def told(self) -> str:
        """The edit in one line, with the places that it rests on."""
        names = ", ".join(place.name for place in self.of)
        why = f": {self.reason}" if self.reason else ""
        if self.kind == "duplicate":
            return f"stands in {names} as well{why}"
        return f"{'folded in from' if self.kind == 'fold' else 'superseded by'} {names}{why}"


class Tidied(Record):
    """A note as it is, `None` where there is none, what it would be, and why. `done` are the edits in it."""

    path: str
    before: str | None
    after: str
    done: tuple[Edit, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, an edit a line."""
        return tuple(edit.told() for edit in self.done)

    @property
    def diff(self) -> str:
        """The change as a unified diff, such as `git apply` takes; `""` if nothing would change."""
        return unified_diff(self.path, self.before, self.after)


def tidied(path: str, before: str | None, edits: Sequence[Edit]) -> Tidied:
    """The note with these edits; one whose lines are not there is left out."""
    text, done = before or "", []
    for edit in edits:
        changed = _with(text, edit)
        if changed is not None:
            text = changed
            done.append(edit)
    return Tidied(path=path, before=before, after=text, done=tuple(done))


def unified_diff(path: str, before: str | None, after: str) -> str:
    """How `after` differs from `before` as a unified diff."""
    lines = difflib.unified_diff(
        (before or "").splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile="/dev/null" if before is None else f"a/{path}",
        tofile=f"b/{path}",
    )
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(ended)


def sections(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """The headings of a text: the line, from 0, and the path of headings that ends there."""
    found = outline(text.split("\n")).headings
    return list(zip(found.lines, found.paths, strict=True))


def has_lines_below(lines: Sequence[str], number: int) -> bool:
    """Whether further lines belong to the line `number`, from 1: what is indented below a list item."""
    if number >= len(lines):
        return False
    item, below = ITEM.match(lines[number - 1]), lines[number]
    return item is not None and bool(below.strip()) and len(below) - len(below.lstrip()) > len(item[1])


def _with(text: str, edit: Edit) -> str | None:
    """The text with one edit; `None` where a line that goes is not there."""
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
    """The lines with `added` at the end of a section; a missing one is made at the end of all."""
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
