"""Two lists become one order and one score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, strategies as st

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.settings import HybridSettings
from nacre.memory.search.ranking import rank
from nacre.memory.search.scoring import (
    ABSENT_CEILING,
    EXACT_FLOOR,
    LEAST_SHARE,
    USUAL_MIN_SCORE,
    Candidates,
    QueryFacts,
    fuse,
    mix,
    seed_scores,
    seed_text_score,
)
from nacre.memory.text.days.query_dates import DayRange
from nacre.memory.text.evidence import Finder
from nacre.memory.text.lexical import match_query
from nacre.memory.vectors.cosine_scale import DEFAULT_SCALE

MIN_SCORE = USUAL_MIN_SCORE


@dataclass(frozen=True)
class Note:
    """A candidate: its text, and what each list that has it says of it."""

    number: int
    text: str
    words: float | None = None
    cosine: float | None = None
    day: int | None = None


def found(notes: Sequence[Note], question: str) -> Candidates:
    """These notes as both lists give them, with the evidence of all that words found."""
    by_words = sorted((note for note in notes if note.words is not None), key=lambda note: -(note.words or 0))
    query = match_query(question)
    finder = Finder(query) if query else None
    nearest = {note.number: note.cosine for note in notes if note.cosine is not None}
    return Candidates(
        words={note.number: note.words or 0.0 for note in by_words},
        nearest=nearest,
        cosines=nearest,
        related={at: DEFAULT_SCALE.relatedness(cosine) for at, cosine in nearest.items()},
        evidence={note.number: finder.look(note.text) for note in notes} if finder else {},
        places={
            note.number: ChunkPlace(
                source="memory",
                path=f"memory/{note.number}.md",
                date=date(2026, 2, note.day) if note.day else None,
                changed_at_ns=0,
            )
            for note in notes
        },
    )


def asked(question: str, **changes: object) -> QueryFacts:
    query = match_query(question)
    counts = [3] * len(Finder(query).terms) if query else None
    return replace(QueryFacts(term_counts=counts, chunk_count=1000), **changes)  # type: ignore[arg-type]


def fused(notes: Sequence[Note], question: str, **changes: object) -> dict[int, float]:
    return fuse(found(notes, question), asked(question, **changes))


def seeded(notes: Sequence[Note], question: str, **changes: object) -> dict[int, float]:
    return seed_scores(found(notes, question), asked(question, **changes))


@pytest.mark.covers("SRCH-3", "SRCH-4")
def test_seed_formula_has_its_golden_values() -> None:
    """`.9` from vectors alone is .63, a keyword alone .30, both add up."""
    both = [
        Note(1, "a", cosine=0.9),
        Note(2, "b", words=0.42),
        Note(3, "c", words=1.25, cosine=0.2),
    ]
    scores = seeded(both, "b")
    assert scores == {1: pytest.approx(0.63), 2: pytest.approx(0.30), 3: pytest.approx(0.44)}
    even = seeded(both, "b", vector_weight=0.5, text_weight=0.5)
    assert even[3] == pytest.approx(0.5 * 0.2 + 0.5 * 1)


@pytest.mark.parametrize(("bm25", "expected"), [(0, 1.0), (1, 0.5), (-100, 1.0), (float("nan"), 0.001)])
@pytest.mark.covers("SRCH-2", "Q-1")
def test_seed_text_score_has_its_golden_values(bm25: float, expected: float) -> None:
    """The keyword score is 1 for every rank that FTS5 really gives."""
    assert seed_text_score(bm25) == pytest.approx(expected)
    assert seed_text_score(10) < seed_text_score(1)


@pytest.mark.covers("Q-2")
def test_seed_gives_one_list_the_whole_weight() -> None:
    """With words alone, a keyword hit is not capped at .3."""
    assert seeded([Note(1, "b", words=0.42)], "b") == {1: 1.0}


@pytest.mark.covers("Q-1")
def test_agreement_of_both_lists_wins() -> None:
    """A chunk that words and vectors like is before one that a single list likes."""
    scores = fused(
        [
            Note(1, "the green kayak is in the shed", words=9.0, cosine=0.6),
            Note(2, "a kayak", words=8.8, cosine=0.1),
            Note(3, "boats are stored outside", cosine=0.62),
        ],
        "where is the green kayak?",
    )
    assert scores[1] == max(scores.values())


@pytest.mark.parametrize(
    ("vectors", "words", "first"), [(0.99, 0.01, 1), (0.01, 0.99, 2), (1, 0, 1), (0, 1, 2)]
)
def test_the_weights_of_the_settings_are_obeyed(vectors: float, words: float, first: int) -> None:
    """An owner who trusts one list gets its order, with hits of both."""
    scores = fused(
        [Note(1, "boats are outside", cosine=0.7), Note(2, "kayak shed", words=8.0, cosine=0.1)],
        "kayak shed",
        vector_weight=vectors,
        text_weight=words,
    )
    assert max(scores, key=scores.__getitem__) == first
    assert len(scores) == 2


def test_a_keyword_only_exact_hit_is_never_dropped() -> None:
    """A hash that no vector understands passes the usual least score."""
    scores = fused(
        [Note(1, "commit a828e60", words=0.5), Note(2, "unrelated", cosine=0.3)],
        "what was a828e60?",
    )
    assert scores[1] >= EXACT_FLOOR > MIN_SCORE
    assert scores[1] == max(scores.values())


def test_chance_matches_are_not_worth_showing() -> None:
    """One frequent word of a long question, and strangers by cosine, stay under the usual least score."""
    question = "which recipe for lasagna with béchamel did the restaurant in Bologna use last summer?"
    words = fused([Note(1, "we met in the summer", words=1.5)], question)
    both = fused([Note(1, "we met in the summer", words=1.5, cosine=0.12)], question)
    assert max(words.values()) < MIN_SCORE
    assert max(both.values()) < MIN_SCORE


def test_a_named_day_lifts_its_log() -> None:
    """Of two equal notes, the one of the day in question is first; the date alone is reason enough."""
    days = (DayRange(first=date(2026, 2, 9), last=date(2026, 2, 9)),)
    pair = [Note(1, "we met", words=2.0, day=3), Note(2, "we met", words=2.0, day=9)]
    scores = fused(pair, "we met on Feb 9", days=days)
    assert scores[2] > scores[1]
    alone = fused([Note(1, "bought apples", day=9, words=1.0)], "what happened yesterday?", days=days)
    assert alone[1] > MIN_SCORE


def test_nothing_found_is_nothing_scored() -> None:
    """No candidates, no scores."""
    assert fused([], "x") == {}


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(0, 40)), st.one_of(st.none(), st.floats(-1, 1))), max_size=6
    ),
    st.text(max_size=20),
)
def test_scores_are_between_zero_and_one(pairs: list[tuple[float | None, float | None]], text: str) -> None:
    """Whatever the lists say, a score is a share."""
    items = [Note(at, "some text", words=words, cosine=cos) for at, (words, cos) in enumerate(pairs, 1)]
    assert all(0 <= score <= 1 for score in fused(items, text).values())


def test_the_score_does_not_depend_on_how_many_are_asked_for() -> None:
    """More candidates below do not change the first one's score."""
    few = [Note(1, "the green kayak", words=9.0), Note(2, "green", words=3.0)]
    many = [*few, *(Note(at, "tea", words=1.0 / at) for at in range(30, 60))]
    question = "green kayak"
    assert fused(many, question)[1] == pytest.approx(fused(few, question)[1], abs=0.05)


