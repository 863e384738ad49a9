"""The order of what was found, and what a score is worth."""

from __future__ import annotations

import pytest

from nacre.extensions.lancedb.memories import Candidate, ranked
from nacre.extensions.lancedb.records import Memory, Origin
from nacre.extensions.lancedb.table import query_words, words_of


def candidate(text: str, cosine: float, bm25: float) -> Candidate:
    origin = Origin(session_key="", session_id="", channel="", said_by="owner", written_by="tool")
    memory = Memory(
        id=text,
        text=text,
        importance=0.7,
        category="other",
        created_at_ms=0,
        audience="private",
        origin=origin,
    )
    return Candidate(memory, cosine, bm25, words_of(text))


NEAR = candidate("The vessel bears the name of a bird.", 0.6, 0.0)
WORDED = candidate("Boat shoes: size 43.", 0.1, 4.0)


def test_meaning_leads() -> None:
    """A near row comes before one that has a word of the question."""
    assert ranked([WORDED, NEAR], terms=("boat",))[0].memory == NEAR.memory


def test_in_a_memory_of_one_row_words_are_worth_something() -> None:
    """BM25 says nothing there: a row with every word of the question is worth half all the same."""
    (found,) = ranked([candidate("My boat was painted.", 0.0, 0.1)], terms=("boat", "painting"))

    assert 0.5 <= found.score < 0.6


@pytest.mark.covers("Q-38")
def test_scores_stay_between_0_and_1() -> None:
    """Whatever a model's cosines are."""
    rows = [candidate("a b", 1.2, 900.0), candidate("c", -0.9, 0.0)]

    assert all(0 <= item.score <= 1 for item in ranked(rows, terms=()))
    assert ranked([], terms=()) == []


def test_words_of_every_script_are_asked_as_they_are_stored() -> None:
    """Scripts without spaces by characters and pairs; quotes and operators are words like others."""
    stored = words_of("我在里斯本用Python写代码").split()

    asked, _ = query_words("里斯本 Python")
    assert set(asked.split()) <= {word.lower() for word in stored} | {"Python", "python"}
    assert query_words('"dark mode" AND (x OR y)')[0]
    assert query_words(" \n") == ("", ())
