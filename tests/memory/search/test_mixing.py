"""Two lists become one order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nacre.memory.search.mixing import Asked, Candidates, mix, with_sentences
from nacre.memory.search.same_words import only_answers
from nacre.memory.text.evidence import Finder
from nacre.memory.text.lexical import match_query
from nacre.memory.vectors.cosine_scale import CosineScale


def order(
    question: str, texts: Mapping[int, str], counts: list[int], **lists: Mapping[int, float]
) -> list[int]:
    """The candidates best first; `counts` says in how many of 1,000 chunks each word of the question is."""
    return sorted(values := mixed(question, texts, counts, **lists), key=values.__getitem__, reverse=True)


def mixed(
    question: str, texts: Mapping[int, str], counts: list[int], **lists: Mapping[int, float]
) -> Mapping[int, float]:
    return mix(candidates(question, texts, **lists), Asked(term_counts=counts, chunk_count=1_000)).values


def candidates(question: str, texts: Mapping[int, str], **lists: Mapping[int, float]) -> Candidates:
    query = match_query(question)
    assert query is not None
    finder = Finder(query)
    nearest = lists.get("nearest", {})
    return Candidates(
        words=lists.get("words", {}),
        nearest=nearest,
        cosines=nearest,
        evidence={at: finder.look(text) for at, text in texts.items()},
    )


def test_words_that_stand_together_outweigh_the_same_words_apart() -> None:
    """Of two chunks that BM25 finds alike, the one with the question's words side by side is first."""
    texts = {1: "The kayak is old. Paint it green!", 2: "An old thing, the green kayak."}
    assert order("green kayak", texts, [50, 50], words={1: 5.0, 2: 5.0}) == [2, 1]


def test_a_rare_word_counts_wherever_the_chunk_comes_from() -> None:
    """Lines are read of chunks that only vectors found, and rarity is that of the whole index."""
    texts = {1: "we met at the lake", 2: "Zanzibar was the plan", 3: "nothing of it"}
    nearest = {3: 0.42, 1: 0.41, 2: 0.40}
    assert order("lake Zanzibar", texts, [600, 1], nearest=nearest)[0] == 2
    assert order("lake Zanzibar", texts, [1, 600], nearest=nearest)[0] == 1


def test_sentences_give_the_vectors_more_weight() -> None:
    """With them a near chunk passes one that has words; without, words stay before it."""
    texts = {1: "who destroyed it", 2: "our puppy chewed through the charger"}
    found = candidates("what did the dog destroy?", texts, words={1: 6.0}, nearest={2: 0.6, 1: 0.2})
    asked = Asked(term_counts=[100, 100], chunk_count=1_000)
    before, after = (mix(replace(found, has_sentences=has), asked).values for has in (False, True))
    assert after[2] - after[1] > before[2] - before[1] + 0.2


def test_cosines_below_those_of_strangers_have_an_order() -> None:
    """Notes in another language all lie below `unrelated`; the nearest one still is first."""
    found = Candidates(words={}, nearest={2: 0.79, 1: 0.77}, cosines={1: 0.77, 2: 0.79}, evidence={})
    asked = Asked(term_counts=None, chunk_count=1_000, scale=CosineScale(unrelated=0.8, related=0.9))
    assert mix(found, asked).values == {2: 1.0, 1: 0.0}


def test_one_candidate_alone_is_the_nearest() -> None:
    """Without another one to compare it with, its cosine is the best, whatever it is."""
    found = Candidates(words={}, nearest={1: 0.05}, cosines={1: 0.05}, evidence={})
    assert mix(found, Asked(term_counts=None, chunk_count=1_000)).values == {1: 1.0}


def test_what_the_assistant_says_alone_comes_behind_what_the_person_said() -> None:
    """Of two chunks alike, the one in which the person speaks is first."""
    texts = {1: "Assistant: The green kayak.", 2: "User: The green kayak."}
    found = candidates("green kayak", texts, words={1: 5.0, 2: 5.0})
    answering = frozenset(at for at, text in texts.items() if only_answers(text))
    asked = Asked(term_counts=[50, 50], chunk_count=1_000)
    values = mix(replace(found, answering=answering), asked).values
    assert values[2] > values[1]


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("> Assistant: It is 4711.\n> Assistant: Noted.", True),
        ("User: What is it?\nAssistant: It is 4711.", False),
        ("Somebody: It is 4711.", False),
        ("The Assistant: a novel", False),
        ("- the gate code is 4711", False),
    ],
)
def test_notes_and_questions_are_no_answers_alone(text: str, answers: bool) -> None:
    """Only a conversation without a word of the person counts as the assistant's."""
    assert only_answers(text) is answers


def test_a_cosine_is_the_mean_of_piece_and_sentence() -> None:
    """Chunks without sentences keep that of their piece, and the best of both stay in the pool."""
    nearest, cosines = with_sentences(
        {1: 0.6, 2: 0.5, 3: 0.4}, {1: 0.6, 2: 0.5, 3: 0.4, 4: 0.1}, {2: 0.9, 3: 0.2, 4: 0.5}, limit=2
    )
    assert list(nearest) == [2, 1]
    assert cosines == pytest.approx({1: 0.6, 2: 0.7, 3: 0.3, 4: 0.3})


def test_the_notes_about_who_is_asked_for_are_before_those_about_others() -> None:
    """A name counts for more than another word: the same in another person's mouth is outweighed."""
    texts = {1: "- John: Yoga is what I practise.", 2: "- Maria: I began with yoga."}
    found = candidates("the yoga that Maria practises", texts, words={1: 6.0, 2: 5.4})
    asked = Asked(term_counts=[30, 30, 30], chunk_count=1_000)
    assert mix(found, asked).values[1] > mix(found, asked).values[2]
    named = mix(found, replace(asked, proper_names=frozenset({1}))).values
    assert named[2] > named[1]


def test_what_stands_as_code_outweighs_the_same_as_a_word() -> None:
    """A line with `--raw` itself passes one about the raw."""
    texts = {1: "the raw option of a query", 2: "--raw option for a query"}
    words = {1: 5.6, 2: 5.0}
    assert order("raw option query", texts, [20, 20, 20], words=words)[0] == 1
    assert order("--raw option query", texts, [20, 20, 20], words=words)[0] == 2
