"""Whose words an e-mail contains, and which are the sender's own.

The sender's own words stand above the first forward or quotation, and between quotations. Forwards, attached
messages and quotations between own words are the words of others. A quotation below all own words is the
message that is answered. The conversation already contains it, so it is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.message import Message
from functools import lru_cache
from html.parser import HTMLParser
from itertools import islice
from typing import Any

import tinycss2
from imap_tools.message import MailAttachment
from tinycss2.color3 import parse_color

from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment, Quoted, QuoteKind

HIDDEN_TEXT = "[this e-mail contains hidden text, which is left out here]"
_BLOCKS = re.compile(r"address|article|blockquote|dd|div|dl|dt|h[1-6]|hr|li|ol|p|pre|section|table|tr|ul")
_INVISIBLE = re.compile(
    r"audio|canvas|datalist|head|iframe|math|noembed|noframes|object|script|select|style|svg|template|textarea"
    r"|title|video"
)
_IMPLIED_END = re.compile(r"dd|dt|li|option|p|t[dhr]")
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
MOST_HTML_CHARS = 2_000_000
MOST_RULES = 3_000
_LEAST_CONTRAST = 0.15
"""From 0 to 1, in the color channel that differs most."""
_LEAST_FONT_PX = 4.0
_FAR_PX = 200.0
_PIXELS = {"px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "%": 0.16, "in": 96.0, "cm": 38.0, "mm": 3.8}
_PIXELS |= {"vw": 10.0, "vh": 8.0, "ex": 8.0, "ch": 8.0, "pc": 16.0, "q": 0.95, "": 1.0}
_FONT_WORDS = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0}
_STATES = re.compile(r":(?:hover|focus|active|visited|link|target|checked|[\w-]*before|[\w-]*after)\b")
_OTHER_MEDIA = re.compile(r"print|speech|max-(?:device-)?width|prefers-color-scheme|prefers-reduced", re.I)
_COMPOUND = re.compile(r"[\s>+~]+(?![^\[(]*[\])])")

Color = tuple[float, float, float]
Style = Mapping[str, str]


class Page(Record):
    """The visible text of a page, and whether the page hides more text."""

    text: str
    hides_text: bool = False


class _Rule(Record):
    """A style sheet rule: the element that it selects, as far as it is parsed, and its declarations."""

    tag: str
    names: tuple[str, ...]
    styles: tuple[Style, ...]
    is_important: bool


class _Look(Record):
    """How text looks at some place: whether it is visible, and the inherited colors and size."""

    is_left_out: bool = False
    is_hidden: bool = False
    quotes: int = 0
    color: Color = (0.0, 0.0, 0.0)
    background: Color = (1.0, 1.0, 1.0)
    font_px: float = 16.0
    line_px: float = 16.0

    @property
    def is_visible(self) -> bool:
        is_small = self.font_px < _LEAST_FONT_PX or self.line_px <= 1
        return not (self.is_hidden or is_small or _difference(self.color, self.background) < _LEAST_CONTRAST)


class _Reader(HTMLParser):
    def __init__(self, rules: Sequence[_Rule]) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[tuple[int, str]] = []
        self.hidden_chars = 0
        self._rules: dict[str, list[_Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.names[0] if rule.names else rule.tag, []).append(rule)
        self._open: list[tuple[str, _Look]] = []
        self._counts: Counter[str] = Counter()

    @property
    def _look(self) -> _Look:
        return self._open[-1][1] if self._open else _Look()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        above = self._open[-1][0] if self._open else ""
        if tag == "body" and self._counts["head"]:
            self.handle_endtag("head")
        elif (above == "p" and _BLOCKS.fullmatch(tag)) or (above == tag and _IMPLIED_END.fullmatch(tag)):
            self.handle_endtag(above)
        if _BLOCKS.fullmatch(tag) or tag in ("br", "td", "th"):
            self.pieces.append((self._look.quotes, " " if tag in ("td", "th") else "\n"))
        if not _VOID.fullmatch(tag):
            self._open.append((tag, self._look_inside(tag, found)))
            self._counts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if self._counts[tag]:
            closed = ""
            while closed != tag:
                closed, _ = self._open.pop()
                self._counts[closed] -= 1
        if _BLOCKS.fullmatch(tag):
            self.pieces.append((self._look.quotes, "\n"))

    def handle_data(self, data: str) -> None:
        look = self._look
        if look.is_left_out:
            return
        if not look.is_visible:
            self.hidden_chars += len(data.strip())
            return
        self.pieces.append((look.quotes, re.sub(r"\s+", " ", data)))

    def _look_inside(self, tag: str, attrs: Mapping[str, str]) -> _Look:
        """How text looks in an element of the open one."""
        # Selectors can select an element by its classes, its id and its attributes.
        names = {f".{name}" for name in attrs.get("class", "").lower().split()}
        names |= {f"#{attrs['id'].lower()}"} if attrs.get("id") else set()
        names |= {f"[{name}" for name in attrs}
        rules = [
            rule
            for name in (*names, tag, "")
            for rule in self._rules.get(name, ())
            if rule.tag in ("", tag) and names.issuperset(rule.names)
        ]
        is_invisible = _INVISIBLE.fullmatch(tag) is not None or (tag == "dialog" and "open" not in attrs)
        is_quote = tag == "blockquote" or "yahoo_quoted" in attrs.get("class", "")
        if not (attrs or rules or is_invisible or is_quote):
            return self._look  # most tags
        look = replace(
            self._look,
            is_left_out=self._look.is_left_out or is_invisible,
            is_hidden=self._look.is_hidden or "hidden" in attrs,
            quotes=self._look.quotes + is_quote,
        )
        normal, important = _inline_styles(attrs.get("style", ""))
        colors = (("color", "color"), ("bgcolor", "background-color"))
        cascade = (
            [({style: attrs[name].lower() for name, style in colors if name in attrs},)],
            [rule.styles for rule in rules if not rule.is_important],
            [normal],
            [rule.styles for rule in rules if rule.is_important],
            [important],
        )
        for styles_of_one_rank in cascade:
            look = _least_visible([_styled(look, styles) for styles in styles_of_one_rank], look)
        return look


def html_text(html: str) -> Page:
    """The visible text of an HTML page; empty for a page with more than `MOST_RULES` style rules."""
    head, mark, end = html[:MOST_HTML_CHARS].rpartition(">")
    html = head + mark + end.partition("<")[0]  # the library reads on from each tag that does not end
    rules = list(islice(_rules(html), MOST_RULES + 1))
    if len(rules) > MOST_RULES:
        return Page(text="", hides_text=True)
    reader = _Reader(rules)
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


def _least_visible(looks: Sequence[_Look], before: _Look) -> _Look:
    """The look of text to which one of several rules applies; which one wins is not computed."""
    if not looks:
        return before
    background = next((each.background for each in looks if each.background != before.background), None)
    background = background or before.background
    colors = [each.color for each in looks if each.color != before.color] or [before.color]
    fonts = [each.font_px for each in looks if each.font_px != before.font_px] or [before.font_px]
    lines = [each.line_px for each in looks if each.line_px != before.line_px] or [before.line_px]
    return replace(
        before,
        is_hidden=any(each.is_hidden for each in looks),
        color=min(colors, key=lambda color: _difference(color, background)),
        background=background,
        font_px=min(fonts),
        line_px=min(lines),
    )


def _styled(look: _Look, styles: Sequence[Style]) -> _Look:
    for style in styles:
        color, is_invisible = _color(style.get("color", ""), look.color)
        words = re.findall(r"#[0-9a-f]+|[a-z]+\([^)]*\)|[a-z]+", style.get("background", ""))
        first = next((word for word in words if parse_color(word) is not None), "")
        back = style.get("background-color") or first
        line_px = _px(style.get("line-height", ""))
        if style.get("line-height", "").replace(".", "").isdigit():
            line_px = float(style["line-height"]) * 16
        look = replace(
            look,
            is_hidden=look.is_hidden or is_invisible or _is_invisible(style),
            color=color,
            background=_color(back, look.background)[0] if back else look.background,
            font_px=_font_px(style, look.font_px),
            line_px=look.line_px if line_px is None else line_px,
        )
    return look


def _is_invisible(style: Style) -> bool:
    value = style.get
    overflow = value("overflow", "") + value("overflow-x", "") + value("overflow-y", "")
    is_cut = any(word in overflow for word in ("hidden", "clip", "scroll", "auto"))
    sizes = [_px(value(name, "")) for name in ("height", "width", "max-height", "max-width")]
    opacity = _number(value("opacity", "1"))
    moved = [_px(value(name, "")) for name in ("left", "top", "right", "bottom")]
    shifted = [_px(word) for name in _MARGINS for word in value(name, "").split()]
    is_apart = value("position", "") in ("absolute", "fixed", "relative", "sticky")
    return any(
        (
            value("display", "") == "none",
            value("visibility", "") in ("hidden", "collapse"),
            value("content-visibility", "") == "hidden",
            "all" in value("mso-hide", ""),
            opacity is not None and opacity < 0.2,
            any(size is not None and size <= 1 for size in sizes if is_cut or size == 0),
            is_apart and any(size is not None and abs(size) >= _FAR_PX * 3 for size in moved),
            any(size is not None and size <= -_FAR_PX for size in (*moved, *shifted)),
            any(
                word in value(name, "")
                for name in ("clip", "clip-path")
                for word in ("rect", "inset", "circle", "polygon")
            ),
            re.search(
                r"scale[xy]?\(\s*0?\.?0*[0-4]?\s*[,)]|translate|matrix|rotate[xy]", value("transform", "")
            )
            is not None,
            re.search(r"opacity\(\s*(?:0|\.0)", value("filter", "")) is not None,
            # What only a browser can compute does not count as visible.
            any(re.search(r"var\(|env\(|attr\(", value(name, "")) for name in _DECISIVE),
        )
    )


_MARGINS = ("margin", "margin-left", "margin-top", "text-indent", "letter-spacing", "word-spacing")
_DECISIVE = ("display", "visibility", "opacity", "color", "font-size", "height", "width", "position", "left")


def _rules(html: str) -> Iterator[_Rule]:
    sheets = re.findall(r"<style\b[^>]*>(.*?)(?:</style|\Z)", html, re.IGNORECASE | re.DOTALL)
    sheet = re.sub(r"<!--|-->", " ", "\n".join(sheets))
    yield from _read_rules(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True))


def _read_rules(nodes: Sequence[Any]) -> Iterator[_Rule]:
    for node in nodes:
        prelude = tinycss2.serialize(node.prelude) if hasattr(node, "prelude") else ""
        if node.type == "at-rule" and node.content is not None:
            if node.lower_at_keyword in ("media", "supports", "layer") and not _OTHER_MEDIA.search(prelude):
                yield from _read_rules(
                    tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
                )
        elif node.type == "qualified-rule":
            normal, important = _declarations(node.content)
            for selector in prelude.split(","):
                if not _STATES.search(selector):
                    for styles, is_important in ((normal, False), (important, True)):
                        if styles:
                            yield _rule(selector, styles, is_important=is_important)


def _rule(selector: str, styles: tuple[Style, ...], *, is_important: bool) -> _Rule:
    # The time grows with the square of the length. A selector that is too long selects everything.
    known = selector if len(selector) < 500 else "*"
    last = _COMPOUND.split(known.strip())[-1].lower().replace("\\", "")
    last = re.sub(r"::?[\w-]+(?:\([^)]*\))?", "", last)
    names = re.findall(r"[.#][\w-]+|\[[\w-]+", last)
    tag = re.match(r"[a-z][a-z0-9]*", last)
    return _Rule(tag=tag[0] if tag else "", names=tuple(names), styles=styles, is_important=is_important)


@lru_cache(maxsize=500)
def _inline_styles(css: str) -> tuple[tuple[Style, ...], tuple[Style, ...]]:
    return _declarations(css) if css else ((), ())


def _declarations(css: Any) -> tuple[tuple[Style, ...], tuple[Style, ...]]:
    """Normal and important declarations, with names and values in lower case.

    A repeated name starts a new style, because a client may apply either value.
    """
    found: tuple[list[dict[str, str]], list[dict[str, str]]] = ([], [])
    for node in tinycss2.parse_blocks_contents(css, skip_comments=True, skip_whitespace=True):
        if node.type == "declaration":
            value = tinycss2.serialize([token for token in node.value if token.type != "comment"])
            styles = found[bool(node.important)]
            if not styles or node.lower_name in styles[-1]:
                styles.append({})
            styles[-1][node.lower_name] = " ".join(value.lower().split())
    return tuple(found[0]), tuple(found[1])


def _font_px(style: Style, parent_px: float) -> float:
    text = style.get("font-size", "")
    if not text:
        # A bare number is a font weight, unless it is zero.
        sizes = re.findall(r"(?:^|\s)(\.?\d[\d.]*(?:px|pt|em|rem|%)?)(?=/|\s|$)", style.get("font", ""))
        text = next((size for size in sizes if not size.isdigit() or int(size) == 0), "")
    if text in _FONT_WORDS:
        return _FONT_WORDS[text]
    found = re.fullmatch(r"([\d.]+)(em|%)", text)
    if found is not None:
        number = _number(found[1])
        return parent_px if number is None else parent_px * number / (1 if found[2] == "em" else 100)
    size = _px(text)
    return parent_px if size is None else size


def _px(text: str) -> float | None:
    found = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+))(?:e[+-]?\d+)?([a-z%]*)", text.strip())
    if found is None or found[2] not in _PIXELS:
        return None
    return float(found[1]) * _PIXELS[found[2]]


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None


def _color(value: str, parent: Color) -> tuple[Color, bool]:
    found = parse_color(value) if value else None
    if found is None or isinstance(found, str):
        return parent, False
    if found.alpha < 0.2:
        return parent, True
    return (found.red, found.green, found.blue), False


def _difference(one: Color, other: Color) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


MOST_QUOTED_CHARS = 50_000
MOST_DEPTH = 3
"""How deeply messages attached to attached messages are read."""
MOST_ATTACHED, MOST_MARK_CHARS = 20, 300
MOST_INTRODUCTION_LINES = 3
"""How many lines the introduction of a quotation may have: `On Monday, somebody <…> wrote:`."""

_SENDERS = re.compile(
    r"from|von|vom|de|da|van|från|fra|od|от|від|lähettäjä|gönderen|kimden|feladó|odesílatel|expeditor|από|מאת|من"
    r"|发件人|寄件者|差出人|보낸|보낸사람"
)
"""What mail clients call `From` in the header of a forwarded message."""
_WROTE = re.compile(
    r"wrote|schrieb|écrit|escribió|scritto|escreveu|schreef|skrev|napisał|napisal|kirjoitti|yazdı|írta|писал|пише"
    r"|έγραψε|כתב|كتب|写道|寫道|書きました|작성"
)
_ORIGINAL = re.compile(
    r"\s*(?:-{2,}\s*(?:original message|reply message|ursprüngliche nachricht|message d'origine"
    r"|mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|исходное сообщение"
    r"|original appointment)\s*-{2,}|_{20,})\s*",
    re.IGNORECASE,
)
"""The line above a message that is answered, and in some clients above one that is forwarded."""
_FORWARDED = re.compile(
    r"[\s*]*(?:begin forwarded message|anfang der weitergeleiteten (?:nachricht|e-mail)"
    r"|début du (?:message|mail) (?:réexpédié|transféré)|inicio del mensaje reenviado"
    r"|inizio messaggio inoltrato|início da mensagem (?:encaminhada|reencaminhada)|begin doorgestuurd bericht"
    r"|vidarebefordrat brev|videresendt (?:melding|besked)|początek przekazywanej wiadomości"
    r"|начало переадресованного сообщения|開始轉寄郵件|以下是转发的邮件|下面是被转发的邮件"
    r"|転送されたメッセージ)"
    r"\s*[:：]?[\s*]*",
    re.IGNORECASE,
)
_RULED = re.compile(r"\s*[-=_*]{2,}\s*(?=\S*\w)[^-=_*\n]{3,60}?\s*[-=_*]{2,}\s*")
"""A line of words between dashes: `---------- Forwarded message ---------` in any language."""
_HEADER = re.compile(r"[>\s*]*([^\s:：*<@]{1,20}(?: [^\s:：*<@]{1,20}){0,2})\s?\*?\s?[:：]\*?\s*(\S.*)")
_FORWARD_WORDS = re.compile(
    r"forward|weitergeleitet|transféré|réexpédié|reenviad|inoltrat|encaminhad|doorgestuurd|vidarebefordra"
    r"|videresend|przekazan|przesłan|пересыла|переслан|переадрес|转发|轉寄|転送|전달",
    re.IGNORECASE,
)


class Words(Record):
    """The words and files of an e-mail: the sender's own, and those of others."""

    text: str
    quoted: tuple[Quoted, ...] = ()
    files: tuple[Attachment, ...] = ()


