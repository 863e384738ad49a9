"""HTML as text, as a person sees it: what a page hides is left out, and quotations stand behind `>`. Pure.

What decides is the style that a mail program would apply: attributes, and the rules of `<style>`. A selector
is read as more than it says (its last part alone, without conditions), so that in doubt text is left out.
`Page.hides_text` says that this happened, so that a reader can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import tinycss2
from tinycss2.color3 import parse_color

from nacre.records.record import Record

HIDDEN_TEXT = "[this mail hides text from its readers, which was left out here]"
_BLOCKS = re.compile(r"address|article|blockquote|dd|div|dl|dt|h[1-6]|hr|li|ol|p|pre|section|table|tr|ul")
_UNSEEN = re.compile(
    r"audio|canvas|datalist|head|iframe|math|noembed|noframes|object|script|select|style|svg|template|textarea"
    r"|title|video"
)
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_QUOTES = ("yahoo_quoted",)
_LEAST_CONTRAST = 0.15
"""Of 0 to 1, in the channel in which two colors differ most."""
_LEAST_FONT_PX = 4.0
_FAR_PX = 200.0
_PIXELS = {"px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "%": 0.16, "in": 96.0, "cm": 38.0, "mm": 3.8}
_PIXELS |= {"vw": 10.0, "vh": 8.0, "ex": 8.0, "ch": 8.0, "pc": 16.0, "q": 0.95, "": 1.0}
_FONT_WORDS = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
_PASSING = re.compile(r":(?:hover|focus|active|visited|link|target|checked|[\w-]*before|[\w-]*after)\b")
_OTHER_MEDIA = re.compile(r"print|speech|max-(?:device-)?width|prefers-color-scheme|prefers-reduced", re.I)
_COMPOUND = re.compile(r"[\s>+~]+(?![^\[(]*[\])])")

Color = tuple[float, float, float]
Style = Mapping[str, str]


class Page(Record):
    """What a page shows, and whether it hides more."""

    text: str
    hides_text: bool = False


class _Rule(Record):
    """A rule of a style sheet: the element that it is about, as far as that is read, and its declarations."""

    tag: str
    names: tuple[str, ...]
    style: Style


class _Look(Record):
    """How text looks at a place: whether it is seen at all, and the colors and size that are handed down."""

    is_left_out: bool = False
    is_hidden: bool = False
    quotes: int = 0
    color: Color = (0.0, 0.0, 0.0)
    background: Color = (1.0, 1.0, 1.0)
    font_px: float = 16.0


class _Reader(HTMLParser):
    def __init__(self, rules: Sequence[_Rule]) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[tuple[int, str]] = []
        self.hidden_chars = 0
        self._rules = rules
        self._open: list[tuple[str, _Look]] = []

    @property
    def _look(self) -> _Look:
        return self._open[-1][1] if self._open else _Look()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "body" and any(name == "head" for name, _ in self._open):
            self.handle_endtag("head")
        if _BLOCKS.fullmatch(tag) or tag == "br":
            self.pieces.append((self._look.quotes, "\n"))
        if not _VOID.fullmatch(tag):
            self._open.append((tag, _look_of(tag, found, self._rules, self._look)))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self._open):
            while self._open.pop()[0] != tag:
                pass
        if _BLOCKS.fullmatch(tag):
            self.pieces.append((self._look.quotes, "\n"))

    def handle_data(self, data: str) -> None:
        look = self._look
        if look.is_left_out:
            return
        if look.is_hidden or _difference(look.color, look.background) < _LEAST_CONTRAST:
            self.hidden_chars += len(data.strip())
            return
        self.pieces.append((look.quotes, re.sub(r"\s+", " ", data)))


def html_text(html: str) -> Page:
    """What a page of HTML shows."""
    reader = _Reader(_rules(html))
    reader.feed(html)
    reader.close()
    lines: list[tuple[int, str]] = [(0, "")]
    for quotes, piece in reader.pieces:
        if piece == "\n":
            lines.append((quotes, ""))
        else:
            lines[-1] = (max(quotes, lines[-1][0]) if lines[-1][1].strip() else quotes, lines[-1][1] + piece)
    shown = [(quotes, " ".join(line.split())) for quotes, line in lines]
    text = "\n".join(f"{'>' * min(quotes, 9)} {line}" if quotes and line else line for quotes, line in shown)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return Page(text=text, hides_text=reader.hidden_chars > 0)


def _look_of(tag: str, attrs: Mapping[str, str], rules: Sequence[_Rule], above: _Look) -> _Look:
    names = {f".{name}" for name in attrs.get("class", "").lower().split()}
    names |= {f"#{attrs['id'].lower()}"} if attrs.get("id") else set()
    names |= {f"[{name}" for name in attrs}
    applied = [rule.style for rule in rules if rule.tag in ("", tag) and names.issuperset(rule.names)]
    written = _declarations(attrs.get("style", ""))
    of_tag: dict[str, str] = {}
    for name, style_name in (("color", "color"), ("bgcolor", "background-color")):
        if name in attrs:
            of_tag[style_name] = attrs[name]
    # Any one of them may win in some program, so each is looked at by itself.
    styles = [of_tag, *applied, written]
    is_quote = tag == "blockquote" or any(name in attrs.get("class", "") for name in _QUOTES)
    font_px = above.font_px
    color, background, is_hidden = above.color, above.background, above.is_hidden or "hidden" in attrs
    for style in styles:
        font_px = _font_px(style, font_px)
        shown_color, is_unseen = _color(style.get("color", ""), color)
        color, is_hidden = shown_color, is_hidden or is_unseen or _hides(style, font_px)
        back = style.get("background-color") or _first_color(style.get("background", ""))
        background = _color(back, background)[0] if back else background
    return _Look(
        is_left_out=above.is_left_out
        or _UNSEEN.fullmatch(tag) is not None
        or (tag == "dialog" and "open" not in attrs),
        is_hidden=is_hidden,
        quotes=above.quotes + is_quote,
        color=color,
        background=background,
        font_px=font_px,
    )


def _hides(style: Style, font_px: float) -> bool:
    """Whether a style alone makes text unseen."""
    given = style.get
    overflow = given("overflow", "") + given("overflow-x", "") + given("overflow-y", "")
    is_cut = any(word in overflow for word in ("hidden", "clip", "scroll", "auto"))
    sizes = [_px(given(name, "")) for name in ("height", "width", "max-height", "max-width", "line-height")]
    opacity = _number(given("opacity", "1"))
    moved = [_px(given(name, "")) for name in ("left", "top", "right", "bottom")]
    shifted = [_px(word) for name in _MARGINS for word in given(name, "").split()]
    is_apart = given("position", "") in ("absolute", "fixed", "relative", "sticky")
    return any(
        (
            given("display", "") == "none",
            given("visibility", "") in ("hidden", "collapse"),
            given("content-visibility", "") == "hidden",
            "all" in given("mso-hide", ""),
            opacity is not None and opacity < 0.2,
            font_px < _LEAST_FONT_PX,
            any(size is not None and size <= 1 for size in sizes if is_cut or size == 0),
            is_apart and any(size is not None and abs(size) >= _FAR_PX * 3 for size in moved),
            any(size is not None and size <= -_FAR_PX for size in (*moved, *shifted)),
            any(
                word in given(name, "")
                for name in ("clip", "clip-path")
                for word in ("rect", "inset", "circle", "polygon")
            ),
            re.search(
                r"scale[xy]?\(\s*0?\.?0*[0-4]?\s*[,)]|translate|matrix|rotate[xy]", given("transform", "")
            )
            is not None,
            re.search(r"opacity\(\s*(?:0|\.0)", given("filter", "")) is not None,
            # What only a browser can work out is not taken for seen.
            any(re.search(r"var\(|env\(|attr\(", given(name, "")) for name in _DECISIVE),
        )
    )


_MARGINS = ("margin", "margin-left", "margin-top", "text-indent", "letter-spacing", "word-spacing")
_DECISIVE = ("display", "visibility", "opacity", "color", "font-size", "height", "width", "position", "left")


def _rules(html: str) -> list[_Rule]:
    """The rules of a page's style sheets that may hide text or give it a color."""
    sheets = re.findall(r"<style\b[^>]*>(.*?)(?:</style|\Z)", html, re.IGNORECASE | re.DOTALL)
    sheet = re.sub(r"<!--|-->", " ", "\n".join(sheets))
    return list(_read_rules(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)))


