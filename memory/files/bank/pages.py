"""A page of `bank/`: a title, perhaps sections, items with links back. Pure; what it does not know it leaves.

An item is a line such as `- @Peter: Currently in Marrakech. (memory/2026-01-20.md#L12)`. A name before the
colon says whom it is about; the page of an entity leaves its own out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nacre.memory.contracts.notes import BANK_FOLDER
from nacre.memory.text.markdown_blocks import HEADING, ITEM

ENTITIES = f"{BANK_FOLDER}/entities"
WORLD = f"{BANK_FOLDER}/world.md"
EXPERIENCE = f"{BANK_FOLDER}/experience.md"
OPINIONS = f"{BANK_FOLDER}/opinions.md"

LINK = re.compile(r"memory/[^\s()#]+\.md#L\d+(?!\d)")
_BEHIND = re.compile(r"\s*\((?:c=[\d.]+, )?(?:memory|bank)/[^\s()]+\.md(?:#L\d+)?\)\s*$")


def titled(path: str) -> str:
    """The text of a new page."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return f"# {name if path.startswith(ENTITIES) else name.capitalize()}\n"


def lines_of(text: str) -> list[str]:
    """The lines of a page, each with the carriage return that it may have."""
    return text.removesuffix("\n").split("\n") if text else []


def joined(lines: Sequence[str]) -> str:
    """The page that has these lines."""
    return "\n".join(lines) + "\n"


def line_end(text: str) -> str:
    """What stands before the line feeds of a page: a carriage return, or nothing."""
    return "\r" if "\r\n" in text else ""


def words_of(line: str) -> str:
    """What an item says, without its mark and its link, with single blanks."""
    return " ".join(_BEHIND.sub("", ITEM.sub("", line, count=1)).split())


def said_on(text: str) -> frozenset[str]:
    """What the items of a page say."""
    return frozenset(words_of(line) for line in text.split("\n") if ITEM.match(line))


def about(entities: Sequence[str], text: str) -> str:
    """What an item says, with those it is about before it."""
    return f"{' '.join(f'@{name}' for name in entities)}: {text}" if entities else text


def relinked(text: str, moved: Mapping[str, str]) -> str:
    """The page with the links of lines that stand elsewhere now."""
    return LINK.sub(lambda link: moved.get(link[0], link[0]), text) if moved else text


def with_items(text: str, items: Sequence[str], *, section: str = "") -> str:
    """The page with `items`, each a Markdown item of one or more lines, behind those of a section.

    The section is that below the heading `section` of second level, made if need be; without one, the items
    stand at the end of what comes before the first such heading.
    """
    lines = lines_of(text)
    added = [line for item in items for line in item.split("\n")]
    first, last = _span(lines, section)
    while last > first and not lines[last - 1].strip():
        last -= 1
    follows_item = last > first and ITEM.match(lines[last - 1])
    gap = [] if follows_item or last == 0 else [""]
    if section and first < 0:
        gap, added = [], ["", f"## {section}", "", *added]
        last = len(lines)
        while last and not lines[last - 1].strip():
            last -= 1
    behind = lines[last:]
    if behind and behind[0].strip():
        added.append("")
    end = line_end(text)
    return joined([*lines[:last], *(line + end for line in (*gap, *added)), *behind])


def _span(lines: Sequence[str], section: str) -> tuple[int, int]:
    """The lines of a section, its heading left out; -1 and 0 for one that is not there."""
    headings = [
        (number, line[found.end() :].strip(" \t\r#"))
        for number, line in enumerate(lines)
        if (found := HEADING.match(line)) and len(found[1]) == 2
    ]
    if not section:
        return 0, headings[0][0] if headings else len(lines)
    for place, (number, title) in enumerate(headings):
        if title.casefold() == section.casefold():
            following = headings[place + 1][0] if place + 1 < len(headings) else len(lines)
            return number + 1, following
    return -1, 0