def words_of(mail: Message, *, is_forward: bool = False, keeps_end: bool = False) -> Words:
    """The words and files of an e-mail. Its subject determines `is_forward`; `keeps_end` is as in `split`."""
    plain, html, holders, files = _parts(mail)
    text, notice = _text_of(plain, html)
    own = split(text, is_forward=is_forward, keeps_end=keeps_end)
    if is_forward and own.text and not (own.quoted or holders):
        # It forwards something, and the beginning of that is unknown.
        own = Words(text="", quoted=(Quoted(text=own.text, kind="forward"),))
    quoted, others_files = list(own.quoted), [*_attachments(files, "")]
    for each in holders[:MOST_ATTACHED]:
        attached = _attached(each, 1)
        quoted += attached.quoted
        others_files += attached.files
    if len(holders) > MOST_ATTACHED:
        left = f"[{len(holders) - MOST_ATTACHED} more attached messages are not shown]"
        quoted.append(Quoted(text=left, kind="attached message"))
    return Words(
        text="\n\n".join(filter(None, (own.text, notice))), quoted=tuple(quoted), files=tuple(others_files)
    )


def split(text: str, *, is_forward: bool = False, keeps_end: bool = False) -> Words:
    """Splits a text into the sender's own words and those of others.

    The signature is left out, and without `keeps_end` the answered message. A mark such as `[quote 1]`
    replaces a quotation between own words.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    # No mark is longer, and the time for the expressions grows with the square of the length.
    start, is_marked_forward = _passed_on([line[:MOST_MARK_CHARS] for line in lines])
    signature = next((n for n, line in enumerate(lines[:start]) if line in ("-- ", "--")), start)
    own, below = lines[:signature], lines[start:]
    said, quoted = _between(own, keeps_end=keeps_end)
    is_kept = is_forward or is_marked_forward or keeps_end or not said
    if is_kept and any(line.strip() for line in below):
        kind: QuoteKind = "forward" if is_forward or is_marked_forward else "quote"
        words = _cut("\n".join(below).strip())
        quoted = (*quoted, Quoted(text=words, kind=kind, said_by=_named_sender(below)))
    return Words(text=said, quoted=quoted)


def _passed_on(lines: Sequence[str]) -> tuple[int, bool]:
    """Where somebody else's message begins, and whether it is marked as forwarded."""
    for number, line in enumerate(lines):
        if _FORWARDED.fullmatch(line):
            return number, True
        is_headed = _is_header(lines, number + 1) or _is_header(lines, number + 2)
        if _ORIGINAL.fullmatch(line) and (line.strip("_ ") or is_headed):
            return number, False
        if _RULED.fullmatch(line) and (_FORWARD_WORDS.search(line) or is_headed):
            return number, True
        if _is_header(lines, number) and not line.lstrip().startswith(">"):
            return number, True  # it says nothing of the kind, but words that may be own are not left out
    return len(lines), False


