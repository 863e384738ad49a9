"""The texts whose vectors stand for a chunk."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.memory.vectors.pieces import MOST_CHARS, sentences_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The kayak is in the green shed.", ("The kayak is in the green shed.",)),
        (
            "- Ana: We moved to a lake in May. The puppy ate my charger!\n- Ben: That is a great pity.",
            (
                "Ana: We moved to a lake in May.",
                "The puppy ate my charger!",
                "Ben: That is a great pity.",
            ),
        ),
        ("Yes! We will take the night train to Porto.", ("Yes! We will take the night train to Porto.",)),
        ("We will take the night train to Porto. Good.", ("We will take the night train to Porto. Good.",)),
        ("> 1. The key lies under the third pot.", ("The key lies under the third pot.",)),
        (
            "我们把钥匙放在门口的花盆下面。小狗咬坏了充电器。",
            ("我们把钥匙放在门口的花盆下面。", "小狗咬坏了充电器。"),
        ),
        ("## Garden\n\nThe roses were cut back in March.", ("Garden The roses were cut back in March.",)),
        ("  \n\n", ()),
    ],
)
def test_lines_are_cut_at_their_sentences(text: str, expected: tuple[str, ...]) -> None:
    """Marks of lists go, who speaks stays, and what is too short goes with its neighbour."""
    assert sentences_of(text) == expected


@given(st.text(alphabet="ab .!?\n-#>。字", max_size=2_000))
def test_no_letter_is_lost_and_no_sentence_is_endless(text: str) -> None:
    """All that was written is in some sentence, and each is short enough for one subject."""
    sentences = sentences_of(text)
    assert sum(sentence.count("a") + sentence.count("字") for sentence in sentences) == text.count(
        "a"
    ) + text.count("字")
    assert all(len(sentence) <= MOST_CHARS + 2 * 25 for sentence in sentences)
