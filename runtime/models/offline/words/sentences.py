"""Text into sentences and words, for any script, and how much two word lists have in common.

Approximate on purpose: there is no language model here. Nothing in it raises for any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

_END = re.compile(
    r"[。\uff01\uff1f\uff61]+[”’」』)\"')\]]*"
    r"|[.!?…]+[\"'”’»)\]*_`]*(?=\s|$)"
    rf"|[!?]+(?=[{CJK}])"
    r"|\n+"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:dr|mr|mrs|ms|prof|st|sr|jr|vs|no|nr|ca|approx|bzw|z\.\s?b|d\.\s?h|e\.g|i\.e|cf|fig|vol|inc|ltd"
    r"|sra|mme|mlle|hr|fr|[^\W\d_])\.$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_MONTH_NEXT = re.compile(
    r"\s+(?:jan|feb|mär|mar|apr|mai|may|jun|jul|aug|sep|okt|oct|nov|dez|dec)", re.IGNORECASE
)
_BULLET = re.compile(r"^(?:[-*+•·]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+)")
_WORD = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+(?:[-_.'’/:@](?:(?![{CJK}])[^\W_])+)*")
_PART = re.compile(r"[^\W_]+")
_CJK_RUN = re.compile(rf"[{CJK}]+")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")

_LONGEST_WORD_CHARS = 60
_STEM_CHARS = 4


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, trimmed, without list markers; line ends always end one.

    >>> sentences("I met Dr. Rossi. 我喜欢茶。真的吗?")
    ['I met Dr. Rossi.', '我喜欢茶。', '真的吗?']
    """
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        if end.group() == "." and _goes_on(text, start, end.end()):
            continue
        _add(found, text[start : end.end()])
        start = end.end()
    _add(found, text[start:])
    return found


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


def words(text: str) -> list[str]:
    """Words to compare by: lower case, compounds also in parts, Chinese and Japanese as pairs of signs."""
    found: list[str] = []
    for raw in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        word = raw[:_LONGEST_WORD_CHARS]
        if _CJK_RUN.fullmatch(word):
            found.extend(_pairs(raw))
            continue
        found.append(word)
        parts = _PART.findall(word)
        if len(parts) > 1:
            found.extend(parts)
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


def is_cjk(text: str) -> bool:
    """Whether a text has Chinese or Japanese signs."""
    return bool(_CJK_RUN.search(text))


def _add(found: list[str], text: str) -> None:
    sentence = _BULLET.sub("", text.strip()).strip()
    if sentence:
        found.append(sentence)


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether a full stop at `end` belongs to an abbreviation or an ordinal and not to a sentence."""
    before = text[max(start, end - 16) : end]
    if _ABBREVIATION.search(before):
        return True
    return bool(_ORDINAL.search(before) and _MONTH_NEXT.match(text, end))


def _pairs(run: str) -> list[str]:
    if len(run) < 2:
        return [run]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return [pair for pair in pairs if not _HIRAGANA.fullmatch(pair)] or pairs


def _same_stem(one: str, other: str) -> bool:
    """Whether two words differ in their endings only; an estimate that knows no language."""
    if one == other:
        return True
    shorter = min(len(one), len(other))
    common = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    longest_tail = max(len(one), len(other)) - common
    if common == shorter:
        return common >= _STEM_CHARS and longest_tail <= 3
    return common >= _STEM_CHARS and longest_tail <= common
