"""The items under `## Retain` of a daily log, each with its kind and the entities that it is about.

    W @Peter: Currently in Marrakech.              a fact about the world
    B @warelay: I fixed the crash on reconnect.    what the agent did
    O(c=0.95) @Peter: Prefers short replies.       an opinion, with its confidence
    S @Peter: Busy with the move all week.         an observation, a summary

An item is a list item or a plain line; indented lines continue it. Any number of entities may stand before
the colon. The section ends at the next heading of its level or a higher one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import date
from typing import Literal, TypeAlias, cast

from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM, RETAINED, is_retain
from nacre.record import Record

Kind: TypeAlias = Literal["W", "B", "O", "S"]

DEFAULT_CONFIDENCE = 0.7
"""The confidence of an opinion without `c=`."""

_CONFIDENCE = re.compile(r"\s*c\s*=\s*(\d+(?:\.\d*)?|\.\d+)\s*")
_ENTITY = re.compile(r"\w(?:[\w.'-]*\w)?")
_MAX_NAME_CHARS = 60
_NOT_AN_ITEM = "it does not begin with one of `W @Name:`, `B …:`, `O(c=0.9) …:`, `S …:`"


class Retained(Record):
    """One item, on the lines from `line` to `last_line`, counted from 1 and inclusive.

    `confidence` is 0 to 1 for an opinion and `None` for other kinds.
    """

    kind: Kind
    entities: tuple[str, ...]
    text: str
    confidence: float | None
    path: str
    line: int
    last_line: int

    @property
    def link(self) -> str:
        """Its place, such as `memory/2026-01-20.md#L12`."""
        return f"{self.path}#L{self.line}"

    @property
    def day(self) -> date:
        """The day of its log."""
        return day_in_path(self.path) or date.min

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the item by its log and words, whatever its line number."""
        said = (self.kind, str(self.confidence), *map(str.casefold, self.entities), self.text, self.path)
        return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Unparsed(Record):
    """A line under `## Retain` that is not put on a page, and the reason."""

    path: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}#L{self.line} stays in its log: {self.reason}. The line is {self.text!r}."


def retained_items(path: str, text: str) -> Iterator[Retained | Unparsed]:
    """Each item under `## Retain` of the log `path`, in order. Accepts any text."""
    for number, last_line, line in _items(text.split("\n")):
        said = ITEM.sub("", line, count=1).strip()
        found = RETAINED.fullmatch(said)
        problem = _problem(found) if found else _NOT_AN_ITEM
        if found is None or problem:
            yield Unparsed(path=path, line=number, text=said[:120], reason=problem)
            continue
        entities = dict.fromkeys(name[1:] for name in found["entities"].split())
        yield Retained(
            kind=cast(Kind, found["kind"]),
            entities=tuple(entities),
            text=" ".join(found["text"].split()),
            confidence=_confidence(found["inside"]) if found["kind"] == "O" else None,
            path=path,
            line=number,
            last_line=last_line,
        )


def _problem(found: re.Match[str]) -> str:
    """Why a line of the right form cannot be used; empty if it can."""
    names = [name[1:] for name in found["entities"].split()]
    odd = [name for name in names if not _ENTITY.fullmatch(name) or len(name) > _MAX_NAME_CHARS]
    if odd:
        return f"@{odd[0]} cannot be the name of a page"
    if not found["text"].strip():
        return "there is no text after the colon"
    if found["inside"] is None:
        return ""
    if found["kind"] != "O":
        return f"only an opinion (O) has a confidence, and this is {found['kind']}"
    stated = _CONFIDENCE.fullmatch(found["inside"])
    if stated is None or float(stated[1]) > 1:
        return f"({found['inside']}) is not a confidence; write a number from 0 to 1, such as (c=0.9)"
    return ""


def _confidence(inside: str | None) -> float:
    stated = _CONFIDENCE.fullmatch(inside or "")
    return float(stated[1]) if stated else DEFAULT_CONFIDENCE


def _items(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The first and last line number of each item below a heading "Retain", and its text as one line."""
    level, fence, item = 0, "", (0, 0, "")
    for number, line in enumerate(lines, start=1):
        opens = FENCE.match(line)
        if fence or opens:
            fence = (
                "" if fence and opens and opens[1].startswith(fence) else fence or (opens[1] if opens else "")
            )
            continue
        heading = HEADING.match(line)
        if heading:
            if item[0]:
                yield item
            item = (0, 0, "")
            if is_retain(line):
                level = len(heading[1])
            elif level and len(heading[1]) <= level:
                level = 0
        elif level and line.strip():
            goes_on = item[0] and line[:1] in " \t" and not ITEM.match(line)
            if goes_on:
                item = (item[0], number, f"{item[2]} {line.strip()}")
            else:
                if item[0]:
                    yield item
                item = (number, number, line)
    if item[0]:
        yield item
