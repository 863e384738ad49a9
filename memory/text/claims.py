"""What a line of a note claims: which value a thing has, whether that is new, and what is not so. Pure.

Reads the shapes that notes have in any language (`key: value`, rows of tables, "the key is under the mat"),
with the few words of each language that stand in `forms/words.json`. What has none of them claims nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property

from nacre.memory.text.evidence import fold, stem
from nacre.memory.text.forms.character_grams import gram_run, seamed
from nacre.memory.text.forms.words import claim_words, stop_words_for

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARKS_OF_CLAUSES = " ,;:.!?()\u2013\u2014\u2026\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f"
_CLAUSE = re.compile(f"[{_MARKS_OF_CLAUSES[1:]}]+")
_MARKS = re.compile(r"\s*(?:>\s*)*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?")
_EMPHASIS = re.compile(r"[*_`]+")
_LABELLED = re.compile(r"([^:\uff1a=|]{1,60}?)\s*(?::(?=\s)|\uff1a|=|\u2192)\s*(.+)")
_UNSPACED_IS = re.compile("(.{2,12}?)[是は](.+)")
_TALK = re.compile(r"[?!\uff1f\uff01]|\w{4}[.\u2026]\s+\S|\u3002\s*\w")
"""Marks of a question, a cry, or several sentences."""
_SEVERAL = re.compile("[,;\uff0c\uff1b]")
_MOST_OF_A_THING = 5
_MOST_OF_A_VALUE = 6
_MOST_TOLD = 12
_MOST_CHARS = 160
_SHORT = 8
_REACH = 3
"""How many words a "not" reaches; as far back only where a language puts it behind the verb."""

Thing = tuple[str, ...]
"""The folded words of what has a value."""


class Claim:
    """One line, with or without the marks of a list, a quotation or a table; read as far as it is asked."""

    def __init__(self, line: str) -> None:
        marks = _MARKS.match(line)
        self._bare = _EMPHASIS.sub("", line[marks.end() if marks else 0 :]).strip()
        self._folded = fold(self._bare)

    @cached_property
    def is_statement(self) -> bool:
        """Whether it is one short sentence that states something, as notes do, and no talk."""
        return len(self._bare) <= _MOST_CHARS and not _TALK.search(self._bare)

    @cached_property
    def values(self) -> Mapping[Thing, frozenset[str]]:
        """The words of the value of each thing that is said to have one."""
        return {thing: value for thing, value in _values(self._bare) if thing and value}

    @cached_property
    def is_change(self) -> bool:
        """Whether the line says itself that something is different from then on."""
        tokens = _TOKEN.findall(self._folded)
        if any(sign in self._folded for sign in _table("is different, among characters")):
            return True
        changes, spoken = _table("is different"), f" {' '.join(tokens)} "
        return not changes.isdisjoint(tokens) or any(
            " " in words and f" {words} " in spoken for words in changes
        )

    @cached_property
    def words(self) -> Sequence[tuple[str, bool]]:
        """Each word, pairs of characters where no spaces are written, with whether a "not" reaches it."""
        return [word for clause in _CLAUSE.split(seamed(self._folded)) for word in _in_reach(clause)]

    @cached_property
    def stems(self) -> Mapping[str, bool]:
        """The words that tell something, shortened, in their order; true for what is said not to be so."""
        stop_words = stop_words_for([word for word, _ in self.words])
        return {stem(word): denied for word, denied in self.words if word not in stop_words}

    def having(self, terms: Sequence[str], *, denied: bool) -> frozenset[int]:
        """The numbers of those `terms`, beginnings of words, that are said to be so, or not to be so."""
        words = [word for word, is_denied in self.words if is_denied is denied]
        return frozenset(at for at, term in enumerate(terms) if any(word.startswith(term) for word in words))


def has_other_value(newer: Claim, older: Claim) -> bool:
    """Whether a thing has other values in two statements, and not one value that is told at more length."""
    both = older.values.keys() & newer.values.keys()
    return any(
        not (older.values[thing] <= newer.values[thing] or newer.values[thing] <= older.values[thing])
        for thing in both
    )


def says_otherwise(newer: Claim, older: Claim) -> bool:
    """Whether the later of two statements says that what the earlier one says changed, or is not so.

    Two words at least are in both, and two thirds of what the shorter one tells. A short line that tells of a
    change needs no more than to begin with the same word. Of two changes the later one takes nothing back.
    """
    shared = older.stems.keys() & newer.stems.keys()
    shorter, longer = sorted((len(older.stems), len(newer.stems)))
    if len(shared) < 2 or longer > _MOST_TOLD:
        return False
    is_change = newer.is_change and not older.is_change
    if not is_change and all(older.stems[word] is newer.stems[word] for word in shared):
        return False
    begin_alike = next(iter(older.stems)) == next(iter(newer.stems))
    return 3 * len(shared) >= 2 * shorter or (is_change and begin_alike and longer <= _SHORT)


@cache
def _table(kind: str) -> frozenset[str]:
    return frozenset(map(fold, claim_words(kind)))


def _in_reach(clause: str) -> Iterator[tuple[str, bool]]:
    words, behind_verb = list(_cut(clause)), _table("not, behind the verb")
    before = [at for at, word in enumerate(words) if is_not(word)]
    behind = [at for at, word in enumerate(words) if word in behind_verb]
    if not before and not behind:
        yield from ((word, False) for word in words)
        return
    for at, word in enumerate(words):
        denied = any(0 < at - sign <= _REACH for sign in (*before, *behind)) or any(
            0 < sign - at <= _REACH for sign in behind
        )
        yield word, denied


def _cut(clause: str) -> Iterator[str]:
    for token in _TOKEN.findall(clause):
        if not token.isascii() and gram_run().match(token):
            yield from (token[at : at + 2] for at in range(max(1, len(token) - 1)))
        else:
            yield token


def is_not(word: str) -> bool:
    """Whether a folded word says that something is not so."""
    if word in _table("not") or word.endswith(("n't", "n’t")):
        return True
    return not word.isascii() and any(sign in word for sign in _table("not, among characters"))


def _values(bare: str) -> Iterator[tuple[Thing, frozenset[str]]]:
    if bare.startswith("|"):
        thing, _, value = bare.strip("| ").partition("|")
        yield _thing(thing), _value(value)
        return
    if (labelled := _LABELLED.match(bare)) and _is_one(labelled[2]):
        yield _thing(labelled[1]), _value(labelled[2])
    start = 0
    for end in (*(mark.start() for mark in _CLAUSE.finditer(bare)), len(bare)):
        clause = bare[start:end].lstrip(
            " ,;:.!?()\u2013\u2014\u2026\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f"
        )
        if not clause.isascii() and gram_run().match(clause):
            if unspaced := _UNSPACED_IS.match(clause):
                yield _thing(unspaced[1]), _value(unspaced[2])
        else:
            yield from _said_to_be(bare, start, end)
        start = end


def _said_to_be(bare: str, start: int, end: int) -> Iterator[tuple[Thing, frozenset[str]]]:
    """The thing before the first "is" of a clause, and all that stands behind it in the line."""
    for word in _TOKEN.finditer(bare, start, end):
        if fold(word[0]) in _table("is"):
            yield _thing(bare[start : word.start()]), _value(bare[word.end() :])
            return


def _is_one(value: str) -> bool:
    """Whether it is one value: what has commas and no number tells what happened, one thing after another."""
    return not _SEVERAL.search(value) or any(map(str.isdigit, value))


def _thing(text: str) -> Thing:
    """The words of a thing, whatever is new about it; empty when they are too many to be a name."""
    for sign in _table("is different, among characters"):
        text = text.replace(sign, "")
    words = _beside_nothing(text)
    return tuple(words) if len(words) <= _MOST_OF_A_THING else ()


def _value(text: str) -> frozenset[str]:
    words = _beside_nothing(text)
    return frozenset(words) if len(words) <= _MOST_OF_A_VALUE else frozenset()


def _beside_nothing(text: str) -> list[str]:
    return [word for word in _TOKEN.findall(fold(text)) if word not in _table("beside a thing")]
