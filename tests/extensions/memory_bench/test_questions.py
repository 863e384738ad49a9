"""Questions made of notes without a model, and how what was found is counted."""

from __future__ import annotations

import pytest

from nacre.extensions.memory_bench.command import Grep, SetInvalid, labeled_questions, made_questions
from nacre.extensions.memory_bench.scoring import (
    CLIP_CHARS,
    Found,
    Place,
    Question,
    answered,
    by_kind,
    numbers,
)

LOG = "memory/2026-01-20.md"
NOTES = {
    LOG: [
        "# 2026-01-20",
        "",
        "## A new mast",
        "The harbour master said that Halcyon needs a new mast.",
        "## Bread",
        "Invoice INV-7731 came from the mill.",
    ],
    "MEMORY.md": ["# Memory", "The master of the harbour is kind."],
}


def test_questions_are_made_of_headings_days_and_names() -> None:
    """Each has one place as its answer; a name that no note has has none; the same notes give the same."""
    made = made_questions(NOTES, most=80)

    assert made == made_questions(NOTES, most=80)
    assert [(each.text, each.answers) for each in made if each.kind in ("heading", "day")] == [
        ("A new mast", (Place(path=LOG, start_line=3, end_line=4),)),
        ("What was noted on 2026-01-20?", (Place(path=LOG, start_line=1, end_line=6),)),
    ]
    assert {each.text for each in made if each.kind == "name"} == {"Halcyon", "INV-7731"}
    assert {each.text for each in made if each.kind == "nothing"} == {"Noyclah", "1377-vni"}
    assert len(made_questions(NOTES, most=4)) == 4


def test_grep_finds_the_lines_with_most_words() -> None:
    """And nothing where no word is."""
    assert Grep(NOTES).ask("which mast does Halcyon need?", most=1)[0].text == NOTES[LOG][3]
    assert Grep(NOTES).ask("Noyclah", most=6) == []


def test_a_place_counts_by_its_lines_and_words_by_what_they_say() -> None:
    """The rank is that of the first that holds the answer; the numbers follow from it."""
    question = Question(text="Halcyon", kind="name", answers=(Place(path=LOG, start_line=4, end_line=4),))
    nothing = Question(text="Noyclah", kind="nothing", answers=())
    other = Found(text="", place=Place(path="MEMORY.md", start_line=1, end_line=2))
    there = Found(text="", place=Place(path=LOG, start_line=3, end_line=5))
    said = Found(text="- the harbour master said that HALCYON needs a new mast (2026)")

    answers = [
        answered(question, [there], NOTES, 1.0),
        answered(question, [other, said], NOTES, 2.0),
        answered(question, [other], NOTES, 3.0),
        answered(nothing, [], NOTES, 4.0),
        answered(nothing, [other], NOTES, 5.0),
    ]

    assert [answer.ranks for answer in answers] == [(1,), (2,), (0,), (), ()]
    found = numbers(answers)
    assert found["recallAt1"] == pytest.approx(1 / 3)
    assert found["recallAt6"] == pytest.approx(2 / 3)
    assert (found["abstention"], found["p50Ms"], found["p95Ms"]) == (0.5, 3.0, 5.0)
    assert by_kind(answers)["nothing"]["recallAt1"] is None


def test_a_whole_file_earns_nothing() -> None:
    """Of a long place only the first lines count."""
    notes = {LOG: ["x" * CLIP_CHARS, "Halcyon"]}
    question = Question(text="Halcyon", kind="name", answers=(Place(path=LOG, start_line=2, end_line=2),))
    whole = Found(text="", place=Place(path=LOG, start_line=1, end_line=2))

    assert answered(question, [whole], notes, 0.0).ranks == (0,)


@pytest.mark.parametrize("line", ["no json", "{}", '{"query": "x", "relevant": [{"path": "a"}]}', "[1]"])
def test_a_line_of_a_set_that_is_no_question_is_told(line: str) -> None:
    """With its number and what it needs."""
    with pytest.raises(SetInvalid, match="Line 2 is not a question"):
        list(labeled_questions(f'{{"query": "x", "category": "adversarial"}}\n{line}\n'))
