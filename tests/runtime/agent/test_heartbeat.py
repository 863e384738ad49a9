"""What of a heartbeat's answer is worth saying, and which lists ask for nothing."""

from __future__ import annotations

import pytest

from nacre.runtime.agent.answering import asks_for_nothing, worth_saying

NEWS = "The disk of the house server is nearly full."


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "HEARTBEAT_OK",
        "  heartbeat_ok.\n",
        "**HEARTBEAT_OK**",
        "`HEARTBEAT_OK`",
        "<b>HEARTBEAT_OK</b>",
        "HEARTBEAT_OK\n\nHEARTBEAT_OK",
        "HEARTBEAT_OK - all is quiet.",
        "All is quiet. HEARTBEAT_OK",
        "HEARTBEAT_OK " + "x" * 300,
    ],
)
@pytest.mark.covers("A13-7")
def test_an_acknowledgement_is_not_worth_saying(answer: str) -> None:
    """The token alone, in any dress, and with as much beside it as is allowed."""
    assert worth_saying(answer, ack_max_chars=300) == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NEWS, NEWS),
        (f"HEARTBEAT_OK {NEWS}", NEWS),
        (f"{NEWS} HEARTBEAT_OK", NEWS),
        (f"{NEWS}\n\n**HEARTBEAT_OK**", NEWS),
        (f"<p>HEARTBEAT_OK</p>{NEWS}", NEWS),
        (f"{NEWS} I would say HEARTBEAT_OK otherwise.", f"{NEWS} I would say HEARTBEAT_OK otherwise."),
        ("HEARTBEAT_OKAY is another word.", "HEARTBEAT_OKAY is another word."),
        ("MY_HEARTBEAT_OK2", "MY_HEARTBEAT_OK2"),
    ],
)
@pytest.mark.covers("A13-7")
def test_news_is_said_without_the_token(answer: str, said: str) -> None:
    """The token is cut off both ends, and nowhere else."""
    assert worth_saying(answer, ack_max_chars=10) == said


def test_an_answer_of_white_space_by_the_page_costs_no_time() -> None:
    """A model that loops must not stop the program."""
    assert worth_saying("<b" * 100_000 + " " * 1_000_000, ack_max_chars=0) == ("<b" * 100_000)


@pytest.mark.parametrize(
    "checklist",
    [
        "",
        "\n \n",
        "# HEARTBEAT.md: what to look at\n",
        "# A\n\n<!-- One line for each thing.\n- like this -->\n",
        "## Things\n-\n* \n- [ ]\n- [x]\n",
        "<!-- never closed\n- x",
    ],
)
@pytest.mark.covers("A13-7")
def test_a_list_without_a_word_asks_for_nothing(checklist: str) -> None:
    """Headings, comments and empty items are no tasks."""
    assert asks_for_nothing(checklist)


@pytest.mark.parametrize("checklist", ["- look at the mail", "# A\nIs the door shut?", "- [ ] x", "#tag"])
def test_a_list_with_a_word_asks_for_something(checklist: str) -> None:
    """One line is enough."""
    assert not asks_for_nothing(checklist)