def _read_rules(nodes: Sequence[Any]) -> Iterator[_Rule]:
    for node in nodes:
        prelude = tinycss2.serialize(node.prelude) if hasattr(node, "prelude") else ""
        if node.type == "at-rule" and node.content is not None:
            if node.lower_at_keyword in ("media", "supports", "layer") and not _OTHER_MEDIA.search(prelude):
                yield from _read_rules(
                    tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
                )
        elif node.type == "qualified-rule":
            style = _declarations(node.content)
            for selector in prelude.split(",") if style else ():
                if not _PASSING.search(selector):
                    yield _rule(selector, style)


def _rule(selector: str, style: Style) -> _Rule:
    """A rule about the last element of a selector, without conditions on its place and its state."""
    last = _COMPOUND.split(selector.strip())[-1].lower().replace("\\", "")
    last = re.sub(r"::?[\w-]+(?:\([^)]*\))?", "", last)
    names = re.findall(r"[.#][\w-]+|\[[\w-]+", last)
    tag = re.match(r"[a-z][a-z0-9]*", last)
    return _Rule(tag=tag[0] if tag else "", names=tuple(names), style=style)


def _declarations(css: Any) -> Style:
    """Names and values, both in lower case. The values of one name that stands twice are both weighed."""
    found: dict[str, str] = {}
    for node in tinycss2.parse_blocks_contents(css, skip_comments=True, skip_whitespace=True):
        if node.type == "declaration":
            value = tinycss2.serialize([token for token in node.value if token.type != "comment"])
            found[node.lower_name] = " ".join(value.lower().split())
    return found


