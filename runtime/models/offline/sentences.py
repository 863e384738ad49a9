"""Text into sentences, and into forms that can be compared, for any script.

Approximate on purpose: there is no language model here. Nothing in it raises for any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

ONE_WRITING = str.maketrans(
    "’‘\uff01\uff1f\uff0c\uff1a؟\u037e記請麻煩幫來錄備註時後為會這個嗎誰麼裡幾點訴尋們決選擇約終歡討厭愛習慣"
    "對過從媽兒闆醫貓週號禮無應該別辦總刪",
    "''!?,:??记请麻烦帮来录备注时后为会这个吗谁么里几点诉寻们决选择约终欢讨厌爱习惯对过从妈儿板医猫周号礼无应该别办总删",
)
"""Signs that mean the same, one for one: apostrophes, full-width marks, traditional Chinese."""

TYPED_CHARS = 16_000
"""A longer text was not typed by anybody: its middle is left out."""
RECALLED = re.compile(
    r"^BEGIN NOTES FROM [^\n]*\n.*?(?:^END NOTES FROM [^\n]*$|\Z)"
    r"|<(summary|relevant-memories|read-files|modified-files)\b[^>\n]*>.*?(?:</\1>|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""The parts of a text that the runtime inserted: notes and summaries."""
_MARKS = "<>`~"
"""Lines that are not the writer's own begin with one of these, or with words of the runtime."""
_FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTE_LINE = re.compile(r"^\s{0,3}>[^\n]*$", re.MULTILINE)
_END = re.compile(
    # It begins with a set of signs, which a search passes quickly; what such a row is stands behind it.
    r"[.!?…。\uff01\uff1f\uff61\n](?:"
    r"(?<=\n)\n*+"
    r"|(?<=[。\uff01\uff1f\uff61])[。\uff01\uff1f\uff61]*+[”’」』\)\"')\]]*"
    # a row of marks is looked at once, from its beginning to its end
    r"|(?<=[.!?…])(?<![.!?…][.!?…])[.!?…]*+[\"'”’»)\]*_`]*+(?=\s|$)"
    r"|(?<=[!?])(?<![!?][!?])[!?]*+(?=[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
    r")"
)
# A full stop that ends no sentence: behind an abbreviation or the number of a day.
_SHORTENED = re.compile(
    r"(?<![^\s(\"'])(?:dr|mr|mrs|ms|prof|st|sr|jr|vs|no|nr|ca|approx|bzw|z\.\s?b|d\.\s?h|e\.g|i\.e|cf|fig"
    r"|vol|inc|ltd|sra|mme|mlle|hr|fr|[^\W\d_])\Z",
    re.IGNORECASE,
)
_DAY = re.compile(r"(?<!\S)\d{1,2}\Z")
_MONTH = re.compile(r"\s+(?:jan|feb|mär|mar|apr|mai|may|jun|jul|aug|sep|okt|oct|nov|dez|dec)", re.IGNORECASE)
_MOST_SHORTENED = 8
"""Signs before a full stop that say whether it is one."""
_BULLET = re.compile(r"^(?:[-*+•·]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+)")
_WORD = re.compile(r"[^\W_]+")
_ASCII_MARKS = {code: " " for code in range(128) if not chr(code).isalnum()}


def own_words(text: str) -> str:
    """A text without what its writer did not say: recalled notes, summaries, quotations, code blocks."""
    if len(text) > TYPED_CHARS:  # nobody typed its middle
        text = f"{text[: TYPED_CHARS * 3 // 4]}\n{text[-TYPED_CHARS // 4 :]}"
    if not any(mark in text for mark in _MARKS) and "begin notes from " not in text.lower():
        return text
    return _QUOTE_LINE.sub("", _FENCE.sub("\n", RECALLED.sub("\n", text)))


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text in order, trimmed, without list markers; line ends always end one."""
    start = 0
    for end in _END.finditer(text):
        if not _goes_on(text, end.start()):
            if sentence := unmarked(text[start : end.end()]):
                yield sentence
            start = end.end()
    if sentence := unmarked(text[start:]):
        yield sentence


def _goes_on(text: str, at: int) -> bool:
    if text[at] != ".":
        return False
    start = max(0, at - _MOST_SHORTENED)
    if _SHORTENED.search(text, start, at):
        return True
    return bool(_DAY.search(text, start, at) and _MONTH.match(text, at + 1))


def unmarked(line: str) -> str:
    """A line without the mark of a list item or a heading."""
    return _BULLET.sub("", line.strip()).strip()


def clipped(text: str, max_chars: int) -> str:
    """The text on one line, ending in `…` at a word's end when it is longer than `max_chars`."""
    text = " ".join(text.split())
    if len(text) <= max_chars:
        return text
    cut = text.rfind(" ", max_chars // 2, max_chars)
    return text[: cut if cut > 0 else max_chars - 1].rstrip() + "…"


def folded(text: str) -> str:
    """Letters and digits only, in compatibility form and lower case: equal for equal statements."""
    if text.isascii():
        return " ".join(text.lower().translate(_ASCII_MARKS).split())
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def plain(text: str) -> str:
    """The text in lower case, simple marks and simplified Chinese, each sign at its old place."""
    if text.isascii():
        return text.lower()
    marked = text.translate(ONE_WRITING)
    lowered = marked.lower()
    return lowered if len(lowered) == len(marked) else marked
