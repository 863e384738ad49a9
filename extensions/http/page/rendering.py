"""Renders templates, and the texts in them: Markdown that anyone may have written, and diffs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache, lru_cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from starlette.responses import HTMLResponse

from nacre.extensions.http.page.access import HEADERS
from nacre.record import Record

_ALLOWED = ("http://", "https://", "mailto:")
_MOST_MARKDOWN_CHARS = 100_000
_MOST_COLORED_CHARS, _MOST_COLORED_IN_ALL = 2_000, 10_000
"""Code beyond these limits, of one block and of one text, has one color: lexers are slow on hostile text."""
STATIC = Path(__file__).parent / "static"


class DiffLine(Record):
    """A line of a diff; `kind` is `file`, `place`, `added`, `gone` or `same`."""

    kind: str
    text: str


def diff_of(before: str, after: str, name: str) -> str:
    return "\n".join(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    )


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff. git's headers are reduced to the name of the file."""
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


class LineMark(Record):
    """A mark at the end of a line of Markdown: a button that opens the element `target`."""

    target: str
    text: str
    label: str


def safe_html(text: str, *, marks: Mapping[int, LineMark] | None = None, words: Sequence[str] = ()) -> str:
    """The HTML of a Markdown text from an untrusted source.

    HTML in the text is escaped, links lead to the web or to mail only, and a picture becomes a link, so that
    reading a text sends no request. A text that would take seconds is shown as it is. `marks` are added to
    lines, counted from 0; `words` are highlighted.
    """
    if len(text) > _MOST_MARKDOWN_CHARS:
        return f'<pre tabindex="0">{highlighted(text, words)}</pre>'
    html: str = _parser().render(text, {"marks": marks or {}, "words": tuple(words), "colored": 0})
    return html


def highlighted(text: str, words: Sequence[str]) -> str:
    """An escaped text in which the words are marked, in upper or lower case."""
    wanted = sorted({word for word in words if word}, key=len, reverse=True)
    if not wanted:
        return escape(text)
    pieces = re.split(f"({'|'.join(map(re.escape, wanted))})", text, flags=re.IGNORECASE)
    return "".join(
        f"<mark>{escape(each)}</mark>" if at % 2 else escape(each) for at, each in enumerate(pieces)
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _may_be_linked  # type: ignore[method-assign]
    parser.core.ruler.push("task_lists", _find_tasks)
    parser.core.ruler.push("line_marks", _place_marks)
    rules = {
        "image": _image,
        "link_open": _link_open,
        "text": _text,
        "fence": _code,
        "code_block": _code,
        "th_open": _cell_open,
        "td_open": _cell_open,
        "table_open": lambda *_given: '<div class="table" tabindex="0"><table>',
        "table_close": lambda *_given: "</table></div>",
        "task": _task,
        "line_mark": _line_mark,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


def _may_be_linked(url: str) -> bool:
    return url.strip().lower().startswith(_ALLOWED)


def _find_tasks(state: StateCore) -> None:
    tokens = state.tokens
    for at in range(2, len(tokens)):
        token, item = tokens[at], tokens[at - 2]
        if token.type != "inline" or item.type != "list_item_open" or not token.children:
            continue
        first = token.children[0]
        if first.type == "text" and first.content[:4] in ("[ ] ", "[x] ", "[X] "):
            box = Token("task", "", 0, meta={"is_done": first.content[1] != " "})
            first.content = first.content[4:]
            token.children.insert(0, box)
            item.attrSet("class", "task-item")


def _place_marks(state: StateCore) -> None:
    """Adds marks to the ends of their lines. A row of a table and a block of code have one mark each."""
    marks: Mapping[int, LineMark] = state.env["marks"]
    if not marks:
        return
    row, tokens = -1, []
    for at, token in enumerate(state.tokens):
        tokens.append(token)
        if token.type == "tr_open" and token.map:
            row = token.map[0]
        elif token.type == "inline" and row >= 0:
            if state.tokens[at + 2].type == "tr_close":
                token.children = [*(token.children or ()), *_mark_tokens(marks, row)]
                row = -1
        elif token.type == "inline" and token.map:
            token.children = _with_marks(token.children or [], token.map[0], marks)
        elif token.type in ("fence", "code_block") and token.map:
            tokens += _mark_tokens(marks, token.map[0])
    state.tokens = tokens


def _with_marks(children: Sequence[Token], line: int, marks: Mapping[int, LineMark]) -> list[Token]:
    placed: list[Token] = []
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            placed += _mark_tokens(marks, line)
            line += 1
        placed.append(child)
    return [*placed, *_mark_tokens(marks, line)]


def _mark_tokens(marks: Mapping[int, LineMark], line: int) -> list[Token]:
    return [Token("line_mark", "", 0, meta={"mark": marks[line]})] if line in marks else []


def _line_mark(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    mark: LineMark = tokens[at].meta["mark"]
    return (
        f'<button type="button" class="when" popovertarget="{escape(mark.target)}" '
        f'aria-label="{escape(mark.label)}"><span>{escape(mark.text)}</span></button>'
    )


def _text(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
    return highlighted(tokens[at].content, env["words"])


def _task(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    state = "done" if tokens[at].meta["is_done"] else "open"
    return f'<span class="task {state}" role="img" aria-label="{state}"></span>'


def _code(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
    language, code = (tokens[at].info.split() or [""])[0], tokens[at].content
    shown = escape(code)
    if language and len(code) <= _MOST_COLORED_CHARS and env["colored"] < _MOST_COLORED_IN_ALL:
        env["colored"] += len(code)
        shown = _colored(code, language)
    return (
        f'<div class="code"><div class="code-head"><span>{escape(language[:40])}</span>'
        '<button type="button" class="copy" data-copy>Copy</button></div>'
        f'<pre tabindex="0"><code>{shown}</code></pre></div>'
    )


@lru_cache(maxsize=512)
def _colored(code: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True, classprefix="c-")))


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
        self._templates.filters.update(
            markdown=safe_html,
            highlighted=highlighted,
            diff=diff_lines,
            tokens=short,
            day=day_name,
            moment=lambda at: f"{day_name(at)}, {at:%H:%M}",
            clock=lambda at: f"{at:%H:%M}",
            dollars=dollars,
        )

    def text(self, template: str, **values: Any) -> str:
        return _encodable(self._templates.get_template(template).render(values))

    def macro(self, name: str, *values: Any) -> str:
        """Renders the macro `name` of `parts.html`."""
        return _encodable(getattr(self._templates.get_template("parts.html").module, name)(*values))

    def response(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self.text(template, **values), status_code=status, headers=HEADERS)


def _encodable(html: object) -> str:
    """Replaces lone surrogates, which some models write, with `?`, because UTF-8 cannot encode them."""
    return str(html).encode("utf-8", "replace").decode()


def day_name(at: date, today: date | None = None) -> str:
    """A day in words: Today, Yesterday or a weekday before `today`, otherwise 24 Nov 2026."""
    day = at.date() if isinstance(at, datetime) else at
    age = (today - day).days if today else -1
    if 0 <= age < 7:
        return ("Today", "Yesterday")[age] if age < 2 else f"{day:%A}"
    return f"{day.day} {day:%b %Y}"


def dollars(amount: float | None) -> str:
    """An amount of money; small amounts keep two digits that count."""
    if amount is None:
        return "no price known"
    if 0 < amount < 0.1:
        return f"${amount:.2g}" if amount >= 0.001 else "<$0.001"
    return f"${amount:,.2f}"


def short(tokens: int) -> str:
    """A number of tokens in short form: 950, 12.5k."""
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
