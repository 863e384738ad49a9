"""Numbers written in groups: telephone numbers, accounts, ISBNs, amounts. Takes normalized text.

The form without spaces, points and hyphens stands for all spellings. It is indexed, and searched for, in
addition to the groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

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
    accounts = [found[0] for found in _ACCOUNT.finditer(text) if _digits(found[0]) >= _ACCOUNT_DIGITS]
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


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))


def _inland(digits: str) -> Iterator[str]:
    for code_digits in range(1, _MOST_CODE_DIGITS + 1):
        number = digits[code_digits:]
        if len(number) >= LEAST_DIGITS:
            yield number
            yield f"0{number}"
