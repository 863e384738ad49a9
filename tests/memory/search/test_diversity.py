"""Maximal marginal relevance."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.memory.search.ranking import jaccard, mmr_order, mmr_score, word_set

NETWORK = (
    "Configured Omada router, set VLAN 10 for IoT devices",
    "Configured Omada router, moved IoT to VLAN 10",
    "Router: Omada ER605, AdGuard: 192.168.10.2, VLAN 10: IoT",
    "Set up AdGuard DNS on 192.168.10.2",
)
SCORES = (0.92, 0.89, 0.85, 0.78)


def test_the_published_example_drops_the_near_duplicate() -> None:
    """The first three are the best note, the reference and the other subject."""
    assert set(mmr_order(NETWORK, SCORES, 0.7)[:3]) == {0, 2, 3}


@pytest.mark.parametrize("lambda_", [1.0, 7.0])
def test_relevance_alone_keeps_the_order(lambda_: float) -> None:
    """λ of 1 or more is the plain order."""
    assert mmr_order(NETWORK, SCORES, lambda_) == [0, 1, 2, 3]


@pytest.mark.parametrize("lambda_", [0.0, -2.0])
def test_difference_alone_takes_the_most_different_second(lambda_: float) -> None:
    """λ of 0 or less starts with the best and goes on with the least alike."""
    assert mmr_order(NETWORK, SCORES, lambda_)[:2] == [0, 3]


@pytest.mark.parametrize(
    ("relevance", "likeness", "lambda_", "expected"),
    [(0.8, 0.5, 1, 0.8), (0.8, 0.5, 0, -0.5), (0.8, 0.6, 0.5, 0.1), (1, 0.5, 0.7, 0.55)],
)
@pytest.mark.covers("SRCH-11")
def test_the_score_is_the_published_one(
    relevance: float, likeness: float, lambda_: float, expected: float
) -> None:
    """`λ · relevance − (1 − λ) · likeness`."""
    assert mmr_score(relevance, likeness, lambda_) == pytest.approx(expected)


@pytest.mark.covers("SRCH-9", "SRCH-10")
def test_likeness_is_shared_words_over_all() -> None:
    """Jaccard, with its edges."""
    assert jaccard(frozenset("abc"), frozenset("bcd")) == 0.5
    assert jaccard(frozenset(), frozenset()) == 1.0
    assert jaccard(frozenset("a"), frozenset()) == 0.0
    assert word_set("Hello, hello_world WORLD!") == {"hello", "hello_world", "world"}
    assert word_set("—!") == frozenset()


@pytest.mark.covers("SRCH-9")
def test_unspaced_scripts_are_compared_too() -> None:
    """Two Chinese notes on different subjects are not alike."""
    assert jaccard(word_set("今天讨论方案"), word_set("明天去买苹果")) < 0.2
    assert jaccard(word_set("今天讨论方案"), word_set("昨天讨论方案")) > 0.4


@given(st.lists(st.tuples(st.text(max_size=12), st.floats(-1, 1)), max_size=8), st.floats(0, 1))
def test_nothing_is_lost_or_doubled(items: list[tuple[str, float]], lambda_: float) -> None:
    """The order is a permutation."""
    order = mmr_order([text for text, _ in items], [score for _, score in items], lambda_)
    assert sorted(order) == list(range(len(items)))
