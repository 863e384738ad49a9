"""The words of a message: HTML as text, and text without what it quotes. Pure."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HEADS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LISTS = ("dd", "dl", "dt", "li", "ol", "table", "tr", "ul")
_BLOCKS = frozenset(
    (*_HEADS, *_LISTS, "address", "article", "blockquote", "div", "hr", "p", "pre", "section")
)
_UNSEEN = frozenset(("head", "script", "style", "template", "title"))
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])", re.IGNORECASE
)
_QUOTES = ("gmail_quote", "moz-cite-prefix", "yahoo_quoted", "protonmail_quote")
_FORWARDED = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original)\s*-{2,}"
    r"|_{20,})\s*$",
    re.IGNORECASE,
)
MOST_INTRODUCTION_LINES = 3
"""`On Monday, somebody <…> wrote:` stands above what is quoted, and may be broken into so many lines."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS or tag == "br":
            self.pieces.append("\n")
        if tag in _VOID:
            return
        found = {name: value or "" for name, value in attrs}
        is_quote = tag == "blockquote" or any(name in found.get("class", "") for name in _QUOTES)
        is_unseen = tag in _UNSEEN or "hidden" in found or bool(_HIDDEN.search(found.get("style", "")))
        self._open.append((tag, is_quote or is_unseen))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self._open):
            while self._open.pop()[0] != tag:
                pass
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not any(is_left_out for _, is_left_out in self._open):
            self.pieces.append(re.sub(r"\s+", " ", data))


def html_text(html: str) -> str:
    """What a page of HTML says, without what it quotes and what it does not show."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def unquoted(text: str) -> str:
    """A text without the message that it answers, where that stands below, and without the signature.

    What is quoted between the lines stays: the answers beneath make no sense without it.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        if line in ("-- ", "--") or _FORWARDED.match(line):
            lines = lines[:number]
            break
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    if any(line.lstrip().startswith(">") for line in lines[end:]):
        end = _without_introduction(lines, end)
    return "\n".join(lines[:end]).strip()


def _without_introduction(lines: list[str], end: int) -> int:
    """Where the words end, if what is above a quotation introduces it: a sentence with a colon at its end."""
    if not end or not lines[end - 1].rstrip().endswith((":", "：")):
        return end
    start = end - 1
    while start and lines[start - 1].strip() and end - start < MOST_INTRODUCTION_LINES:
        start -= 1
    # A colon right below the words, with no blank line between, introduces nothing but its own line.
    return start if not start or not lines[start - 1].strip() else end - 1
