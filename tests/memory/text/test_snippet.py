"""What a search shows of a chunk."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from nacre.memory.text.evidence import Finder
from nacre.memory.text.lexical import match_query
from nacre.memory.text.snippet import GAP, SNIPPET_CHARS, cut_snippet

FILLER = [f"- entry {number} says that nothing much happened while it rained all day" for number in range(40)]


def cut(text: str, query: str, weights: list[float] | None = None) -> str:
    found = match_query(query)
    if found is None:
        return cut_snippet(text, None, ())
    finder = Finder(found)
    return cut_snippet(text, finder, weights or [1.0] * len(finder.terms))


def test_a_short_chunk_is_shown_whole() -> None:
    """Nothing is cut without need."""
    assert cut("one\ntwo", "two") == "one\ntwo"


@pytest.mark.covers("Q-29")
def test_the_match_is_shown_wherever_it_is() -> None:
    """A hit at the end of a long chunk is in the snippet, with whole lines around it."""
    text = "\n".join([*FILLER[:30], "- the kayak is in the shed", *FILLER[30:]])
    snippet = cut(text, "kayak shed")
    assert "- the kayak is in the shed" in snippet
    assert all(line in text.split("\n") or line == GAP for line in snippet.split("\n"))
    assert len(snippet) <= SNIPPET_CHARS


def test_the_rare_word_decides() -> None:
    """Where not everything fits, the line with the rarer word is shown."""
    frequent = [f"- rain again, number {number}, and {'so on ' * 10}" for number in range(20)]
    text = "\n".join([*frequent, "- kayak sold", *frequent])
    finder_terms = ["rain", "kayak"]
    snippet = cut(text, " ".join(finder_terms), [0.1, 3.0])
    assert "- kayak sold" in snippet


def test_what_is_shown_stands_in_reading_order() -> None:
    """The better of two places comes second when it stands below, with the gap between them shown."""
    text = "\n".join(["- the kayak is blue", *FILLER[:30], "- the kayak is in the shed", *FILLER[30:]])
    snippet = cut(text, "kayak shed")
    first, second = snippet.index("- the kayak is blue"), snippet.index("- the kayak is in the shed")
    assert first < snippet.index(GAP) < second


def test_a_long_line_is_cut_between_sentences() -> None:
    """One endless line is shown by sentences."""
    sentences = [f"On day {number} it rained and nobody went out to the lake." for number in range(40)]
    sentences[25] = "Then the kayak was sold to a neighbour."
    snippet = cut(" ".join(sentences), "kayak")
    assert sentences[25] in snippet
    assert snippet[0].isupper()
    assert snippet.endswith(".")


def test_without_a_match_it_is_the_beginning() -> None:
    """A hit that only meaning found shows how the chunk starts."""
    assert cut("\n".join(FILLER), "zebra").startswith(FILLER[0])


@given(st.text(max_size=3000), st.text(max_size=40))
@example("", "0❶")
@pytest.mark.covers("SEED-8")
def test_it_never_gets_too_long_or_invents(text: str, query: str) -> None:
    """At most 700 characters, every line of them out of the chunk."""
    snippet = cut(text, query)
    assert len(snippet) <= SNIPPET_CHARS
    assert all(line.strip() in text or line == GAP for line in snippet.split("\n"))


def test_unbroken_text_is_still_cut() -> None:
    """Four thousand letters without a space fit."""
    assert 0 < len(cut("a" * 4000, "a")) <= SNIPPET_CHARS
