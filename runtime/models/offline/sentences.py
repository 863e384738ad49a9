"""Text into sentences and words, for any script, and how much two word lists have in common.

Approximate on purpose: there is no language model here. Nothing in it raises for any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

ONE_WRITING = str.maketrans(
    "’‘\uff01\uff1f\uff0c\uff1a؟\u037e記請麻煩幫來錄備註時後為會這個嗎誰麼裡幾點訴尋們決選擇約終歡討厭愛習慣"
    "對過從媽兒闆醫貓週號禮無應該別辦總刪",
    "''!?,:??记请麻烦帮来录备注时后为会这个吗谁么里几点诉寻们决选择约终欢讨厌爱习惯对过从妈儿板医猫周号礼无应该别办总删",
)
"""Signs that mean the same, one for one: apostrophes, full-width marks, traditional Chinese."""

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

_END = re.compile(
    # a full stop that ends no sentence: behind an abbreviation or the number of a day
    r"(?P<goes_on>(?<![^\s(\"'])(?:dr|mr|mrs|ms|prof|st|sr|jr|vs|no|nr|ca|approx|bzw|z\.\s?b|d\.\s?h|e\.g|i\.e|cf|fig"
    r"|vol|inc|ltd|sra|mme|mlle|hr|fr|[^\W\d_])\.|(?<!\S)\d{1,2}\."
    r"(?=\s+(?:jan|feb|mär|mar|apr|mai|may|jun|jul|aug|sep|okt|oct|nov|dez|dec)))"
    r"|[。\uff01\uff1f\uff61]+[”’」』)\"')\]]*"
    r"|[.!?…]+[\"'”’»)\]*_`]*(?=\s|$)"
    rf"|[!?]+(?=[{_CJK}])"
    r"|\n+",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:[-*+•·]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+)")
_WORD = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])[^\W_])+(?:[-_.'’/:@](?:(?![{_CJK}])[^\W_])+)*")
_PART = re.compile(r"[^\W_]+")
_CJK_RUN = re.compile(rf"[{_CJK}]+")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")

_LONGEST_WORD_CHARS = 60
_STEM_CHARS = 4


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, trimmed, without list markers; line ends always end one.

    >>> sentences("I met Dr. Rossi. 我喜欢茶。真的吗?")
    ['I met Dr. Rossi.', '我喜欢茶。', '真的吗?']
    """
    ends = [0, *(end.end() for end in _END.finditer(text) if end["goes_on"] is None), len(text)]
    return [sentence for start, end in pairwise(ends) if (sentence := unmarked(text[start:end]))]


def unmarked(line: str) -> str:
    """A line without the mark of a list item or a heading."""
    return _BULLET.sub("", line.strip()).strip()


def squeezed(text: str) -> str:
    """The text on one line, runs of white space as one space."""
    return " ".join(text.split())


def clipped(text: str, max_chars: int) -> str:
    """The text on one line, ending in `…` at a word's end when it is longer than `max_chars`."""
    text = squeezed(text)
    if len(text) <= max_chars:
        return text
    cut = text.rfind(" ", max_chars // 2, max_chars)
    return text[: cut if cut > 0 else max_chars - 1].rstrip() + "…"


def folded(text: str) -> str:
    """Letters and digits only, in compatibility form and lower case: equal for equal statements.

    >>> folded("- We use  **Postgres**.") == folded("we use postgres")
    True
    """
    return " ".join(_PART.findall(unicodedata.normalize("NFKC", text).casefold()))


def plain(text: str) -> str:
    """The text in lower case, simple marks and simplified Chinese, each sign at its old place."""
    marked = text.translate(ONE_WRITING)
    lowered = marked.lower()
    return lowered if len(lowered) == len(marked) else marked


def words(text: str) -> list[str]:
    """Words to compare by: lower case, compounds also in parts, Chinese and Japanese as pairs of signs."""
    found: list[str] = []
    for word in _WORD.findall(plain(unicodedata.normalize("NFKC", text))):
        if _CJK_RUN.match(word):
            pairs = [word[at : at + 2] for at in range(max(1, len(word) - 1))]
            found += [pair for pair in pairs if not _HIRAGANA.fullmatch(pair)] or pairs
        else:
            parts = _PART.findall(word)
            found += [word[:_LONGEST_WORD_CHARS], *(parts if len(parts) > 1 else ())]
    return found


def shared(wanted: Iterable[str], offered: Sequence[str]) -> list[str]:
    """The wanted words that stand among the offered ones, whole or as forms of one stem.

    >>> shared(["decided", "port", "cat"], words("The decision: PostgreSQL"))
    ['decided']
    """
    by_start: dict[str, list[str]] = {}
    for word in dict.fromkeys(offered):
        by_start.setdefault(word[:_STEM_CHARS], []).append(word)
    return [word for word in wanted if any(_same_stem(word, o) for o in by_start.get(word[:_STEM_CHARS], ()))]


def _same_stem(one: str, other: str) -> bool:
    """Whether two words differ in their endings only; an estimate that knows no language."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    common, longest = sum(1 for _ in pairs), max(len(one), len(other))
    longest_ending = 3 if common == min(len(one), len(other)) else common
    return one == other or (common >= _STEM_CHARS and longest - common <= longest_ending)
