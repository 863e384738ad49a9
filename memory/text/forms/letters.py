"""Letters and digits with several spellings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_GREEK = [*map(chr, range(0x370, 0x400)), *map(chr, range(0x1F00, 0x2000))]
_ZEROS = (
    *("\u0660", "\u06f0", "\u07c0", "\u0966", "\u09e6", "\u0a66", "\u0ae6", "\u0b66", "\u0be6", "\u0c66"),
    *("\u0ce6", "\u0d66", "\u0de6", "\u0e50", "\u0ed0", "\u0f20", "\u1040", "\u17e0", "\u1810"),
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


def normalise(text: str) -> str:
    """Folds compatibility forms (full-width letters, ligatures) and digits, and replaces letters whose mark
    is not a separable accent."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    return text.translate(_FOLDS) if _FOLDED.search(text) else text


def spelled_out(word: str) -> Iterator[str]:
    """A lower-case word with `ae` for `ä`, and likewise for ö, ü, ø and å, if it has any."""
    word = unicodedata.normalize("NFC", word)
    spelled = word.translate(_SPELLED)
    if spelled != word:
        yield normalise(spelled)


def without_spelling(word: str) -> Iterator[str]:
    """A lower-case word with `a` for `ae` and likewise, as stores have it for a word with an umlaut."""
    for pattern in (_SPELLED_UMLAUT, _DOUBLE_A):
        folded = pattern.sub(lambda found: found[0][0], word)
        if folded != word:
            yield folded