def _font_px(style: Style, above: float) -> float:
    said = style.get("font-size", "")
    if not said:
        shorthand = re.search(r"(?:^|\s)(\.?\d[\d.]*(?:px|pt|em|rem|%)?)(?:/|\s|$)", style.get("font", ""))
        said = shorthand[1] if shorthand and not shorthand[1].isdigit() else ""
    if said in _FONT_WORDS:
        return _FONT_WORDS[said]
    found = re.fullmatch(r"([\d.]+)(em|%)", said)
    if found is not None:
        number = _number(found[1])
        return above if number is None else above * number / (1 if found[2] == "em" else 100)
    size = _px(said)
    return above if size is None else size


def _px(said: str) -> float | None:
    """A length in pixels, roughly; `None` for what is none."""
    found = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+))(?:e[+-]?\d+)?([a-z%]*)", said.strip())
    if found is None or found[2] not in _PIXELS:
        return None
    return float(found[1]) * _PIXELS[found[2]]


def _number(said: str) -> float | None:
    try:
        return float(said.rstrip("%")) / (100 if said.endswith("%") else 1)
    except ValueError:
        return None


def _first_color(said: str) -> str:
    """The color in a `background`."""
    words = re.findall(r"#[0-9a-f]+|[a-z]+\([^)]*\)|[a-z]+", said)
    return next((word for word in words if parse_color(word) is not None), "")


def _color(said: str, above: Color) -> tuple[Color, bool]:
    """A color, and whether it cannot be seen through to anything; an unknown one is that from above."""
    found = parse_color(said) if said else None
    if found is None or isinstance(found, str):
        return above, False
    if found.alpha < 0.2:
        return above, True
    return (found.red, found.green, found.blue), False


def _difference(one: Color, other: Color) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
