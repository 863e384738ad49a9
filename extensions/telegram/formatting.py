"""A model's Markdown as Telegram shows it: a text, and what of it is bold, code or a link. Pure.

markdown-it-py reads it by CommonMark, without HTML, lists and tables: those read well as they are written.
Nothing is added, so that a text never becomes longer, and no word is left out. Telegram counts in UTF-16.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

_SIGNS = {
    "strong": "bold",
    "em": "italic",
    "s": "strikethrough",
    "heading": "bold",
    "blockquote": "blockquote",
}
_NOT_READ = ("list", "hr", "lheading", "reference", "code", "html_block", "html_inline", "entity", "newline")
_LINKS = ("http://", "https://", "mailto:")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")


class Span(NamedTuple):
    """A piece of a text that looks different: kind, first UTF-16 unit and length, and what the kind needs."""

    kind: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


@dataclass
class _Written:
    text: str = ""
    units: int = 0
    spans: list[Span] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.text += text
        self.units += utf16_length(text)

    def mark(self, kind: str, start: int, url: str = "", language: str = "") -> None:
        if self.units > start:
            self.spans.append(Span(kind, start, self.units - start, url, language))


def utf16_length(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) + sum(character > "\uffff" for character in text)


def shown(markdown: str) -> tuple[str, tuple[Span, ...]]:
    """The text that a chat shows, and its spans; the same text where nothing of it would be left."""
    lines, written = markdown.split("\n"), _Written()
    opened: list[tuple[str, int]] = []
    line = 0
    for token in _reader().parse(markdown):
        if token.map and token.type in ("inline", "fence"):
            if written.text:
                written.add("\n" * max(1, token.map[0] - line + 1))
            line = token.map[1]
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type == "inline":
            _write_inline(token, lines, written)
        elif token.type == "fence":
            _write_code(token, written)
        elif token.nesting == 1:
            opened.append((name, len(written.text)))
        elif token.nesting == -1:
            _end_block(name, opened.pop()[1], written)
    if not written.text.strip():
        return markdown, ()
    return written.text, tuple(written.spans)


def _end_block(name: str, start: int, written: _Written) -> None:
    if name not in _SIGNS:
        return
    # Before the block's first word stand the line feeds between it and the block before.
    words = written.text[start:].lstrip("\n")
    written.mark(_SIGNS[name], written.units - utf16_length(words))


def _write_code(token: Token, written: _Written) -> None:
    start, words = written.units, token.info.split()
    written.add(token.content.removesuffix("\n"))
    language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
    written.mark("pre", start, language=language)


def _write_inline(token: Token, lines: Sequence[str], written: _Written) -> None:
    # A paragraph's first line is trimmed; a list within a list is told by its blanks.
    first = lines[token.map[0]] if token.map else ""
    if (blanks := len(first) - len(first.lstrip(" "))) and first.strip():
        written.add(" " * blanks)
    opened: list[tuple[int, str]] = []
    for child in token.children or ():
        name = child.type.removesuffix("_open").removesuffix("_close")
        if child.nesting == 1:
            opened.append((written.units, str(child.attrGet("href") or "")))
        elif child.nesting == -1:
            start, url = opened.pop()
            written.mark("text_link" if name == "link" else _SIGNS.get(name, ""), start, url)
        elif child.type == "code_inline":
            start = written.units
            written.add(child.content)
            written.mark("code", start)
        elif child.type == "hardbreak":
            written.add("\n")
        else:
            # An image is its description and address.
            written.add(
                f"{child.content} ({child.attrGet('src')})" if child.type == "image" else child.content
            )


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable(list(_NOT_READ))
    # Any other address stands there as it was written, so that nobody taps on what they cannot read.
    reader.validateLink = lambda url: url.startswith(_LINKS)  # type: ignore[method-assign]  # its documented way
    return reader
