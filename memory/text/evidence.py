"""Which terms of a query are on which lines of a text, for ranking and snippets.

Words are compared by stem, without case and accents; identifiers and quoted phrases verbatim. This is fast
enough for all candidates of a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from nacre.memory.contracts.words import MatchQuery
from nacre.memory.text.forms.spelling import (
    apart,
    emoji_in,
    emoji_words,
    fold,
    gram_run,
    seamed,
    stem,
    written_together,
)
from nacre.memory.text.lexical import HEX, term_atom
from nacre.record import Record

_HASH_CHARS = 7
_LONG_STEM = 10
_LONGEST_IN_COMPOUND = 12


class TextEvidence(NamedTuple):
    """The numbers of the query's `terms` in a text, and of those on each of its `lines`, counted from 0.

    With `exact`, the text contains an identifier or a quoted phrase of the query. `code` are the numbers of
    its code forms in the text.
    """

    terms: frozenset[int]
    lines: Mapping[int, frozenset[int]]
    exact: bool
    code: frozenset[int] = frozenset()


class Finder:
    """Finds the terms of one query in many texts; `atoms` find them in the index.

    Uses plain string search, because patterns take ten times as long. `for_last` are words, or parts of words
    in scripts without spaces, that count as the last term beside another one: who says "I" is the owner.
    """

    def __init__(self, query: MatchQuery, *, for_last: Collection[str] = ()) -> None:
        written = {stem(fold(term), inflected=query.inflected): term for term in reversed(query.terms)}
        self.terms = tuple(term for term in reversed(written) if term)
        self.atoms = tuple(term_atom(written[term], inflected=query.inflected) for term in self.terms)
        self._code_forms = [*map(fold, query.code_forms)]
        self._searched = [(term, _longest_ending(term, fold(written[term]))) for term in self.terms]
        self._for_last = [(word, -1 if gram_run().match(word) else 0) for word in for_last]
        self._has_numbers = any(map(str.isdigit, "".join(self.terms)))
        self._names = [
            _Name(text=name[:_HASH_CHARS] if HEX.fullmatch(name) else name, whole=not HEX.fullmatch(name))
            for name in filter(
                None, map(fold, (*query.identifiers, *query.phrases, query.quotation, *query.codes))
            )
        ]
        self._names += [
            _Name(text=spaced, whole=True)
            for name in query.identifiers
            if not HEX.fullmatch(name) and (spaced := apart(fold(name))) != fold(name)
        ]
        self._known: dict[str, TextEvidence] = {}
        self._sets: dict[int, frozenset[int]] = {}

    def look(self, text: str) -> TextEvidence:
        found = self._known.get(text)
        if found is None:
            folded = text.lower() if text.isascii() else _searchable(text)
            if self._has_numbers or emoji_in(text):
                # Numbers in groups and names of emoji are indexed too.
                folded = "\n".join(" ".join((line, *_other_forms(line))) for line in folded.split("\n"))
            found = self._known[text] = self._look(folded)
        return found

    def _look(self, folded: str) -> TextEvidence:
        lines: dict[int, int] = {}
        for number, (term, longest_ending) in enumerate(self._searched):
            if term in folded:
                _add_lines(lines, 1 << number, term, longest_ending, folded)
        for word, longest_ending in self._for_last if lines else ():
            _add_lines(lines, 1 << (len(self.terms) - 1), word, longest_ending, folded)
        is_exact = any(name.stands_in(folded) for name in self._names) if self._names else False
        code = frozenset(at for at, form in enumerate(self._code_forms) if _is_written(folded, form))
        if not lines and not code:
            return _EXACT if is_exact else _NOTHING
        together = 0
        for bits in lines.values():
            together |= bits
        return TextEvidence(
            terms=self._numbers(together),
            lines={line: self._numbers(bits) for line, bits in lines.items()},
            exact=is_exact,
            code=code,
        )

    def _numbers(self, bits: int) -> frozenset[int]:
        # A query has few combinations of terms, so that the same set serves many lines.
        numbers = self._sets.get(bits)
        if numbers is None:
            numbers = frozenset(at for at in range(len(self.terms)) if bits >> at & 1)
            self._sets[bits] = numbers
        return numbers


_NOTHING = TextEvidence(terms=frozenset(), lines={}, exact=False)
_EXACT = _NOTHING._replace(exact=True)


class _Name(Record):
    """A folded identifier or phrase, or the beginning of a commit hash, because logs shorten hashes."""

    text: str
    whole: bool

    def stands_in(self, folded: str) -> bool:
        for at in _positions(folded, self.text):
            end = at + len(self.text)
            if not _letter_at(folded, at - 1) and not (self.whole and _letter_at(folded, end)):
                return True
        return False


def _is_written(text: str, form: str) -> bool:
    for at in _positions(text, form):
        before, behind = text[at - 1 : at], text[at + len(form) : at + len(form) + 1]
        goes_on = form.startswith("-") and (behind.isalnum() or behind in ("-", "_"))
        if not goes_on and not before.isalnum() and before != "_":
            return True
    return False


def _positions(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _longest_ending(term: str, written: str) -> int:
    # A short stem must be nearly the whole word, or `written`; a long one may begin a compound. −1: any one.
    if not term.isascii():
        return -1
    usual = 2 if len(term) <= 4 else 5 if len(term) < _LONG_STEM else _LONGEST_IN_COMPOUND
    return max(usual, len(written) - len(term))


def _add_lines(lines: dict[int, int], bit: int, term: str, longest_ending: int, text: str) -> None:
    # One loop and no generators: it runs for each term in each candidate.
    at, length, line, last = text.find(term), len(term), 0, 0
    while at >= 0:
        end = at + length
        is_one = longest_ending < 0
        if not is_one and (not at or not text[at - 1].isalnum()):
            behind = text[end : end + longest_ending + 1]
            is_one = len(behind) <= longest_ending or not behind.isalnum()
        if is_one:
            line += text.count("\n", last, at)
            last = at
            lines[line] = lines.get(line, 0) | bit
        at = text.find(term, end)


def _letter_at(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at].isalnum()


@lru_cache(maxsize=2048)  # the same notes are candidates of many questions
def _searchable(text: str) -> str:
    return seamed(fold(text))


def _other_forms(line: str) -> Iterator[str]:
    yield from (number for _, number in written_together(line))
    yield from (word for emoji in emoji_in(line) for word in emoji_words(emoji))


def counted(evidence: Collection[TextEvidence], term_count: int) -> list[int]:
    counts = [0] * term_count
    for item in evidence:
        for at in item.terms:
            counts[at] += 1
    return counts


def rarity(counts: Sequence[int], total: int) -> list[float]:
    """The weight of each term by the number of the `total` texts that have it, as in BM25's idf; the sum is
    1."""
    weights = [math.log(1 + (total + 0.5) / (count + 0.5)) for count in counts]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def share(terms: Iterable[int], weights: Sequence[float]) -> float:
    """The share of the query, 0 to 1, that these terms cover; `weights` is its `rarity`."""
    return sum(map(weights.__getitem__, terms))


def best_line_share(evidence: TextEvidence, shares: Callable[[frozenset[int]], float]) -> float:
    """The highest share of the query on one line; `shares` gives that of terms, of which there are few."""
    return max(map(shares, evidence.lines.values()), default=0.0)
