"""The pages of `bank/`: items with links to their lines, the file `.taken`, and checked summaries.

An item is a line such as `- @Peter: Currently in Marrakech. (memory/2026-01-20.md#L12)`. The names before the
colon say whom it is about; the page of an entity leaves out its own name. Other text on a page stays as it
is.

`bank/.taken` has one line for each item that was put on a page: a digest of the item, a blank, and its link.
An item that the owner rewrote or removed is therefore not added again, and a link follows its line when lines
above it come or go. Without this file, items are recognized by their words.

A summary is one paragraph below `## Summary`, the first section of an entity's page. Each sentence ends with
its links: `Peter is in Marrakech (memory/2026-01-20.md#L12). He prefers short replies (bank/opinions.md).`
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
TAKEN = f"{BANK_FOLDER}/.taken"
MAX_SUMMARY_CHARS = 800

LINK = re.compile(r"memory/[^\s()#]+\.md#L\d+(?!\d)")
_LINKS_AT_END = re.compile(r"\s*\((?:c=[\d.]+, )?(?:memory|bank)/[^\s()]+\.md(?:#L\d+)?\)\s*$")
_TAKEN_LINE = re.compile(r"([0-9a-f]{16}) (\S.*)")
_SOURCE = rf"(?:{LINK.pattern}|{re.escape(OPINIONS)})"
_SENTENCE = re.compile(rf"(?P<words>.+?)\({_SOURCE}(?:[,;] *{_SOURCE})*\)[.!?]? *")
_SEVERAL_SENTENCES = re.compile(r"[.!?]\s+\S|[。！？]\s*\S")
_NOT_PROSE = re.compile(r"[<>`|]|\]\(|://|^\s*(?:#|[-*+] |\d+[.)] )")


def new_page(path: str) -> str:
    """The text of a new page: its title."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return f"# {name if path.startswith(ENTITIES) else name.capitalize()}\n"


def lines_of(text: str) -> list[str]:
    """The lines of a page without line feeds; a carriage return stays."""
    return text.removesuffix("\n").split("\n") if text else []


def joined(lines: Sequence[str]) -> str:
    """The page that has these lines."""
    return "\n".join(lines) + "\n"


def line_end(text: str) -> str:
    """The carriage return before the line feeds of a page, or nothing."""
    return "\r" if "\r\n" in text else ""


def item_text(line: str) -> str:
    """The words of an item without its list mark and links, separated by single blanks."""
    return " ".join(_LINKS_AT_END.sub("", ITEM.sub("", line, count=1)).split())


def item_texts(text: str) -> frozenset[str]:
    """The words of each item of a page."""
    return frozenset(item_text(line) for line in text.split("\n") if ITEM.match(line))


def with_entities(entities: Sequence[str], text: str) -> str:
    """The text of an item after the names of the entities that it is about."""
    return f"{' '.join(f'@{name}' for name in entities)}: {text}" if entities else text


def with_moved_links(text: str, moved: Mapping[str, str]) -> str:
    """The page with new links for lines that have moved; `moved` maps old links to new ones."""
    return LINK.sub(lambda link: moved.get(link[0], link[0]), text) if moved else text


def taken_links(text: str) -> dict[str, str]:
    """The link of each digest in the text of `bank/.taken`. Other lines are ignored."""
    return {
        found[1]: found[2] for line in text.splitlines() if (found := _TAKEN_LINE.fullmatch(line.strip()))
    }


def taken_text(links: Mapping[str, str]) -> str:
    """The text of `bank/.taken` for the link of each digest."""
    return "".join(f"{digest} {link}\n" for digest, link in links.items())


def with_items(text: str, items: Sequence[str], *, section: str = "") -> str:
    """The page with `items`, each a Markdown item of one or more lines, at the end of a section.

    `section` is a heading of level two, which is added if it is missing. Without it, the items go to the end
    of the part before the first heading of level two.
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
    """The first line of a section behind its heading, and its end; -1 and 0 if there is no such section."""
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


def checked_summary(answer: str, page: str) -> str:
    """A model's summary of `page` in one line, or nothing if it may not be used.

    It must consist of plain sentences, and each one must end with links in brackets that the page has.
    """
    text = " ".join(answer.split())
    if not text or len(text) > MAX_SUMMARY_CHARS or _NOT_PROSE.search(text):
        return ""
    if not set(re.findall(_SOURCE, page)).issuperset(re.findall(_SOURCE, text)):
        return ""
    at = 0
    while at < len(text):
        sentence = _SENTENCE.match(text, at)
        if sentence is None:
            return ""
        words = sentence["words"].strip()
        if not any(map(str.isalnum, words)) or _SEVERAL_SENTENCES.search(words):
            return ""
        at = sentence.end()
    return text


def summary_lines(page: str) -> range:
    """The lines of a page's summary, from 0, without its heading and blank lines; empty without a summary."""
    lines = lines_of(page)
    start = next((at for at, line in enumerate(lines) if _is_summary(line)), None)
    if start is None:
        return range(0)
    end = next((at for at in range(start + 1, len(lines)) if HEADING.match(lines[at])), len(lines))
    said = [at for at in range(start + 1, end) if lines[at].strip()]
    return range(said[0], said[-1] + 1) if said else range(start + 1, start + 1)


def with_summary(page: str, summary: str) -> str:
    """The page with this summary instead of its present one, or as its first section."""
    lines, old, end = lines_of(page), summary_lines(page), line_end(page)
    if old.start:
        gap = [] if old else [end]
        lines[old.start : old.stop] = [*gap, summary + end]
        return joined(lines)
    headings = (HEADING.match(line) for line in lines)
    at = next((at for at, found in enumerate(headings) if found and len(found[1]) == 2), len(lines))
    gap = [] if at and not lines[at - 1].strip() else [end]
    lines[at:at] = [*gap, f"## Summary{end}", end, summary + end, end]
    return joined(lines)


def _is_summary(line: str) -> bool:
    found = HEADING.match(line)
    return found is not None and line[found.end() :].strip(" \t\r#").casefold() == "summary"
