"""Two lists become one score."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.chunker import content_hash
from nacre.memory.fusion import EXACT_FLOOR, Asked, Candidate, fuse, seed_scores, seed_text_score
from nacre.memory.lexical import match_query
from nacre.memory.query_dates import DayRange
from nacre.memory.records import Chunk

MIN_SCORE = 0.35


def candidate(
    number: int, text: str, *, words: float | None = None, cosine: float | None = None, day: int | None = None
) -> Candidate:
    chunk = Chunk(
        source="memory",
        path=f"memory/{number}.md",
        start_line=1,
        end_line=1,
        text=text,
        heading_path=(),
        date=date(2026, 2, day) if day else None,
        content_hash=content_hash(text),
        ordinal=0,
    )
    return Candidate(
        chunk_id=number,
        chunk=chunk,
        lexical_rank=number if words is not None else None,
        lexical_score=words,
        vector_rank=number if cosine is not None else None,
        cosine=cosine,
    )


def asked(text: str, **changes: object) -> Asked:
    return replace(Asked(query=match_query(text), chunk_count=1000), **changes)  # type: ignore[arg-type]


def test_seed_formula_has_its_golden_values() -> None:
    """`.9` from vectors alone is .63, a keyword alone .30, both add up."""
    both = [
        candidate(1, "a", cosine=0.9),
        candidate(2, "b", words=0.42),
        candidate(3, "c", words=1.25, cosine=0.2),
    ]
    scores = seed_scores(both, asked("b"))
    assert scores == {1: pytest.approx(0.63), 2: pytest.approx(0.30), 3: pytest.approx(0.44)}
    even = seed_scores(both, asked("b", vector_weight=0.5, text_weight=0.5))
    assert even[3] == pytest.approx(0.5 * 0.2 + 0.5 * 1)


@pytest.mark.parametrize(("bm25", "expected"), [(0, 1.0), (1, 0.5), (-100, 1.0), (float("nan"), 0.001)])
def test_seed_text_score_has_its_golden_values(bm25: float, expected: float) -> None:
    """The keyword score is 1 for every rank that FTS5 really gives."""
    assert seed_text_score(bm25) == pytest.approx(expected)
    assert seed_text_score(10) < seed_text_score(1)


def test_seed_gives_one_list_the_whole_weight() -> None:
    """With words alone, a keyword hit is not capped at .3."""
    assert seed_scores([candidate(1, "b", words=0.42)], asked("b")) == {1: 1.0}


def test_agreement_of_both_lists_wins() -> None:
    """A chunk that words and vectors like is before one that a single list likes."""
    scores = fuse(
        [
            candidate(1, "the green kayak is in the shed", words=9.0, cosine=0.6),
            candidate(2, "a kayak", words=8.8, cosine=0.1),
            candidate(3, "boats are stored outside", cosine=0.62),
        ],
        asked("where is the green kayak?"),
    )
    assert scores[1] == max(scores.values())


@pytest.mark.parametrize(
    ("vectors", "words", "first"), [(0.99, 0.01, 1), (0.01, 0.99, 2), (1, 0, 1), (0, 1, 2)]
)
def test_the_weights_of_the_settings_are_obeyed(vectors: float, words: float, first: int) -> None:
    """An owner who trusts one list gets its order, with hits of both."""
    scores = fuse(
        [candidate(1, "boats are outside", cosine=0.7), candidate(2, "kayak shed", words=8.0, cosine=0.1)],
        asked("kayak shed", vector_weight=vectors, text_weight=words),
    )
    assert max(scores, key=scores.__getitem__) == first
    assert len(scores) == 2


def test_a_keyword_only_exact_hit_is_never_dropped() -> None:
    """A hash that no vector understands passes the usual least score."""
    scores = fuse(
        [candidate(1, "commit a828e60", words=0.5), candidate(2, "unrelated", cosine=0.3)],
        asked("what was a828e60?"),
    )
    assert scores[1] >= EXACT_FLOOR > MIN_SCORE
    assert scores[1] == max(scores.values())


def test_chance_matches_are_not_worth_showing() -> None:
    """One frequent word of a long question, and strangers by cosine, stay under the usual least score."""
    question = asked("which recipe for lasagna with béchamel did the restaurant in Bologna use last summer?")
    words = fuse([candidate(1, "we met in the summer", words=1.5)], question)
    both = fuse([candidate(1, "we met in the summer", words=1.5, cosine=0.12)], question)
    assert max(words.values()) < MIN_SCORE
    assert max(both.values()) < MIN_SCORE


def test_a_zero_query_vector_leaves_the_words() -> None:
    """An embedder that says nothing does not push keyword hits out."""
    scores = fuse([candidate(1, "the green kayak", words=9.0, cosine=0.0)], asked("green kayak"))
    assert scores[1] > MIN_SCORE


def test_a_named_day_lifts_its_log() -> None:
    """Of two equal notes, the one of the day in question is first; the date alone is reason enough."""
    days = (DayRange(first=date(2026, 2, 9), last=date(2026, 2, 9)),)
    pair = [candidate(1, "we met", words=2.0, day=3), candidate(2, "we met", words=2.0, day=9)]
    scores = fuse(pair, asked("we met on Feb 9", days=days))
    assert scores[2] > scores[1]
    alone = fuse(
        [candidate(1, "bought apples", day=9, words=1.0)], asked("what happened yesterday?", days=days)
    )
    assert alone[1] > MIN_SCORE


def test_a_query_that_the_model_cannot_read_is_left_to_words() -> None:
    """With an unreadable script, cosines move the order less."""
    pair = [candidate(1, "讨论方案", words=9.0, cosine=0.3), candidate(2, "别的", words=5.0, cosine=0.9)]
    unread = fuse(pair, asked("讨论方案", legible=0.0))
    assert unread[1] > unread[2]


def test_nothing_found_is_nothing_scored() -> None:
    """No candidates, no scores."""
    assert fuse([], asked("x")) == {}


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(0, 40)), st.one_of(st.none(), st.floats(-1, 1))), max_size=6
    ),
    st.text(max_size=20),
)
def test_scores_are_between_zero_and_one(pairs: list[tuple[float | None, float | None]], text: str) -> None:
    """Whatever the lists say, a score is a share."""
    items = [candidate(at, "some text", words=words, cosine=cos) for at, (words, cos) in enumerate(pairs, 1)]
    assert all(0 <= score <= 1 for score in fuse(items, asked(text)).values())


def test_the_score_does_not_depend_on_how_many_are_asked_for() -> None:
    """More candidates below do not change the first one's score."""
    few = [candidate(1, "the green kayak", words=9.0), candidate(2, "green", words=3.0)]
    many = [*few, *(candidate(at, "tea", words=1.0 / at) for at in range(30, 60))]
    question = asked("green kayak")
    assert fuse(many, question)[1] == pytest.approx(fuse(few, question)[1], abs=0.05)
