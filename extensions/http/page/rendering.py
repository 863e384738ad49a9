"""Renders templates, and the texts in them: Markdown that anyone may have written, and diffs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from starlette.responses import HTMLResponse

from nacre.extensions.http.page.access import HEADERS
from nacre.record import Record

_ALLOWED = ("http://", "https://", "mailto:")
STATIC = Path(__file__).parent / "static"


class DiffLine(Record):
    """A line of a diff; `kind` is `file`, `place`, `added`, `gone` or `same`."""

    kind: str
    text: str


def diff_lines(diff: str) -> tuple[DiffLine, ...]:
    """The lines of a unified diff. git's headers are reduced to the name of the file."""
    return tuple(_lines(diff))


def diff_of(before: str, after: str, name: str) -> str:
    return "\n".join(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    )


def _lines(diff: str) -> Iterator[DiffLine]:
    in_hunk = False
    for line in diff.splitlines():
        if line.startswith("diff --git"):
            in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
            yield DiffLine(kind="place", text=line)
        elif not in_hunk:
            if line.startswith("+++ "):
                yield DiffLine(kind="file", text=line[4:].removeprefix("b/"))
        elif line.startswith("+"):
            yield DiffLine(kind="added", text=line[1:])
        elif line.startswith("-"):
            yield DiffLine(kind="gone", text=line[1:])
        else:
            yield DiffLine(kind="same", text=line[1:])


def safe_html(text: str) -> str:
    """The HTML of a Markdown text from an untrusted source.

    HTML in the text is escaped, links lead to the web or to mail only, and a picture becomes a link, so that
    reading a text sends no request.
    """
    html: str = _parser().render(text)
    return html


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _may_be_linked  # type: ignore[method-assign]
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link_open)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _cell_open)
    return parser


def _may_be_linked(url: str) -> bool:
    return url.strip().lower().startswith(_ALLOWED)


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, _env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    tokens[at].attrSet("target", "_blank")
    return renderer.renderToken(tokens, at, options, _env)


def _cell_open(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, _env: Any) -> str:
    """Makes the alignment of a cell a class, because the page's policy forbids `style` attributes."""
    style = str(tokens[at].attrs.pop("style", ""))
    if style:
        tokens[at].attrSet("class", style.partition(":")[2])
    return renderer.renderToken(tokens, at, options, _env)


def _image(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    address = str(tokens[at].attrs.get("src", ""))
    name = tokens[at].content or address
    return (
        f'<a href="{escape(address)}" rel="noopener noreferrer nofollow" target="_blank">'
        f"[picture: {escape(name)}]</a>"
    )


class Pages:
    """The templates of the page. All values are escaped, except the output of `safe_html`."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(markdown=safe_html, moment=_moment, tokens=short, diff=diff_lines)

    def text(self, template: str, **values: Any) -> str:
        return str(self._templates.get_template(template).render(values))

    def macro(self, name: str, *values: Any) -> str:
        """Renders the macro `name` of `parts.html`."""
        return str(getattr(self._templates.get_template("parts.html").module, name)(*values))

    def response(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self.text(template, **values), status_code=status, headers=HEADERS)


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


def short(tokens: int) -> str:
    """A number of tokens in short form: 950, 12.5k."""
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