def _is_header(lines: Sequence[str], start: int) -> bool:
    """Whether a message header starts here: three lines with a field name, one of the first two `From`."""
    found = [_HEADER.fullmatch(line) for line in lines[start : start + 3]]
    names = [each[1].casefold().split()[0] for each in found if each is not None]
    return len(names) == 3 and any(map(_SENDERS.fullmatch, names[:2]))


def _named_sender(lines: Sequence[str]) -> str:
    for line in lines[:8]:
        found = _HEADER.fullmatch(line)
        if found is not None and _SENDERS.fullmatch(found[1].casefold().split()[0]):
            return found[2].strip("* ")
    return ""


def _between(lines: list[str], *, keeps_end: bool) -> tuple[str, tuple[Quoted, ...]]:
    """The own words with marks for quotations, and the quotations.

    A quotation below the own words is left out, unless there are no own words or `keeps_end`.
    """
    end = len(lines)
    while not keeps_end and end and (not lines[end - 1].strip() or _is_quoted(lines[end - 1])):
        end -= 1
    if any(map(_is_quoted, lines[end:])):
        end = _introduction(lines, end, is_any=True)
    if end and any(line.strip() for line in lines[:end]):
        lines = lines[:end]
    own: list[str] = []
    quoted: list[Quoted] = []
    number = 0
    while number < len(lines):
        if not _is_quoted(lines[number]):
            own.append(lines[number])
            number += 1
            continue
        first = number
        while number < len(lines) and _is_quoted(lines[number]):
            number += 1
        start = _introduction(own, len(own), is_any=False)
        author = " ".join(" ".join(own[start:]).split()).rstrip(":：")
        label = f"[quote {len(quoted) + 1}]"
        own[start:] = [label]
        words = "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines[first:number])
        quoted.append(Quoted(text=_cut(words), kind="quote", said_by=author, label=label))
    text = "\n".join(own).strip()
    return ("" if text in {quote.label for quote in quoted} else text), tuple(quoted)


