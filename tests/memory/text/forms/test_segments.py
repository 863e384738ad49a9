"""Words made of words."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.memory.search.finding import segments

KNOWN = {
    *("ledger", "sync", "zahnarzt", "termin", "arbeit", "zimmer", "max", "inflight", "requests"),
    *("inv", "2026"),
}


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("ledgersync", ("ledger", "sync")),
        ("zahnarzttermin", ("zahnarzt", "termin")),
        ("arbeitszimmer", ("arbeit", "zimmer")),
        ("maxinflightrequests", ("max", "inflight", "requests")),
        ("inv2026", ("inv", "2026")),
        ("ledger", ()),
        ("ledgerbook", ()),
        ("", ()),
    ],
)
def test_a_word_is_cut_into_words_that_stand_somewhere(word: str, parts: tuple[str, ...]) -> None:
    """All of them do, or nothing is said."""
    assert segments(word, KNOWN.__contains__) == parts


@given(st.lists(st.sampled_from(sorted(KNOWN)), min_size=2, max_size=3).map(tuple))
def test_what_was_put_together_is_taken_apart(parts: tuple[str, ...]) -> None:
    """Two or three known words in one are found again, in no more pieces."""
    word = "".join(parts)
    if len(word) <= 40:
        found = segments(word, KNOWN.__contains__)
        assert found
        assert len(found) <= len(parts)


def test_a_long_word_asks_a_bounded_number_of_times() -> None:
    """Each part is looked up once."""
    asked: list[str] = []

    def known(part: str) -> bool:
        asked.append(part)
        return True

    segments("a" * 40, known)
    segments("abcdefghij" * 4, lambda part: asked.append(part) is not None)
    assert len(asked) < 1000
