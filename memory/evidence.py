"""Which words of a query stand on which lines of a text: ranking weighs it, a snippet is cut around it.

Full-text search says that a chunk fits; this says where. Words are compared by their stem, folded for case
and accents; identifiers and quoted phrases as they stand. Pure, and quick enough for the whole pool.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.memory.lexical import HEX, MatchQuery, normalise

_SUFFIXES = (
    *("ations", "ation", "ments", "ment", "ness", "ingly", "ings", "ing", "edly", "ies", "ied", "ers"),
    *("er", "ed", "es", "ly", "s", "y", "e"),
)
_MIN_STEM = 3
_COMBINING = re.compile("[\u0300-\u036f]+")


@dataclass(frozen=True, kw_only=True)
class TextEvidence:
    """The query's terms on the lines of one text. `lines` holds the terms' numbers, line by line.

    `exact` says that an identifier or a quoted phrase of the query stands in the text.
    """

    lines: tuple[frozenset[int], ...]
    exact: bool

    @property
    def terms(self) -> frozenset[int]:
        """Every term that the text has."""
        return frozenset().union(*self.lines)


class Finder:
    """Looks for one query's terms in many texts."""

    def __init__(self, query: MatchQuery) -> None:
        self.terms = tuple(dict.fromkeys(stem(fold(term)) for term in query.terms))
        spaced = [(at, term) for at, term in enumerate(self.terms) if term.isascii()]
        self._unspaced = [(at, term) for at, term in enumerate(self.terms) if not term.isascii()]
        self._numbers = [at for at, _ in spaced]
        # Short stems must be nearly the whole word: "car" is not in "carpet".
        bodies = (rf"({re.escape(term)}\w{{0,{2 if len(term) <= 4 else 5}}})" for _, term in spaced)
        self._pattern = re.compile(rf"(?<![^\W_])(?:{'|'.join(bodies)})(?![^\W_])") if spaced else None
        exact = [_exact_pattern(fold(name)) for name in (*query.identifiers, *query.phrases)]
        self._exact = re.compile("|".join(exact)) if exact else None

    def look(self, text: str) -> TextEvidence:
        """The evidence in `text`."""
        folded = fold(text)
        return TextEvidence(
            lines=tuple(self._on_line(line) for line in folded.split("\n")),
            exact=self._exact is not None and self._exact.search(folded) is not None,
        )

    def _on_line(self, line: str) -> frozenset[int]:
        found = set()
        if self._pattern is not None:
            found = {
                self._numbers[match.lastindex - 1]
                for match in self._pattern.finditer(line)
                if match.lastindex
            }
        if self._unspaced and not line.isascii():
            found.update(at for at, term in self._unspaced if term in line)
        return frozenset(found)


def _exact_pattern(name: str) -> str:
    """The whole name; of a commit hash, its first seven digits, because logs shorten them."""
    if HEX.fullmatch(name):
        return rf"(?<!\w){re.escape(name[:7])}"
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def fold(text: str) -> str:
    """Lower case, without accents; lines stay lines."""
    if text.isascii():
        return text.lower()
    text = normalise(text).lower()
    if unicodedata.is_normalized("NFD", text):
        return text
    return unicodedata.normalize("NFC", _COMBINING.sub("", unicodedata.normalize("NFD", text)))


def stem(word: str) -> str:
    """A word without its commonest English ending; other scripts and short words as they are."""
    if not word.isascii() or len(word) <= _MIN_STEM:
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            return word[: -len(suffix)]
    return word


def rarity(evidence: Sequence[TextEvidence], term_count: int) -> list[float]:
    """How much each term tells about these texts: high for what few of them have, as in BM25's idf."""
    counts = [0] * term_count
    for item in evidence:
        for at in item.terms:
            counts[at] += 1
    total = len(evidence)
    return [math.log(1 + (total + 0.5) / (count + 0.5)) for count in counts]


def share(terms: frozenset[int], weights: Sequence[float]) -> float:
    """The part of a query's whole weight, 0…1, that these terms carry."""
    whole = sum(weights)
    return sum(weights[at] for at in terms) / whole if whole else 0.0


def best_line_share(evidence: TextEvidence, weights: Sequence[float]) -> float:
    """The share of the line that has most of the query."""
    return max((share(line, weights) for line in evidence.lines), default=0.0)
