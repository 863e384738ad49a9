"""Sections of a summary: filled evenly within a token budget, written as Markdown, read back again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.runtime.models.offline.words.sentences import clipped, folded

Marker: TypeAlias = Literal["- ", "- [x] ", "- [ ] ", "1. ", ""]

NOTHING = "(none)"
MAX_ITEM_CHARS = 400

_LINE_MARK = re.compile(r"^\s*(?:[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.+?)\s*#*\s*$")
_NOTHING = re.compile(r"\W*(?:none|nothing|n/a)\W*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One heading of a summary.

    `under` is a heading above it that has no lines of its own. With `repeats` its lines may stand
    in another section as well: a request can hold a decision.
    """

    title: str
    marker: Marker = "- "
    under: str = ""
    newest_first: bool = False
    repeats: bool = False


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of a section; `order` grows with time, and what an earlier summary said is negative."""

    text: str
    order: int


def written(sections: Sequence[Section], items: Mapping[str, Sequence[Item]]) -> str:
    """The summary with every heading, `(none)` under those without items."""
    parts: list[str] = []
    above = ""
    for section in sections:
        if section.under and section.under != above:
            parts.append(f"## {section.under}")
        above = section.under
        lines = [f"{'###' if section.under else '##'} {section.title}"]
        chosen = sorted(
            items.get(section.title, ()), key=lambda item: item.order, reverse=section.newest_first
        )
        for number, item in enumerate(chosen, start=1):
            lines.append(f"{f'{number}. ' if section.marker == '1. ' else section.marker}{item.text}")
        parts.append("\n".join(lines if chosen else [*lines, NOTHING]))
    return "\n\n".join(parts)


def chosen_within(
    sections: Sequence[Section],
    candidates: Mapping[str, Sequence[Item]],
    *,
    budget_tokens: int,
    count_tokens: Callable[[str], int],
) -> dict[str, list[Item]]:
    """As many candidates as fit, taken from each section in turn, each statement once.

    Candidates of a section come most important first. What does not fit is passed over for
    something shorter.
    """
    chosen: dict[str, list[Item]] = {section.title: [] for section in sections}
    seen: set[tuple[str, str]] = set()
    left_tokens = budget_tokens - count_tokens(written(sections, {}))
    queues = [(section, iter(candidates.get(section.title, ()))) for section in sections]
    while queues and left_tokens > 0:
        remaining: list[tuple[Section, Iterator[Item]]] = []
        for section, queue in queues:
            scope = section.title if section.repeats else ""
            item = next((item for item in queue if (scope, folded(item.text)) not in seen), None)
            if item is None:
                continue
            remaining.append((section, queue))
            tokens = count_tokens(f"{section.marker}{item.text}\n") + 1
            if tokens <= left_tokens:
                seen.add((scope, folded(item.text)))
                chosen[section.title].append(item)
                left_tokens -= tokens
        queues = remaining
    return chosen


def read_outline(text: str) -> dict[str, list[str]]:
    """The lines of a summary under their headings, without markers; lines before any heading under `""`."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading:
            title = heading[1].strip("*: ")
            continue
        words = _LINE_MARK.sub("", line).strip()
        if words and not _NOTHING.fullmatch(words) and not words.startswith(("---", "**Turn Context")):
            found.setdefault(title, []).append(clipped(words, MAX_ITEM_CHARS))
    return found
