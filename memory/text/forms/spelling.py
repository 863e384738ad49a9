"""The ways in which one word or number is written: what the index stores, and what a query searches for.

Letters and digits with several spellings; numbers in groups; emoji as words, because stores treat them as
separators; scripts without spaces; and the endings of words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import pairwise

from nacre.memory.text.forms.words import (
    CHINESE,
    CHINESE_PARTICLES,
    ENGLISH,
    JAPANESE_OR_CHINESE,
    stop_words_for,
)

_GREEK = [*map(chr, range(0x370, 0x400)), *map(chr, range(0x1F00, 0x2000))]
_ZEROS = (
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66"
    "\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20\u1040\u17e0\u1810"
)
"""The zero of each living script with its own digits; the other nine follow it."""

DIGITS = "".join(chr(ord(zero) + value) for zero in _ZEROS for value in range(10))

_FOLDS = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"}
    # Some stores remove accents from Latin letters only, and Greek capitals are written without accents.
    | {letter: unicodedata.normalize("NFD", letter)[0] for letter in _GREEK}
    | {"ς": "σ", "ё": "е", "Ё": "Е"}
    | {digit: str(value % 10) for value, digit in enumerate(DIGITS)}
)
_FOLDED = re.compile(f"[{''.join(map(chr, _FOLDS))}]")
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
# No umlaut: Steuer, neue, Quelle, Aue.
_SPELLED_UMLAUT = re.compile("ae|oe|(?<![aeoq])ue")
_DOUBLE_A = re.compile("aa")
_COMBINING = re.compile("[\u0300-\u036f]+")
_FOLDABLE = re.compile(
    f"[{DIGITS}\u00aa-\u024f\u0300-\u036f\u0370-\u052f\u1e00-\u1fff\ufb00-\ufb06\uff00-\uffef]"
)


def normalize(text: str) -> str:
    """Folds compatibility forms (full-width letters, ligatures) and digits, and replaces letters whose mark
    is not a separable accent."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    return text.translate(_FOLDS) if _FOLDED.search(text) else text


def fold(text: str) -> str:
    """The text in lower case and without accents; line ends stay."""
    if text.isascii() or not _FOLDABLE.search(text):
        return text.lower()
    decomposed = unicodedata.normalize("NFD", normalize(text).lower())
    return unicodedata.normalize("NFC", _COMBINING.sub("", decomposed))


def spelled_out(word: str) -> Iterator[str]:
    """A lower-case word with `ae` for `ä`, and likewise for ö, ü, ø and å, if it has any."""
    word = unicodedata.normalize("NFC", word)
    spelled = word.translate(_SPELLED)
    if spelled != word:
        yield normalize(spelled)


def without_spelling(word: str) -> Iterator[str]:
    """A lower-case word with `a` for `ae` and likewise, as stores have it for a word with an umlaut."""
    for pattern in (_SPELLED_UMLAUT, _DOUBLE_A):
        folded = pattern.sub(lambda found: found[0][0], word)
        if folded != word:
            yield folded


# Numbers in groups: telephone numbers, accounts, ISBNs, amounts. The functions take normalized text. The
# form without spaces, points and hyphens stands for all spellings: it is indexed, and searched for, in
# addition to the groups.
LEAST_DIGITS = 7
"""Shorter groups are frequent, and their joined digits mean nothing."""
_MOST_CHARS = 34
"""The length of the longest account number (ISO 13616)."""
_MOST_CODE_DIGITS = 3

# The longest patterns are compiled for the first text with such a number.
_GROUPED = r"(?<![\w.,])\+?\(?\d+(?:(?:\) ?|[ -]?\(|[ \-\u2010-\u2013./])\d+)*(?:-?[Xx]\b)?(?!\w)"
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d\b")
_ACCOUNT = re.compile(r"\b[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b")
_ACCOUNT_DIGITS = 10
_AMOUNT = (
    r"(?<![\d.,'’])[1-9]\d{0,2}(?:(?:([.,'’ ])\d{3}(?:\1\d{3})*)|(?:,\d{2})+,\d{3})"
    r"(?:[.,]\d{1,2})?(?![\d'’]|[.,]\d)"
)
_SEPARATED = re.compile(
    # It begins with a set of characters, which a search passes quickly.
    r"[\d+](?:(?<=\+)\d|(?<=\d)[ \-\u2010-\u2013.,'’()/]{1,3}\d)"
)
"""A necessary condition for the other patterns, which most lines fail, in a fraction of the time."""
_DIGITS = bytes.maketrans(b"0123456789", b"1" * 10)
_CODE = re.compile(r"(?<![\w-])([A-Za-z]{1,3}(?:-[A-Za-z]{1,3})?)[ -](\d{2,5})(?![\w-])")
_SEAM_OF_KINDS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_CENTS = re.compile(r"[.,]\d{1,2}$")
_SIGNS = re.compile(r"[^0-9A-Za-z]")
_TRUNK_ZERO = "(0)"