def test_more_is_asked_of_a_chance_hit_among_many_chunks() -> None:
    """A few words of a long question say less in a large memory; a question that is covered stays sure."""
    strange = [Note(1, "the dinner was late", words=6.0)]
    question = "how many guests attended the dinner celebrating the opening of the market?"
    few, many = (fused(strange, question, chunk_count=count)[1] for count in (75, 5_000))
    assert many < few / 2
    covered = [Note(1, "the green kayak is in the shed", words=16.0)]
    assert fused(covered, "green kayak shed", chunk_count=5_000)[1] > 0.9


def test_more_is_asked_of_a_chance_hit_of_a_long_question() -> None:
    """One shared word says less when nine were asked for."""
    note = [Note(1, "the green kayak", words=9.0)]
    question = "green harbour lights lanterns ferries tickets passengers timetable weather"
    short, long = (fused(note, text, chunk_count=5_000)[1] for text in ("green harbour", question))
    assert long < short / 2


def test_what_is_near_and_stands_behind_makes_nothing_sure() -> None:
    """How near a note is counts for the first two in the order: words have outweighed the others."""
    notes = [
        Note(1, "the green kayak", words=9.0, cosine=0.3),
        Note(2, "a green kayak", words=8.5, cosine=0.25),
        Note(3, "boats", cosine=0.36),
    ]
    mixed = mix(found(notes, "green kayak"), asked("green kayak"))
    assert min(mixed.values, key=mixed.values.__getitem__) == 3
    assert mixed.related == pytest.approx(DEFAULT_SCALE.relatedness(0.3))


def test_more_is_asked_of_the_nearest_of_many() -> None:
    """Among a thousand notes some note is near to any question, so that the same nearness says less there."""
    notes = [Note(1, "the vessel", cosine=0.6), Note(2, "a cat", cosine=0.2)]
    question = "where is the kayak?"
    few, many = (fused(notes, question, chunk_count=count)[1] for count in (2, 1_000))
    assert many < 0.7 * few


def test_among_very_few_notes_a_stranger_stands_behind() -> None:
    """One of two notes is always the less near; what it scores depends on how near it is, not on its rank."""
    question = "where is the kayak?"
    near = fused([Note(1, "the vessel", cosine=0.6), Note(2, "a boat", cosine=0.5)], question, chunk_count=2)
    far = fused([Note(1, "the vessel", cosine=0.6), Note(2, "a cat", cosine=0.15)], question, chunk_count=2)
    assert near[2] > 0.5 * near[1]
    assert far[2] < LEAST_SHARE * far[1]


