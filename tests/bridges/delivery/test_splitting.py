"""Long replies in parts: nothing is lost, no part is too long, each code block is whole in itself."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.bridges.contracts.bridge import LEAST_LENGTH, Capabilities
from nacre.bridges.delivery.outgoing import open_fence, split_reply

LINES = st.one_of(
    st.text(max_size=120),
    st.text(alphabet="ab ", max_size=300),
    st.sampled_from(["```", "```python", "~~~", "~~~~ text", "````", "  ```", "- item", "", "", "    code"]),
    st.sampled_from(["👩\u200d👩\u200d👧 e\u0301 世界 " * 20, "x" * 500, "`` ` ``` inline ```"]),
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)


@given(TEXTS, st.integers(LEAST_LENGTH, 400), st.sampled_from(["characters", "bytes"]))
def test_nothing_is_lost_and_no_part_is_too_long(text: str, most: int, unit: str) -> None:
    """Every letter is in the parts, in its order; each part fits, and closes the code blocks it opens."""
    channel = Capabilities(greatest_length=most, length_unit=unit)  # type: ignore[arg-type]

    parts = split_reply(text, most=most, length=channel.length)

    assert all(channel.length(part) <= most for part in parts)
    assert all(part.strip() for part in parts)
    assert all(open_fence(part) is None for part in parts)
    assert _holds(text, parts)


def _holds(text: str, parts: tuple[str, ...]) -> bool:
    """Whether the parts hold the text's letters in order, with nothing between but drawn fences."""
    left = iter("".join("\n".join(parts).split()))
    return all(letter in left for letter in "".join(text.split()))


@given(st.text(alphabet="abc \n", max_size=2_000), st.integers(LEAST_LENGTH, 300))
def test_without_code_the_words_are_exactly_the_same(text: str, most: int) -> None:
    """Only white space at the cuts may differ."""
    assert "".join("".join(split_reply(text, most=most)).split()) == "".join(text.split())


def test_a_short_reply_is_one_part() -> None:
    """It is sent as it is, and nothing is sent of nothing."""
    assert split_reply("Hello.\n\nBye.", most=64) == ("Hello.\n\nBye.",)
    assert split_reply(" \n", most=64) == ()


def test_paragraphs_stay_whole() -> None:
    """The cut is where a paragraph ends, and no part begins or ends with a blank line."""
    first, second = "one " * 12 + "end.", "two " * 12 + "end."

    assert split_reply(f"{first}\n\n{second}", most=64) == (first, second)


def test_a_code_block_that_is_cut_is_opened_again() -> None:
    """Each part shows its code as code, in its language."""
    code = "\n".join(f"print({number})" for number in range(12))

    parts = split_reply(f"Look:\n\n```python\n{code}\n```\nDone.", most=80)

    assert len(parts) > 1
    assert all(part.count("```") == 2 for part in parts if "print" in part)
    assert all(part.startswith("```python\n") for part in parts[1:] if "print" in part)
    assert [line for part in parts for line in part.split("\n") if "print" in line] == code.split("\n")


def test_marks_inside_a_longer_fence_are_code() -> None:
    """Three marks do not close a block that four opened."""
    assert open_fence("````\n```\ncode") is not None
    assert open_fence("````\n```\n`````\n") is None
    assert open_fence("a ``` b") is None


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_letters_are_not_torn(unit: str) -> None:
    """A letter keeps its accent and a family stays together, where there is no blank to cut at."""
    channel = Capabilities(greatest_length=70, length_unit=unit)  # type: ignore[arg-type]
    family = "👩\u200d👩\u200d👧"

    accents = split_reply("e\u0301" * 100, most=70, length=channel.length)
    families = split_reply(family * 30, most=70, length=channel.length)

    assert "".join(accents) == "e\u0301" * 100
    assert all(not part.startswith("\u0301") for part in accents)
    assert all(part.replace(family, "") == "" for part in families)
