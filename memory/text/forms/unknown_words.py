"""Other forms of a question's words that stand in no note: other spellings, and the words in a compound.

Words that are found get no other forms, because those would only add passages beside what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.text.forms.character_grams import gram_run
from nacre.memory.text.forms.emoji import emoji_words, is_emoji
from nacre.memory.text.forms.letters import normalise, spelled_out, without_spelling

_LEAST_WORD_LETTERS = 6
_LEAST_LETTERS_OF_OTHERS = 3
_MOST_WORDS = 12
_LEAST_SEGMENT_LETTERS = 3
_MOST_LETTERS = 40
_MOST_SEGMENTS = 3
_LINKS = ("", "s", "es", "n", "en")
"""Letters that German, Dutch and Swedish put between the words of a compound."""


def with_unknown_words(query: MatchQuery, is_known: Callable[[Atom], bool]) -> MatchQuery:
    """Adds other spellings of terms that stand nowhere, or the words that they consist of.

    `is_known` says whether any chunk has an atom. Only the first terms of a long question are examined.
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
    return len(term) >= _LEAST_WORD_LETTERS and term.isalnum() and not term.isdigit() and not _has_run(term)


def _may_begin(term: str) -> bool:
    least = _LEAST_WORD_LETTERS if term.isascii() else _LEAST_LETTERS_OF_OTHERS
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
    both_words = left.isascii() and right.isascii() and left.isalpha() and right.isalpha()
    return both_words and stands(left + right) and not stands(left) and not stands(right)


def segments(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """The fewest known words that `word` consists of; empty if there are none.

    The first word is as long as possible. Linking letters may stand between two words.
    """
    if not 2 * _LEAST_SEGMENT_LETTERS <= len(word) <= _MOST_LETTERS:
        return ()
    known: dict[str, bool] = {}

    def stands(part: str) -> bool:
        if part not in known:
            known[part] = is_known(part)
        return known[part]

    for count in range(2, _MOST_SEGMENTS + 1):
        if found := _cut(word, count, stands):
            return found
    return ()


def _cut(word: str, count: int, stands: Callable[[str], bool]) -> tuple[str, ...]:
    if count == 1:
        return (word,) if len(word) >= _LEAST_SEGMENT_LETTERS and stands(word) else ()
    for end in range(len(word) - _LEAST_SEGMENT_LETTERS * (count - 1), _LEAST_SEGMENT_LETTERS - 1, -1):
        first = word[:end]
        bare = next((b for link in _LINKS if (b := _without(first, link)) and stands(b)), "")
        if bare and (rest := _cut(word[end:], count - 1, stands)):
            return (bare, *rest)
    return ()


def _without(word: str, link: str) -> str:
    bare = word.removesuffix(link) if link else word
    return bare if len(bare) >= _LEAST_SEGMENT_LETTERS and (not link or bare != word) else ""
