"""A summary in the words of a model, on the page of an entity: checked, then put there. Pure.

It is one paragraph below `## Summary`, the page's first section, and each sentence ends with its links:

    Peter is in Marrakech (memory/2026-01-20.md#L12). He prefers short replies (bank/opinions.md).
"""

from __future__ import annotations

import re

from nacre.memory.files.bank.pages import LINK, OPINIONS, joined, line_end, lines_of
from nacre.memory.text.markdown_blocks import HEADING

MOST_CHARS = 800

_NAMED = rf"(?:{LINK.pattern}|{re.escape(OPINIONS)})"
_SENTENCE = re.compile(rf"(?P<words>.+?)\({_NAMED}(?:[,;] *{_NAMED})*\)[.!?]? *")
_MORE_THAN_ONE = re.compile(r"[.!?]\s+\S|[。！？]\s*\S")
_NO_PROSE = re.compile(r"[<>`|]|\]\(|://|^\s*(?:#|[-*+] |\d+[.)] )")


def checked(answer: str, page: str) -> str:
    """The summary that a model gave, in one line; nothing unless each sentence has a link of the page.

    Each sentence ends with its links in brackets. What has a sentence without, a link that the page has not,
    or anything but plain sentences, is no summary.
    """
    text = " ".join(answer.split())
    if not text or len(text) > MOST_CHARS or _NO_PROSE.search(text):
        return ""
    if not set(re.findall(_NAMED, page)).issuperset(re.findall(_NAMED, text)):
        return ""
    at = 0
    while at < len(text):
        sentence = _SENTENCE.match(text, at)
        if sentence is None:
            return ""
        words = sentence["words"].strip()
        if not any(map(str.isalnum, words)) or _MORE_THAN_ONE.search(words):
            return ""
        at = sentence.end()
    return text


def summary_lines(page: str) -> range:
    """The lines of a page's summary, from 0, without the heading and blank lines; empty if there is none."""
    lines = lines_of(page)
    start = next((at for at, line in enumerate(lines) if _is_summary(line)), None)
    if start is None:
        return range(0)
    end = next((at for at in range(start + 1, len(lines)) if HEADING.match(lines[at])), len(lines))
    said = [at for at in range(start + 1, end) if lines[at].strip()]
    return range(said[0], said[-1] + 1) if said else range(start + 1, start + 1)


def with_summary(page: str, summary: str) -> str:
    """The page with this summary, in place of the one that it has or as its first section."""
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
