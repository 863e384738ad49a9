"""The lines under `## Retain` of a log: what is to be kept, of which kind, about whom. Pure.

    W @Peter: Currently in Marrakech.              a fact about the world
    B @warelay: I fixed the crash on reconnect.    what the agent did
    O(c=0.95) @Peter: Prefers short replies.       an opinion, with its confidence
    S @Peter: Busy with the move all week.         an observation, a summary

A list item, or such a line by itself; indented lines go on with the one above. Several entities, or none,
may stand before the colon. The section ends with the next heading of its level or above.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import date
from typing import Literal, TypeAlias, cast

from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM, is_retain
from nacre.record import Record

Kind: TypeAlias = Literal["W", "B", "O", "S"]

UNSAID_CONFIDENCE = 0.7
"""What an opinion without `c=` counts for."""

_LINE = re.compile(
    r"(?P<kind>[WBOS])(?:\((?P<inside>[^)]*)\))?(?P<entities>(?:\s+@[^\s:\uff1a]+)*)\s*[:\uff1a]\s*(?P<text>.*)",
    re.DOTALL,
)
_CONFIDENCE = re.compile(r"\s*c\s*=\s*(\d+(?:\.\d*)?|\.\d+)\s*")
_ENTITY = re.compile(r"\w(?:[\w.'-]*\w)?")
_MOST_NAME_CHARS = 60
_NO_LINE = "it does not begin like `W @Name:`, `B …:`, `O(c=0.9) …:`, `S …:`"


class Retained(Record):
    """One item that is to be kept, from `line` to `last_line`, which count from 1 and are inclusive.

    `confidence` is an opinion's, 0 to 1.
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
        """Where it stands, such as `memory/2026-01-20.md#L12`."""
        return f"{self.path}#L{self.line}"

    @property
    def day(self) -> date:
        """The day of its log."""
        return day_in_path(self.path) or date.min

    @property
    def digest(self) -> str:
        """What it is known by when lines above it come or go: 16 hexadecimal digits of its words and log."""
        said = (self.kind, str(self.confidence), *map(str.casefold, self.entities), self.text, self.path)
        return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Unparsed(Record):
    """A line under `## Retain` that says nothing which could be kept, and why."""

    path: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}#L{self.line} stays where it is: {self.reason}. It says {self.text!r}."


def retained(path: str, text: str) -> Iterator[Retained | Unparsed]:
    """Each line under `## Retain` of the log at `path`, in order. Never fails, whatever the text is."""
    for number, last_line, line in _items(text.split("\n")):
        said = ITEM.sub("", line, count=1).strip()
        found = _LINE.fullmatch(said)
        problem = _problem(found) if found else _NO_LINE
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


def said_in(line: str) -> str:
    """What a line of a note says, without the mark of what kind of fact it is, if it has one."""
    said = ITEM.sub("", line, count=1).strip()
    found = _LINE.fullmatch(said)
    return f"{found['entities']}: {found['text']}" if found else line


def _problem(found: re.Match[str]) -> str:
    """Why a line of the right shape cannot be kept; nothing when it can."""
    names = [name[1:] for name in found["entities"].split()]
    odd = [name for name in names if not _ENTITY.fullmatch(name) or len(name) > _MOST_NAME_CHARS]
    if odd:
        return f"@{odd[0]} cannot be the name of a page"
    if not found["text"].strip():
        return "nothing stands behind the colon"
    if found["inside"] is None:
        return ""
    if found["kind"] != "O":
        return f"only an opinion has a confidence, and this is {found['kind']}"
    stated = _CONFIDENCE.fullmatch(found["inside"])
    if stated is None or float(stated[1]) > 1:
        return f"({found['inside']}) is no confidence; write one from 0 to 1, such as (c=0.9)"
    return ""


def _confidence(inside: str | None) -> float:
    stated = _CONFIDENCE.fullmatch(inside or "")
    return float(stated[1]) if stated else UNSAID_CONFIDENCE


def _items(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The first and the last line of each item below a heading "Retain", and its text in one line."""
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
