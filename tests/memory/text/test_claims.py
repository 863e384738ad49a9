"""Which later line replaces an earlier one, counted in pairs of lines."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from nacre.memory.text.claims import Claim, addresses, has_other_value

PAIRS = tomllib.loads(Path(__file__).with_name("pairs_of_claims.toml").read_text(encoding="utf-8"))
_LEAST_RECOGNIZED = 69


def _replaces(older: str, newer: str) -> bool:
    return any(new.replaces(old) for new in addresses(f"- {newer}") for old in addresses(f"- {older}"))


def test_what_else_is_true_of_a_thing_replaces_nothing() -> None:
    """A red car may stand in the garage: at most one of a hundred such pairs is taken for a correction."""
    wrong = [pair for pair in PAIRS["different"] if _replaces(*pair)]

    assert len(wrong) <= len(PAIRS["different"]) / 100, wrong


@pytest.mark.parametrize("unit", [" ", "(2026-01-01) "])
def test_a_long_line_holds_nobody_up(unit: str) -> None:
    """A message may hold a line of a million characters, and "remember" writes it down."""
    started = time.process_time()
    assert not addresses(f"The boat is {unit * (1_000_000 // len(unit))} red")
    assert time.process_time() - started < 2


def test_many_negations_hold_nobody_up() -> None:
    """Each word looks at its neighbors alone."""
    started = time.process_time()
    assert Claim("not red " * 50_000).stems["red"]
    assert time.process_time() - started < 4


def test_corrections_are_recognized() -> None:
    """Two are missed: a row of a table, and a car that was red and is blue, without "now"."""
    missed = [pair for pair in PAIRS["corrections"] if not _replaces(*pair)]

    assert len(PAIRS["corrections"]) - len(missed) >= _LEAST_RECOGNIZED, missed


def test_pairs_that_did_not_shape_the_rule() -> None:
    """Here more is wrong: a wife who is Carla and Spanish, an exam in Bonn and in March."""
    unseen = PAIRS["unseen"]

    assert sum(_replaces(*pair) for pair in unseen["different"]) <= 4
    assert sum(_replaces(*pair) for pair in unseen["corrections"]) >= len(unseen["corrections"]) - 2


def test_the_topic_of_a_verb_with_an_object_has_no_value() -> None:
    """Who keeps a dog may keep a goldfish; が, に and other particles stay without a rule."""
    assert Claim("拓也は犬を飼っている。").values == {}
    assert Claim("金庫の番号は四七一一。").values == {("金庫の番号",): frozenset({"四七一一"})}


def test_the_head_of_a_sessions_note_claims_nothing() -> None:
    """Otherwise the id of each session would replace that of the one before."""
    assert addresses("- **Session ID**: 0198c2f0") == ()
    assert addresses("- **Ended**: 2026-03-14 09:00:00 UTC (daily)") == ()


@pytest.mark.parametrize(
    ("question", "is_past"),
    [
        ("When did Ada move?", True),
        ("Was Ada in Kiel?", True),
        ("Wann ist der Chor?", False),
        ("أين كان يعمل زياد؟", True),
        ("What does Theo read before sleeping?", False),
        ("Where is the dog when she travels?", False),
        ("Was liest Uwe vor dem Schlafen?", False),
        ("¿Qué lee Teo antes de dormir?", False),
    ],
)
def test_words_of_time_inside_of_a_question_do_not_ask_about_the_past(question: str, is_past: bool) -> None:
    """German "was" asks for a thing."""
    assert Claim(question).asks_about_past is is_past


def test_none_is_the_value_also_with_a_reason_behind_it() -> None:
    """So an older line that has one is superseded."""
    withdrawn = Claim("- Ada's boat: none; 'Petrel' was a mistake, corrected on 2027-09-29")
    assert has_other_value(withdrawn, Claim("- Ada's boat: Kittiwake, since 2026-04-15"))
    assert not has_other_value(withdrawn, Claim("- Ada's boat: none"))


def test_a_name_without_an_alphabet_is_one_word_with_an_s_behind_it() -> None:
    """Otherwise any two lines about 王芳's things would seem to share three words."""
    assert [*Claim("- 王芳's boat: Zephyr").stems] == ["王芳", "boat", "zephyr"]