def test_a_hit_behind_the_best_scores_its_share() -> None:
    """A score says how much of the best one's value a hit has, and the search is as sure of all."""
    notes = [
        Note(1, "the green kayak is in the shed", words=9.0),
        Note(2, "the green kayak", words=8.0),
        Note(3, "a kayak", words=4.0),
    ]
    question = "where is the green kayak in the shed?"
    scores = fused(notes, question)
    values = mix(found(notes, question), asked(question)).values
    assert sorted(scores, key=scores.__getitem__, reverse=True) == [1, 2, 3]
    assert scores[1] > MIN_SCORE
    assert scores[2] / scores[1] == pytest.approx(values[2] / values[1])
    assert scores[3] / scores[1] == pytest.approx(values[3] / values[1])


def test_what_was_asked_for_by_name_and_is_absent_leaves_little() -> None:
    """However many of its words fit, such a hit stays under the usual least score."""
    notes = [Note(1, "paid invoice INV-2026-00417", words=14.0, cosine=0.8)]
    assert fused(notes, "invoice INV-2026-09999", is_absent=True)[1] <= ABSENT_CEILING < MIN_SCORE


def test_a_least_score_asks_each_hit_and_the_usual_one_the_best() -> None:
    """With a `min_score`, what scores less is not shown; without one, what stands behind a good one is."""
    notes = [
        Note(1, "the green kayak is in the shed", words=9.0),
        Note(2, "the green kayak", words=8.0),
        Note(3, "once", words=0.2),
    ]
    question = "where is the green kayak in the shed?"
    scores = fused(notes, question)

    def shown(min_score: float | None) -> list[int]:
        ranked = rank(
            found(notes, question),
            asked(question),
            HybridSettings(),
            count=10,
            min_score=min_score,
            now=datetime(2026, 2, 18, tzinfo=UTC),
        )
        return [item.chunk_id for item in ranked]

    assert LEAST_SHARE * scores[1] < scores[2] < 0.8 < scores[1]
    assert scores[3] < LEAST_SHARE * scores[1]
    assert shown(None) == [1, 2]
    assert shown(0.8) == [1]
    assert shown(scores[2]) == [1, 2]
    assert shown(0) == [1, 2, 3]
    assert shown(1) == []


def order(
    question: str, texts: Mapping[int, str], counts: list[int], **lists: Mapping[int, float]
) -> list[int]:
    """The candidates best first; `counts` says in how many of 1,000 chunks each word of the question is."""
    return sorted(values := mixed(question, texts, counts, **lists), key=values.__getitem__, reverse=True)


def mixed(
    question: str, texts: Mapping[int, str], counts: list[int], **lists: Mapping[int, float]
) -> Mapping[int, float]:
    return mix(candidates(question, texts, **lists), QueryFacts(term_counts=counts, chunk_count=1_000)).values


def candidates(question: str, texts: Mapping[int, str], **lists: Mapping[int, float]) -> Candidates:
    query = match_query(question)
    assert query is not None
    finder = Finder(query)
    nearest = lists.get("nearest", {})
    return Candidates(
        words=lists.get("words", {}),
        nearest=nearest,
        cosines=nearest,
        related={at: DEFAULT_SCALE.relatedness(cosine) for at, cosine in nearest.items()},
        evidence={at: finder.look(text) for at, text in texts.items()},
    )


def test_a_rare_word_counts_wherever_the_chunk_comes_from() -> None:
    """Lines are read of chunks that only vectors found, and rarity is that of the whole index."""
    texts = {1: "we met at the lake", 2: "Zanzibar was the plan", 3: "nothing of it"}
    nearest = {3: 0.42, 1: 0.41, 2: 0.40}
    assert order("lake Zanzibar", texts, [600, 1], nearest=nearest)[0] == 2
    assert order("lake Zanzibar", texts, [1, 600], nearest=nearest)[0] == 1


def test_cosines_below_those_of_strangers_have_an_order() -> None:
    """Notes in another language may all be no more related than strangers; the nearest one still is first."""
    found = Candidates(words={}, nearest={2: 0.79, 1: 0.77}, cosines={1: 0.77, 2: 0.79}, evidence={})
    asked = QueryFacts(term_counts=None, chunk_count=1_000)
    assert mix(found, asked).values == {2: 1.0, 1: 0.0}


def test_one_candidate_alone_is_the_nearest() -> None:
    """Without another one to compare it with, its cosine is the best, whatever it is."""
    found = Candidates(words={}, nearest={1: 0.05}, cosines={1: 0.05}, evidence={})
    assert mix(found, QueryFacts(term_counts=None, chunk_count=1_000)).values == {1: 1.0}


def test_what_stands_as_code_outweighs_the_same_as_a_word() -> None:
    """A line with `--raw` itself passes one about the raw."""
    texts = {1: "the raw option of a query", 2: "--raw option for a query"}
    words = {1: 5.6, 2: 5.0}
    assert order("raw option query", texts, [20, 20, 20], words=words)[0] == 1
    assert order("--raw option query", texts, [20, 20, 20], words=words)[0] == 2