def _is_quoted(line: str) -> bool:
    return line.lstrip().startswith(">")


def _introduction(lines: Sequence[str], end: int, *, is_any: bool) -> int:
    """Where the own words end if the sentence above a quotation, which ends with a colon, introduces it.

    Unless `is_any` is set, the sentence must say that somebody wrote, or contain an address or a time.
    """
    above = end
    while above and not lines[above - 1].strip():
        above -= 1
    if not above or end - above > 1 or not lines[above - 1].rstrip().endswith((":", "：")):
        return end
    start = above - 1
    while start and lines[start - 1].strip() and above - start < MOST_INTRODUCTION_LINES:
        start -= 1
    # A colon right below the words, with no blank line between, introduces nothing but its own line.
    start = start if not start or not lines[start - 1].strip() else above - 1
    sentence = " ".join(lines[start:above]).casefold()
    if is_any or re.search(r"[@<\d]", sentence) or _WROTE.search(sentence):
        return start
    return end


def _parts(mail: Message) -> tuple[list[str], list[str], list[Message], list[Message]]:
    """Plain texts, HTML texts, attached messages and files, without the content of attached messages."""
    plain, html, holders, files = list[str](), list[str](), list[Message](), list[Message]()
    for part in _walked(mail):
        kind = part.get_content_type()
        if part.get_content_maintype() == "message" and part.is_multipart():
            holders.append(part)
        elif _is_file(part):
            files.append(part)
        elif kind in ("text/plain", "text/", "text/html"):
            (html if kind == "text/html" else plain).append(_decoded(part))
    return plain, html, holders, files


