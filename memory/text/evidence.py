"""Which words of a query stand on which lines of a text: ranking weighs it, a snippet is cut around it.

Full-text search says that a chunk fits; this says where. Words are compared by their stem, folded for case
and accents; identifiers and quoted phrases as they stand. Pure, and quick enough for the whole pool.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nacre.memory.contracts.words import MatchQuery
from nacre.memory.text.forms.character_grams import seamed
from nacre.memory.text.forms.emoji import emoji_in, emoji_words
from nacre.memory.text.forms.endings import beginning
from nacre.memory.text.forms.letters import DIGITS, normalise
from nacre.memory.text.forms.numbers import apart, written_together
from nacre.memory.text.lexical import HEX, term_atom
from nacre.record import Record

_SUFFIXES = (
    *("ations", "ation", "ments", "ment", "ness", "ingly", "ings", "ing", "edly", "ies", "ied", "ers"),
    *("er", "ed", "es", "ly", "s", "y", "e"),
)
_MIN_STEM = 3
_HASH_CHARS = 7
_LONG_STEM = 10
_LONGEST_IN_COMPOUND = 12
_COMBINING = re.compile("[\u0300-\u036f]+")
_FOLDABLE = re.compile(
    f"[{DIGITS}\u00aa-\u024f\u0300-\u036f\u0370-\u052f\u1e00-\u1fff\ufb00-\ufb06\uff00-\uffef]"
)


class TextEvidence(NamedTuple):
    """The query's terms in one text, by their numbers: `terms` in all of it, `lines` for each line with any.

    Lines count from 0. `exact` says that an identifier or a quoted phrase of the query stands in the text;
    `code` are the numbers of those of its code forms that stand there as they are written.
    """

    terms: frozenset[int]
    lines: Mapping[int, frozenset[int]]
    exact: bool
    code: frozenset[int] = frozenset()


class Finder:
    """Looks for one query's terms in many texts, at each text once; `atoms` find the terms in the index.

    Plain string search: patterns took ten times as long.
    """

    def __init__(self, query: MatchQuery) -> None:
        written = {stem(fold(term), inflected=query.inflected): term for term in reversed(query.terms)}
        self.terms = tuple(term for term in reversed(written) if term)
        self.atoms = tuple(term_atom(written[term], inflected=query.inflected) for term in self.terms)
        self._code_forms = [*map(fold, query.code_forms)]
        self._looked_for = [(term, _longest_ending(term)) for term in self.terms]
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
        self._looked_at: dict[str, TextEvidence] = {}

    def look(self, text: str) -> TextEvidence:
        """The evidence in `text`."""
        found = self._looked_at.get(text)
        if found is None:
            folded = text.lower() if text.isascii() else seamed(fold(text))
            if self._has_numbers or emoji_in(text):
                folded = _as_asked(folded)
            found = self._looked_at[text] = self._look(folded)
        return found

    def _look(self, folded: str) -> TextEvidence:
        lines: dict[int, set[int]] = {}
        for number, (term, longest_ending) in enumerate(self._looked_for):
            at = folded.find(term)
            if at < 0:
                continue
            starts = _forms_of(term, longest_ending, folded, at)
            line = last = 0
            for start in starts:
                line += folded.count("\n", last, start)
                last = start
                if line in lines:
                    lines[line].add(number)
                else:
                    lines[line] = {number}
        is_exact = any(name.stands_in(folded) for name in self._names) if self._names else False
        code = frozenset(at for at, form in enumerate(self._code_forms) if _is_written(folded, form))
        if not lines and not code:
            return _EXACT if is_exact else _NOTHING
        return TextEvidence(
            terms=frozenset().union(*lines.values()),
            lines={line: frozenset(found) for line, found in lines.items()},
            exact=is_exact,
            code=code,
        )


_NOTHING = TextEvidence(terms=frozenset(), lines={}, exact=False)
_EXACT = _NOTHING._replace(exact=True)


class _Name(Record):
    """An identifier or phrase, folded. Of a commit hash it is the beginning, because logs shorten them."""

    text: str
    whole: bool

    def stands_in(self, folded: str) -> bool:
        for at in _positions(folded, self.text):
            end = at + len(self.text)
            if not _letter_at(folded, at - 1) and not (self.whole and _letter_at(folded, end)):
                return True
        return False


def _is_written(text: str, form: str) -> bool:
    """Whether an option, a call or a named argument stands in `text`, and not inside of a longer one."""
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


def _longest_ending(term: str) -> int:
    """How many characters a word may have behind `term`, its stem, and still be a form of it; −1: any.

    Short stems must be nearly the whole word, long ones may begin a compound.
    """
    if not term.isascii():
        return -1
    return 2 if len(term) <= 4 else 5 if len(term) < _LONG_STEM else _LONGEST_IN_COMPOUND


def _forms_of(term: str, longest_ending: int, text: str, at: int) -> list[int]:
    """Where words stand that are `term` with an ending, or just the characters; the first look is at `at`."""
    starts: list[int] = []
    length = len(term)
    while at >= 0:
        end = at + length
        if longest_ending < 0:
            starts.append(at)
        elif not at or not text[at - 1].isalnum():
            behind = text[end : end + longest_ending + 1]
            if len(behind) <= longest_ending or not behind.isalnum():
                starts.append(at)
        at = text.find(term, end)
    return starts


def _letter_at(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at].isalnum()


def fold(text: str) -> str:
    """Lower case, without accents; lines stay lines."""
    if text.isascii() or not _FOLDABLE.search(text):
        return text.lower()
    decomposed = unicodedata.normalize("NFD", normalise(text).lower())
    return unicodedata.normalize("NFC", _COMBINING.sub("", decomposed))


def _as_asked(text: str) -> str:
    """Each line with what of it is also indexed otherwise: numbers in groups, and what emoji show."""
    return "\n".join(" ".join((line, *_other_forms(line))) for line in text.split("\n"))


def _other_forms(line: str) -> Iterator[str]:
    yield from (number for _, number in written_together(line))
    yield from (word for emoji in emoji_in(line) for word in emoji_words(emoji))


def stem(word: str, *, inflected: bool = False) -> str:
    """A word without its commonest English ending; of a language that inflects, cut as it is asked for."""
    if inflected or not word.isascii():
        return beginning(word) or word
    if len(word) <= _MIN_STEM:
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            return word[: -len(suffix)]
    return word


def counted(evidence: Collection[TextEvidence], term_count: int) -> list[int]:
    """In how many of these texts each term stands."""
    counts = [0] * term_count
    for item in evidence:
        for at in item.terms:
            counts[at] += 1
    return counts


def rarity(counts: Sequence[int], total: int) -> list[float]:
    """How much each term tells, as a share of the whole query; `counts` of `total` texts have it.

    High for what few of them have, as in BM25's idf; all of them sum to 1.
    """
    weights = [math.log(1 + (total + 0.5) / (count + 0.5)) for count in counts]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def share(terms: Iterable[int], weights: Sequence[float]) -> float:
    """The part of a query, 0…1, that these terms carry; `weights` is its `rarity`."""
    return sum(map(weights.__getitem__, terms))


def best_line_share(evidence: TextEvidence, weights: Sequence[float]) -> float:
    """The share of the line that has most of the query."""
    best = 0.0
    for line in evidence.lines.values():
        best = max(best, share(line, weights))
    return best
