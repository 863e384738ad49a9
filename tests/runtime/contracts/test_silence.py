"""The silent token never shows, in whole or in part, and real text never disappears."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from nacre.runtime.contracts.silence import SilenceFilter, is_silent, without_token


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        " no_reply\n",
        "**NO_REPLY**",
        "`NO_REPLY`.",
        "<think>nothing new</think>NO_REPLY",
        "<think mode='short'>nothing new</think>\n\nNO_REPLY",
        "<thinking>nothing new</thinking> no_reply",
        '{"NO_REPLY"}',
        "NO_REPLY\nNO_REPLY",
        "NO_REPLY\n\n---",
        "```\nNO_REPLY\n```",
        "```text\nNO_REPLY\n```\n",
        "NO_REPLY。",
        "<NO_REPLY>",
        "\u200bNO_REPLY",
        "「NO_REPLY」",
        "NO_REPLY\ufeff",
        "ＮＯ＿ＲＥＰＬＹ",
        "「ｎｏ＿ｒｅｐｌｙ」",
        "NO REPLY",
        "**NO-REPLY**.",
        "NO\u2011REPLY",
        "NOREPLY",
        "NO\\_REPLY",
        "NO\u200b_\u2060REPLY",
    ],
)
@pytest.mark.covers("A13-1", "A13-2", "ATT-14")
def test_an_answer_that_is_only_the_token_is_silence(text: str) -> None:
    """White space, case, markup and reasoning around the token change nothing."""
    assert is_silent(text)
    assert without_token(text) == ""


@pytest.mark.parametrize(
    ("text", "delivered"),
    [
        ("Noted.\n\nNO_REPLY", "Noted."),
        ("Noted. NO_REPLY", "Noted."),
        ("Noted. **NO_REPLY**\n", "Noted."),
        ("NO_REPLY\n\nHello", "Hello"),
        ("NO_REPLYHello", "Hello"),
        ("NO_REPLYПривет", "Привет"),
        ("NO_REPLY你好", "你好"),
        ("Done 👍 NO_REPLY", "Done 👍"),
        ("Noted.\nNO_REPLY\nNO_REPLY", "Noted."),
        ("记下了。NO_REPLY", "记下了。"),
        ("记下了！NO_REPLY", "记下了！"),
        ("记下了吗？NO_REPLY", "记下了吗？"),
        ("记下了。NO_REPLY。", "记下了。"),
        ("Noted.\n```\nNO_REPLY\n```", "Noted."),
        ("Noted.\n\u200b<NO_REPLY>", "Noted."),
    ],
)
@pytest.mark.covers("A13-3", "A13-4")
def test_a_token_beside_real_text_is_cut_off(text: str, delivered: str) -> None:
    """What a person should read is delivered without it."""
    assert without_token(text) == delivered
    assert not is_silent(text)


@pytest.mark.parametrize(
    "text",
    [
        "Answer NO_REPLY when nothing is left to say.",
        "NO_REPLYING is a word",
        "No reply.",
        "no-reply",
        "NO REPLY came from Anna.",
        "There was NO REPLY",
        "NO-REPLY@example.org wrote.",
        "NO_REPLY: say it when nothing is left.",
        "the-NO_REPLY",
        "Thinking about NO_REPLY is no reasoning.",
        "<think>nothing new</think>Hello",
        "NO, I will reply.",
        "NOBODY came",
        "```python\nprint(1)\n```",
        "NO_REPLY 👍",
        "",
    ],
)
@pytest.mark.covers("A13-1", "A13-2", "A13-3", "A13-4")
def test_a_mention_inside_a_sentence_stays(text: str) -> None:
    """Only a token of its own is a token."""
    assert without_token(text) == text


def streamed(pieces: list[str]) -> tuple[list[str], str]:
    silence = SilenceFilter()
    shown = [silence.feed(piece) for piece in pieces]
    last = silence.finish()
    return shown, "".join(shown) + last


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "NO REPLY",
        "**NO-REPLY**",
        "ＮＯ＿ＲＥＰＬＹ",
        "NO\\_REPLY",
        "NO_REPLY\n",
        " **NO_REPLY**",
        "<think>hm</think>\nNO_REPLY",
        "NO_REPLY\n---\nNO_REPLY",
    ],
)
@pytest.mark.covers("A13-5", "A17-4", "ATT-14")
def test_no_part_of_a_silent_answer_is_streamed(text: str) -> None:
    """Not even its first letter, however it is cut."""
    shown, whole = streamed(list(text))
    assert whole.strip() == ""
    assert not any(piece.strip() for piece in shown)


@pytest.mark.covers("A13-5")
def test_text_flows_while_it_cannot_be_the_token() -> None:
    """An ordinary answer is not held back until its end."""
    silence = SilenceFilter()
    assert silence.feed("Hello, Nora") == "Hello, Nora"
    assert silence.feed(". Not much") == ". Not much"


@pytest.mark.parametrize(
    ("text", "delivered"),
    [
        ("NO_REPLY\n\nHello, Nora.", "Hello, Nora."),
        ("NO_REPLYHello", "Hello"),
        ("Noted.\n\nNO_REPLY", "Noted."),
        ("Noted. NO_REPLY\nNO_REPLY\n", "Noted."),
    ],
)
def test_a_token_beside_real_text_is_not_streamed(text: str, delivered: str) -> None:
    """A person who watches the answer grow sees what is delivered in the end, and no token."""
    for cut in range(len(text)):
        assert streamed([text[:cut], text[cut:]])[1] == delivered
    assert streamed(list(text))[1] == delivered


@pytest.mark.covers("W10-1")
def test_a_real_answer_that_ends_with_the_token_is_delivered() -> None:
    """W10-1: only the token goes; the answer in front of it is not dropped with it."""
    assert not is_silent("The hive needs sugar. NO_REPLY")
    assert without_token("The hive needs sugar. NO_REPLY") == "The hive needs sugar."
    assert streamed(["The hive needs sugar. ", "NO_", "REPLY"])[1].strip() == "The hive needs sugar."


@pytest.mark.covers("W10-2", "ASK-25")
def test_the_beginning_of_the_token_never_leaks() -> None:
    """W10-2: a stream that breaks off, or pauses, behind `NO` has shown nothing."""
    for beginning in ("N", "NO", "NO_", "NO_REP"):
        silence = SilenceFilter()
        assert "".join(map(silence.feed, beginning)) == ""
    silence = SilenceFilter()
    assert silence.feed("NO") + silence.feed(" way!") == "NO way!"


def test_pages_of_white_space_are_no_work() -> None:
    """A model that loops on line feeds does not stop the conversation of everybody else."""
    pages = " \n" * 200_000
    assert without_token(f"Hello{pages}x") == f"Hello{pages}x"
    assert without_token(f"Hello{pages}NO_REPLY") == "Hello"


@pytest.mark.parametrize("repeated", ["<think>", "<think "])
def test_reasoning_that_begins_again_and_again_is_no_work(repeated: str) -> None:
    """A model that loops writes that, too."""
    text = 100_000 * repeated + "NO_REPLY now."
    assert without_token(text) == text


def test_long_reasoning_is_no_work() -> None:
    """It is held back until it ends, and read a few times only."""
    _, whole = streamed(["<think>", *(100_000 * ["Is it so? "]), "</think>", "NO_REPLY"])
    assert whole == ""


PIECES = [
    "NO_REPLY",
    "```",
    "<NO_REPLY>",
    "\u200b",
    "。",
    "NO_",
    "N",
    "no",
    ".",
    "\n",
    " ",
    "*",
    "-",
    "Hello",
    "<think>a</think>",
    "x",
    "ж",
]


@example(text="```x<think>a</think>\nNO_REPLY", cuts=[5])
@example(text="```x<think>a</think>\nNO_REPLY", cuts=[11])
@example(text="```x<div>\nNO_REPLY", cuts=[5])
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
@pytest.mark.covers("A13-5")
def test_streaming_and_the_whole_text_agree(text: str, cuts: list[int]) -> None:
    """However the answer is cut into pieces, what was shown is what is delivered, but for white space."""
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    _, whole = streamed([text[a:b] for a, b in pairwise(edges)])
    assert whole.split() == without_token(text).split()