def written_together(text: str) -> Iterator[tuple[str, str]]:
    """Each number in groups, as it is written and without separators.

    Amounts are reduced to whole units: 1,249.00 and 1.249,50 are 1249. A number with a country code is also
    given as it is dialed inside the country.
    """
    if not text.isascii() and not _SEPARATED.search(text):
        return
    for line in _lines_with_digits(text) if text.isascii() else text.split("\n"):
        if _SEPARATED.search(line):
            yield from _in_line(line)


def _lines_with_digits(text: str) -> Iterator[str]:
    """Lines of a text in ASCII; to pass the others takes a twentieth of what a pattern does."""
    shape, end = text.encode().translate(_DIGITS), 0
    while (place := shape.find(b"1", end)) >= 0:
        start, end = shape.rfind(b"\n", 0, place) + 1, shape.find(b"\n", place)
        end = end if end >= 0 else len(text)
        yield text[start:end]


def codes_in(text: str) -> Iterator[str]:
    """Letters followed by digits as one word, because flights and number plates are written both ways."""
    yield from (f"{letters}{digits}".replace("-", "").lower() for letters, digits in _CODE.findall(text))


def apart(name: str) -> str:
    """A name with a space between letters and digits: LH1732 is also written LH 1732."""
    return _SEAM_OF_KINDS.sub(" ", name)


@lru_cache(maxsize=64)  # the title with its day is the same for many chunks
def _in_line(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_each_in_line(text))