def _text_of(plain: Sequence[str], html: Sequence[str]) -> tuple[str, str]:
    text = "".join(plain)
    if text.strip():
        return text, ""
    page = html_text("".join(html))
    return page.text, HIDDEN_TEXT if page.hides_text else ""


def _is_file(part: Message) -> bool:
    """Whether a part is a file, with or without a name."""
    is_named = part.get_filename() is not None or part.get_content_disposition() == "attachment"
    return is_named or part.get_content_maintype() != "text" or part.get_content_subtype() == "calendar"


def _decoded(part: Message) -> str:
    """The text of a part. What its character set does not explain stays visible."""
    raw, charset = part.get_payload(decode=True), part.get_content_charset() or "utf-8"
    with suppress(LookupError):
        return bytes(raw).decode(charset.removesuffix("-i"), "replace")  # the usual one of Hebrew mail
    with suppress(UnicodeDecodeError):
        return bytes(raw).decode()
    return bytes(raw).decode("cp1252", "replace")


def _walked(mail: Message) -> Iterator[Message]:
    """The leaf parts of an e-mail. An attached message is one leaf."""
    waiting = [mail]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if part.get_content_maintype() != "message" and isinstance(payload, list):
            waiting += reversed([each for each in payload if isinstance(each, Message)])
        elif part.get_content_maintype() != "multipart":
            yield part


