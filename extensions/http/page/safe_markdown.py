"""Markdown that anybody may have written, as HTML that can do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_ALLOWED = ("http://", "https://", "mailto:")


def safe_html(text: str) -> str:
    """The HTML of a Markdown text.

    HTML in it is shown as text, links lead to the web or to mail and nowhere else, and a picture is a link,
    so that looking at a text asks nobody for anything.
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
    """A cell whose alignment is a class: the page's policy takes no style in a tag."""
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
