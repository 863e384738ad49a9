"""Names that a question asks for and that stand nowhere in what is searched.

An invoice number, a hash, a path or a quoted phrase is either there or not: what is like it is about
something else, however many of its words fit. Reads the index only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nacre.memory.contracts.store import Scope, Snapshot
from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.text.lexical import whole_atoms, words_of
from nacre.record import Record

OTHER_WORDS = 1
"""So many more words may a question have that asks for a name and nothing else: "who said …?"."""
OTHER_WORDS_BESIDE_A_NUMBER = 2
"""The same when the name has a digit: such names stand for one thing alone."""


class Absent(Record):
    """`names`, as typed, stand nowhere; `asks_for_them` says that a hit cannot be what was asked for.

    That is so when all that the question names is absent, a word of each is in no note either, and little
    else is asked: what has every word of a path may well be meant, and a longer question says by itself what
    it is about.
    """

    names: tuple[str, ...] = ()
    asks_for_them: bool = False


def absent_names(snapshot: Snapshot, query: MatchQuery, scope: Scope) -> Absent:
    """Looks up each identifier, long number and quoted phrase of the question."""
    names = tuple(dict.fromkeys((*query.identifiers, *query.numbers, *query.phrases)))
    absent = tuple(name for name in names if not _stands(snapshot, whole_atoms(name), scope))
    if not absent:
        return Absent()
    asks_for_them = (
        len(absent) == len(names)
        and _says_little_else(query, names)
        and not any(
            all(_stands(snapshot, (Atom(word),), scope) for word in words_of(name)) for name in absent
        )
    )
    return Absent(names=absent, asks_for_them=asks_for_them)


def _says_little_else(query: MatchQuery, names: Sequence[str]) -> bool:
    named = {word.lower() for name in names for word in words_of(name)}
    named.update(name.lower() for name in names)
    others = sum(term not in named for term in query.terms)
    has_number = all(any(char.isdigit() for char in name) for name in names)
    return others <= (OTHER_WORDS_BESIDE_A_NUMBER if has_number else OTHER_WORDS)


def _stands(snapshot: Snapshot, atoms: Iterable[Atom], scope: Scope) -> bool:
    return any(snapshot.lexical(MatchQuery(atoms=(atom,)), limit=1, scope=scope) for atom in atoms)
