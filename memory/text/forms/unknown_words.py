"""A question's words that stand nowhere, asked for otherwise. Pure, given what is known.

Only these: what a word finds by itself is what was asked for, and other forms of it would only be beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.text.forms.character_grams import gram_run
from nacre.memory.text.forms.emoji import emoji_words, is_emoji
from nacre.memory.text.forms.letters import normalise, spelled_out, without_spelling
from nacre.memory.text.forms.segments import segments

_LEAST_LETTERS = 6
_LEAST_OF_OTHERS = 3
_MOST_WORDS = 12


def with_unknown_words(query: MatchQuery, is_known: Callable[[Atom], bool]) -> MatchQuery:
    """The query with other forms of the terms that stand nowhere: spelled otherwise, or the words in them.

    `is_known` says whether an atom stands in any chunk. Of a long question only the first terms are looked
    at.
    """
    found: dict[str, bool] = {}

    def stands(word: str) -> bool:
        if word not in found:
            found[word] = is_known(Atom(normalise(word), "text"))
        return found[word]

    terms: list[str] = []
    atoms: list[Atom] = []
    for at, term in enumerate(query.terms):
        other = _other(term, stands) if at < _MOST_WORDS else ()
        if not other and at < _MOST_WORDS and _may_begin(term) and not stands(term):
            atoms.append(Atom(normalise(term), prefix=True))
        if not other and terms and at < _MOST_WORDS and _is_one(terms[-1], term, stands):
            other = (terms.pop() + term,)
        terms += other or (term,)
        atoms += map(Atom, other)
        if len(other) > 1:
            atoms.append(Atom(" ".join(other)))
    if not atoms:
        return query
    return replace(
        query, atoms=tuple(dict.fromkeys((*query.atoms, *atoms))), terms=tuple(dict.fromkeys(terms))
    )


def _is_word(term: str) -> bool:
    return len(term) >= _LEAST_LETTERS and term.isalnum() and not term.isdigit() and not _has_run(term)


def _may_begin(term: str) -> bool:
    """Whether other words may begin with it: long ones, and shorter ones of languages that add to the end."""
    least = _LEAST_LETTERS if term.isascii() else _LEAST_OF_OTHERS
    return len(term) >= least and term.isalpha() and not _has_run(term)


def _has_run(term: str) -> bool:
    return not term.isascii() and gram_run().search(term) is not None


def _other(term: str, stands: Callable[[str], bool]) -> tuple[str, ...]:
    if is_emoji(term):
        shown = tuple(word for word in emoji_words(term) if stands(word))
        return (term, *shown) if shown else ()
    if not _is_word(term) or stands(term):
        return ()
    spelled = next(filter(stands, (*spelled_out(term), *without_spelling(term))), "")
    return (spelled,) if spelled else segments(term, stands)


def _is_one(left: str, right: str, stands: Callable[[str], bool]) -> bool:
    """Whether two terms stand somewhere as one word, and neither by itself."""
    both_words = left.isascii() and right.isascii() and left.isalpha() and right.isalpha()
    return both_words and stands(left + right) and not stands(left) and not stands(right)