def _attached(part: Message, depth: int) -> Words:
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    if not isinstance(inner, Message):
        return Words(text="")
    author, subject = (" ".join(str(inner.get(name) or "").split()) for name in ("From", "Subject"))
    plain, html, holders, files = _parts(inner)
    lines = [f"Subject: {subject}\n"] if subject else []
    lines += [each.strip() for each in _text_of(plain, html)]
    deeper: list[Words] = []
    if depth < MOST_DEPTH:
        deeper = [_attached(each, depth + 1) for each in holders[:MOST_ATTACHED]]
    elif holders:
        lines.append("[a message is attached to this one, too deep to be read]")
    first = Quoted(text=_cut("\n".join(lines).strip()), kind="attached message", said_by=author)
    found = (first, *[quote for each in deeper for quote in each.quoted])
    of_deeper = [file for each in deeper for file in each.files]
    return Words(text="", quoted=found, files=(*_attachments(files, author or "somebody"), *of_deeper))


def _attachments(parts: Sequence[Message], said_by: str) -> Iterator[Attachment]:
    for part in parts:
        file = MailAttachment(part)
        name = file.filename or f"file.{file.content_type.rpartition('/')[2] or 'bin'}"
        yield Attachment(name=name, mime_type=file.content_type, data=file.payload, said_by=said_by)


def _cut(text: str) -> str:
    if len(text) <= MOST_QUOTED_CHARS:
        return text
    return f"{text[:MOST_QUOTED_CHARS]}\n[the rest is left out]"
