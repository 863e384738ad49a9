"""Draws Markdown in a terminal, with rich and markdown-it.

Both are slow to import, so only a chat on a live terminal imports this module.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

from nacre.cli.screen.plain import plain
from nacre.cli.screen.screen import Screen

_CODE_INDENT = 2
_COLORS = ColorSystem.STANDARD  # the terminal's palette, which fits light and dark backgrounds
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "italic",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.block_quote": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.hr": "dim",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
    }
)
# HTML stays text, because a terminal would show nothing of it.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
_PARSER.disable("reference")  # blocks are drawn separately, and the line of a reference would disappear


def markdown_lines(text: str, columns: int, *, is_colored: bool) -> list[str]:
    """Markdown as lines that are at most `columns` wide, with escape sequences for their style only.

    Without colors, words are still bold or italic.
    """
    console = Console(
        file=io.StringIO(),
        width=max(columns, 2 * _CODE_INDENT),
        height=100,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        theme=_THEME,
        _environ={},
    )
    rows = console.render_lines(_Answer(text), pad=False)
    lines = [_line(row if is_colored else Segment.remove_color(row)) for row in rows]
    while lines and not lines[-1]:
        lines.pop()
    return lines[next((number for number, line in enumerate(lines) if line), 0) :]


def _line(row: Iterable[Segment]) -> str:
    """Segments as text without trailing spaces, which a person would copy, too."""
    segments = list(row)
    while segments and not segments[-1].text.strip():
        segments.pop()
    if segments:
        text, style, _ = segments.pop()
        segments.append(Segment(text.rstrip(), style))
    return "".join(style.render(text, color_system=_COLORS) if style else text for text, style, _ in segments)


def markdown_blocks(text: str) -> list[str]:
    """Markdown cut into its paragraphs, lists, tables and so on, without changing a character.

    Only the last block, with an incomplete line after it, can still change when text is added.

    >>> markdown_blocks("One.\\n\\nTwo and")
    ['One.\\n\\nTwo and']
    >>> markdown_blocks("One.\\n\\nTwo and\\nmore")
    ['One.\\n\\n', 'Two and\\nmore']
    """
    lines = text.splitlines(keepends=True)
    whole = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _PARSER.parse(whole) if token.level == 0 and token.map]
    ends = [*starts[1:], len(lines)]
    return ["".join(lines[start:end]) for start, end in zip([0, *starts[1:]], ends, strict=True)]


class _Heading(Heading):
    """Headings on the left, without a frame."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _CodeBlock(CodeBlock):
    """Indented code, without a background, which a person would copy as spaces."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax(
            str(self.text).rstrip("\n"),
            self.lexer_name,
            theme="ansi_dark",
            word_wrap=True,
            background_color="default",
        )
        yield Padding(code, (0, 0, 0, _CODE_INDENT))


class _Table(TableElement):
    """A table without frames and without lines between its rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.box = box.SIMPLE_HEAD
                table.pad_edge = False
                table.show_edge = False
                table.collapse_padding = False
                table.padding = (0, 1)
            yield table


class _Answer(Markdown):
    """An answer of a model. Nothing in it can control the terminal, not even a character reference."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _PARSER.parse(text)
        _prepare(self.parsed)


def _prepare(tokens: Iterable[Token]) -> None:
    for token in tokens:
        token.content = plain(token.content)
        if token.type == "softbreak":
            token.type = "hardbreak"  # models break lines on purpose
        token.attrs = {
            name: plain(value) if isinstance(value, str) else value for name, value in token.attrs.items()
        }
        _prepare(token.children or ())


class StreamedMarkdown:
    """Draws a growing text as Markdown: complete blocks once, the last one again and again.

    `feed` only adds text. `paint` draws it; drawing is slow, so call it as rarely as you can.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._waiting = ""
        self._has_block_above = False

    def feed(self, text: str) -> None:
        """Adds the next characters."""
        self._waiting += plain(text)

    def paint(self) -> None:
        """Draws the added text."""
        *finished, self._waiting = markdown_blocks(self._waiting)
        self._show(finished, self._waiting)

    def end(self) -> None:
        """Draws the rest; the next text is a new one."""
        if self._waiting:
            self._show(markdown_blocks(self._waiting + "\n"), "")
        self._waiting = ""
        self._has_block_above = False

    def _show(self, finished: Iterable[str], still_open: str) -> None:
        lines: list[str] = []
        for block in finished:
            lines += self._drawn(block)
            self._has_block_above |= bool(lines)
        if lines or still_open.strip():
            self._screen.blocks(lines, self._drawn(still_open))

    def _drawn(self, text: str) -> list[str]:
        """Lines of Markdown, after an empty line unless they are the first of the text."""
        lines = markdown_lines(text, self._screen.columns, is_colored=self._screen.is_colored)
        return ["", *lines] if lines and self._has_block_above else lines
