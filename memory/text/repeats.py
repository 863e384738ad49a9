"""What an append adds to a note, without parts that the file already has.

A part is a paragraph, a list item or a fenced block under its heading. Models often send a whole file again
when they save notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nacre.memory.contracts.workspace import Appended
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM, common_prefix, is_retain


class _Part(NamedTuple):
    """A paragraph, list item or fenced block; `path` has the headings above it, outermost first."""

    text: str
    path: tuple[str, ...]
    after_blank: bool

    @property
    def heading(self) -> str:
        return self.path[-1] if self.path else ""

    @property
    def key(self) -> tuple[str, str]:
        return _normalized(self.heading), _normalized(self.text)


def without_repeats(existing: str, text: str, *, heading: str = "", below: str = "") -> tuple[str, int]:
    """The parts of `text` that `existing` does not have under the same heading, and the number of repeats.

    White space is ignored. A part without a heading is a repeat of an equal part anywhere. A text without
    repeats is returned as it is, without blank lines around it; otherwise the remaining parts keep their
    headings.

    The line `heading` goes above the result. It is left out directly behind itself, above a heading of its
    level or a higher one, and, with `below`, unless a heading with this prefix or "Retain" is open at the end
    of `existing`, because each line under "Retain" goes to a page.
    """
    existing_parts = list(_parts(existing))
    open_path = existing_parts[-1].path if existing_parts else ()
    known = {
        key
        for part in existing_parts
        for key in (part.key, ("", _normalized(part.text)), (_normalized(part.heading), ""))
    }
    parts = list(_parts(text))
    new = [part for part in parts if part.key not in known]
    skipped = len(parts) - len(new)
    above = _heading_above(open_path, new[0].path, heading, below) if new and heading else ""
    written = _joined(new, (above,) if above else open_path) if skipped else text.strip("\r\n")
    return f"{above}\n\n{written}" if above else written, skipped


def addition(
    existing: str, text: str, *, skip_repeats: bool, heading: str, below: str
) -> tuple[str, Appended]:
    """What `Workspace.append` adds to `existing`, including white space, and its result."""
    written, skipped = text.strip("\r\n"), 0
    if skip_repeats:
        written, skipped = without_repeats(existing, text, heading=heading, below=below)
    added = _separator(existing, written) + written + "\n" if written else ""
    return added, Appended(written=written, skipped_parts=skipped)


def _separator(existing: str, written: str) -> str:
    if not existing.strip():
        return "" if not existing or existing.endswith("\n") else "\n"
    fresh_line = "" if existing.endswith("\n") else "\n"
    lines = existing.splitlines()
    list_goes_on = _is_list_item(lines[-1]) and _is_list_item(written)
    return fresh_line + ("" if list_goes_on or not lines[-1].strip() else "\n")


def _is_list_item(line: str) -> bool:
    item = ITEM.match(line)
    return item is not None and not item[1]


def _heading_above(open_path: tuple[str, ...], path: tuple[str, ...], heading: str, below: str) -> str:
    has_its_own = bool(path) and _level(path[0]) <= _level(heading)
    stands_there = bool(open_path) and _normalized(open_path[-1]) == _normalized(heading)
    is_apart = not below or any(line.startswith(below) or is_retain(line) for line in open_path)
    return heading if is_apart and not has_its_own and not stands_there else ""


def _parts(text: str) -> Iterator[_Part]:
    lines: list[str] = []
    path: tuple[str, ...] = ()
    fence, blank, after_blank, bare_heading = "", True, True, False
    for line in [*text.splitlines(), ""]:
        if fence:
            lines.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        opens = FENCE.match(line)
        starts_part = bool(HEADING.match(line) or _is_list_item(line) or opens)
        if lines and (not line.strip() or starts_part):
            yield _Part("\n".join(lines), path, after_blank)
            lines, bare_heading = [], False
        if HEADING.match(line):
            if bare_heading:
                yield _Part("", path, True)
            path, bare_heading, blank = _under(path, line.strip()), True, False
            continue
        if line.strip():
            if not lines:
                after_blank = blank
            lines.append(line)
            fence = opens[1] if opens else ""
        blank = not line.strip()
    if lines:
        yield _Part("\n".join(lines).rstrip("\n"), path, after_blank)
    elif bare_heading:
        yield _Part("", path, True)


def _joined(parts: list[_Part], open_path: tuple[str, ...]) -> str:
    text, previous = "", None
    for part in parts:
        wanted = _under(open_path, *part.path) if part.path else open_path
        if wanted != open_path or (part.path and not part.text):
            same = len(common_prefix(wanted, open_path))
            text += ("\n\n" if text else "") + "\n".join(wanted[min(same, len(wanted) - 1) :])
            open_path, previous = wanted, None
        if part.text:
            both_items = previous is None or (_is_list_item(previous.text) and _is_list_item(part.text))
            tight = text and not part.after_blank and both_items
            text += ("\n" if tight else "\n\n" if text else "") + part.text
            previous = part
    return text


def _under(path: tuple[str, ...], *headings: str) -> tuple[str, ...]:
    for heading in headings:
        path = (*(above for above in path if _level(above) < _level(heading)), heading)
    return path


def _level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


def _normalized(text: str) -> str:
    return " ".join(text.split())
