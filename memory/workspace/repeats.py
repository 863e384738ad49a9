"""What an append adds to a note: without the parts that the file already holds, on a fresh line.

A part is a paragraph, a list item or a fenced block, under its heading. Models that are asked to
save their notes often send the whole file again. Pure; reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nacre.memory.contracts.workspace import Appended
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM


@dataclass(frozen=True)
class _Part:
    text: str
    heading: str
    after_blank: bool

    @property
    def key(self) -> tuple[str, str]:
        return _normalised(self.heading), _normalised(self.text)


def without_repeats(existing: str, text: str) -> tuple[str, int]:
    """The parts of `text` that do not stand in `existing` under the same heading, and how many do.

    White space does not count. A part of `text` that has no heading is a repeat wherever it stands
    in `existing`. A text without any repeat comes back as it is, without blank lines around it.
    """
    existing_parts = list(_parts(existing))
    last_heading = existing_parts[-1].heading if existing_parts else ""
    known = {
        key
        for part in existing_parts
        for key in (part.key, ("", _normalised(part.text)), (_normalised(part.heading), ""))
    }
    parts = list(_parts(text))
    new = [part for part in parts if part.key not in known]
    skipped = len(parts) - len(new)
    if not skipped:
        return text.strip("\r\n"), 0
    return _joined(new, last_heading), skipped


def addition(existing: str, text: str, *, skip_repeats: bool) -> tuple[str, Appended]:
    """What an append of `text` adds behind `existing`, white space included, and what to tell of it."""
    written, skipped = without_repeats(existing, text) if skip_repeats else (text.strip("\r\n"), 0)
    added = _gap(existing, written) + written + "\n" if written else ""
    return added, Appended(written=written, skipped_parts=skipped)


def _gap(existing: str, written: str) -> str:
    if not existing.strip():
        return "" if not existing or existing.endswith("\n") else "\n"
    fresh_line = "" if existing.endswith("\n") else "\n"
    lines = existing.splitlines()
    list_goes_on = _is_list_item(lines[-1]) and _is_list_item(written)
    return fresh_line + ("" if list_goes_on or not lines[-1].strip() else "\n")


def _is_list_item(line: str) -> bool:
    item = ITEM.match(line)
    return item is not None and not item[1]


def _parts(text: str) -> Iterator[_Part]:
    lines: list[str] = []
    heading = ""
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
            yield _Part("\n".join(lines), heading, after_blank)
            lines, bare_heading = [], False
        if HEADING.match(line):
            if bare_heading:
                yield _Part("", heading, True)
            heading, bare_heading, blank = line.strip(), True, False
            continue
        if line.strip():
            if not lines:
                after_blank = blank
            lines.append(line)
            fence = opens[1] if opens else ""
        blank = not line.strip()
    if lines:
        yield _Part("\n".join(lines).rstrip("\n"), heading, after_blank)
    elif bare_heading:
        yield _Part("", heading, True)


def _joined(parts: list[_Part], last_heading: str) -> str:
    text, heading, previous = "", last_heading, None
    for part in parts:
        if part.heading and part.heading != heading:
            text += ("\n\n" if text else "") + part.heading
            heading, previous = part.heading, None
        if part.text:
            both_items = previous is None or (_is_list_item(previous.text) and _is_list_item(part.text))
            tight = text and not part.after_blank and both_items
            text += ("\n" if tight else "\n\n" if text else "") + part.text
            previous = part
    return text


def _normalised(text: str) -> str:
    return " ".join(text.split())