def _each_in_line(text: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(_AMOUNT, text):
        yield found[0], _SIGNS.sub("", _CENTS.sub("", found[0]))
    accounts = [
        found[0] for found in _ACCOUNT.finditer(text) if sum(map(str.isdigit, found[0])) >= _ACCOUNT_DIGITS
    ]
    for account in accounts:
        text = text.replace(account, "")
        if " " in account:
            yield account, _SIGNS.sub("", account).lower()
    for found in re.finditer(_GROUPED, text.replace(_TRUNK_ZERO, "")):
        grouped = found[0]
        joined = _SIGNS.sub("", grouped).lower()
        if not LEAST_DIGITS <= len(joined) <= _MOST_CHARS or _ISO_DAY.match(grouped):
            continue
        if joined != grouped and not grouped.startswith("+"):
            yield grouped, joined
        elif grouped.startswith("+"):
            yield from ((grouped, number) for number in (joined, *_inland(joined)))


def _inland(digits: str) -> Iterator[str]:
    for code_digits in range(1, _MOST_CODE_DIGITS + 1):
        number = digits[code_digits:]
        if len(number) >= LEAST_DIGITS:
            yield number
            yield f"0{number}"


_EMOJI = re.compile(
    "[\u2600-\u27bf\u2b00-\u2bff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_BEYOND = re.compile("[^\x00-\u25ff]")
"""Tells in a third of the time that a text has none."""
_SAYS_NOTHING = frozenset(
    """
    and the with sign symbol mark black white heavy face open person regional indicator letter emoji
    component left right down
    """.split()
)


def emoji_in(text: str) -> list[str]:
    """The emoji of a text in order, without modifiers."""
    return _EMOJI.findall(text) if not text.isascii() and _BEYOND.search(text) else []


def is_emoji(term: str) -> bool:
    return _EMOJI.fullmatch(term) is not None


def emoji_words(emoji: str) -> Iterator[str]:
    """The words of an emoji's Unicode name, such as `parrot`."""
    name = unicodedata.name(emoji, "").lower()
    yield from (word for word in re.findall("[a-z]{3,}", name) if word not in _SAYS_NOTHING)


# Scripts without spaces. The index has every character and every pair of neighbors, so that no text needs
# to be split into words; adjacent Latin words and digits are separate words. A query leaves out Chinese
# words that say nothing, such as 觉得 or 一下, and pairs of a particle and a word. Hangul is included:
# its particles hide the word.
_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff\u3005\u3007"
)
_KANA = re.compile("[\u3040-\u30ff]")
_WORD_CHARS = 3


@cache  # as for the next two, English searches do not need it
def gram_run() -> re.Pattern[str]:
    """Matches adjacent characters of such scripts, which are not ASCII."""
    return re.compile(f"[{_RANGES}]+")


@cache
def _seam() -> re.Pattern[str]:
    return re.compile(f"(?<=[{_RANGES}])(?=[^\\W{_RANGES}]|[#@$])|(?<=[^\\W{_RANGES}])(?=[{_RANGES}])")


@cache
def _chinese_word() -> re.Pattern[str]:
    return re.compile("|".join(sorted(CHINESE, key=lambda word: (-len(word), word))))


def seamed(text: str) -> str:
    """Inserts a space wherever such a script touches another one: 用Python写 has three words."""
    if text.isascii() or not gram_run().search(text):
        return text
    return _seam().sub(" ", text)


def index_grams(text: str) -> Iterator[str]:
    """Every character and every pair of neighbors."""
    for run in gram_run().findall(text):
        yield from run
        yield from _pairs(run)


def query_grams(text: str) -> list[str]:
    """The characters and pairs to search for; all pairs if nothing else is left."""
    runs = gram_run().findall(text)
    japanese = _KANA.search(text) is not None
    found: list[str] = []
    for run in runs:
        for word in [run] if japanese else _chinese_word().split(run):
            found += _significant(word, alone=len(run) <= _WORD_CHARS)
    return found or [gram for run in runs for gram in (_pairs(run) if len(run) > 1 else run)]


def _significant(piece: str, *, alone: bool) -> Iterator[str]:
    # A piece `alone` is as short as a word: in 目的, the second character is not a particle.
    yield from (char for char in piece if char not in JAPANESE_OR_CHINESE)
    for pair in _pairs(piece):
        if alone or CHINESE_PARTICLES.isdisjoint(pair):
            yield pair


def _pairs(run: str) -> Iterator[str]:
    for left, right in pairwise(run):
        yield left + right


# Stores stem English. In other languages, a query searches for the beginning of a word, which finds its
# forms and compounds: "Termin" finds "Termine" and "Terminplan". The index needs nothing for this.
_INFLECTED = re.compile(
    "[a-z\u00df-\u024f\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u0620-\u064a\u0671-\u06d3\u10a0-\u10ff\u1e00-\u1fff]{4,}"
)
_SHORT_ENDED = re.compile("[\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u10a0-\u10ff]{4,5}")
_LEAST_LETTERS = 4
_KEPT = 0.6


def is_inflected(words: Collection[str]) -> bool:
    """Whether these lower-case words show that a question is not in English."""
    return stop_words_for(words) is not ENGLISH or not all(map(str.isascii, words))


def beginning(word: str) -> str:
    """The beginning of a lower-case word that its other forms share; empty if it is not shortened.

    It has six tenths of the word and at least four letters. Short words in Greek, Russian and similar
    scripts, whose last letter marks the case, lose one letter.
    """
    if not _INFLECTED.fullmatch(word):
        return ""
    if _SHORT_ENDED.fullmatch(word):
        return word[:-1]
    return word[: max(_LEAST_LETTERS, math.ceil(_KEPT * len(word)))]


_SUFFIXES = tuple("ations ation ments ment ness ingly ings ing edly ies ied ers er ed es ly s y e".split())
_MIN_STEM = 3


@lru_cache(maxsize=8192)
def stem(word: str, *, inflected: bool = False) -> str:
    """A word without a common English ending, or the beginning of a word in an `inflected` language."""
    if inflected or not word.isascii():
        return beginning(word) or word
    if len(word) <= _MIN_STEM:
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            return word[: -len(suffix)]
    return word
