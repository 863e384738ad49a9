"""How evidence moves an opinion: the published formula and what follows from it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.curation.reflection import (
    MAX_CONFIDENCE,
    MIN_CONFIDENCE,
    STEP,
    initial_confidence,
    strength,
    updated_confidence,
)

CONFIDENCES = st.floats(0, 1)
STRENGTHS = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


def test_the_documented_steps() -> None:
    """A certain line moves .50 to .60 and .90 to .93; one against it moves as far the other way."""
    assert round(updated_confidence(0.5, [1]), 2) == 0.60
    assert round(updated_confidence(0.9, [1]), 2) == 0.93
    assert round(updated_confidence(0.6, [1]), 2) == 0.69
    assert updated_confidence(updated_confidence(0.6, [1]), [-1]) == pytest.approx(0.6)
    assert math.log(updated_confidence(0.5, [0.5]) / (1 - updated_confidence(0.5, [0.5]))) == pytest.approx(
        STEP / 2
    )


@given(CONFIDENCES, STRENGTHS)
def test_it_stays_between_nothing_and_certainty(confidence: float, strengths: list[float]) -> None:
    """From 0 to 1 whatever comes; and evidence by itself leads to neither."""
    assert 0 <= updated_confidence(confidence, strengths) <= 1
    assert MIN_CONFIDENCE <= initial_confidence(strengths) <= MAX_CONFIDENCE


@given(CONFIDENCES, STRENGTHS, st.randoms())
def test_the_order_does_not_matter(confidence: float, strengths: list[float], random: object) -> None:
    """The very same number for each order of the lines."""
    shuffled = sorted(strengths, key=lambda _: random.random())  # type: ignore[attr-defined]  # hypothesis's own

    assert updated_confidence(confidence, strengths) == updated_confidence(confidence, shuffled)
    assert initial_confidence(strengths) == initial_confidence(shuffled)


@given(st.floats(MIN_CONFIDENCE, MAX_CONFIDENCE), st.floats(0.01, 1))
def test_support_raises_and_contradiction_lowers(confidence: float, sure: float) -> None:
    """Never the wrong way, and strictly between the bounds."""
    raised, lowered = updated_confidence(confidence, [sure]), updated_confidence(confidence, [-sure])

    assert raised > confidence or raised == MAX_CONFIDENCE
    assert lowered < confidence or lowered == MIN_CONFIDENCE


@pytest.mark.parametrize("certain", [0.0, 1.0])
def test_what_a_hand_made_certain_stays(certain: float) -> None:
    """Only the owner writes 0 or 1, and no evidence moves it."""
    assert updated_confidence(certain, [-1, -1, 1]) == certain


@given(CONFIDENCES)
def test_a_denial_counts_as_much_as_a_repetition(confidence: float) -> None:
    """For and against are mirror images; one half says nothing."""
    assert strength(confidence, is_denied=True) == -strength(confidence, is_denied=False)
    assert strength(0.5, is_denied=False) == 0
