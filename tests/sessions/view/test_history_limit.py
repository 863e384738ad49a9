"""How much of a conversation is sent where the owner limits it."""

from __future__ import annotations

import pytest

from nacre.sessions.contracts.messages import Message, message_text
from nacre.sessions.view.transcript import build_transcript, newest_turns
from tests.sessions.talk import Branch, answer, result, user

TALK: list[Message] = [
    user("one"),
    answer("first"),
    user("two"),
    answer("", "c1", "c2"),
    result("c1"),
    result("c2"),
    answer("second"),
    user("three"),
    answer("third"),
]


def limited(branch: Branch, turns: int | None, *, is_compacted: bool = False) -> list[Message]:
    items = build_transcript(branch.entries)
    return [item.message for item in newest_turns(items, turns, is_compacted=is_compacted)]


@pytest.mark.parametrize("turns", [None, 0, -1, 3, 99])
@pytest.mark.covers("A8-1")
def test_no_limit_and_a_large_one_leave_everything(turns: int | None) -> None:
    """Unset, zero, negative and more than there is: the very same items."""
    items = build_transcript(Branch(TALK).entries)
    assert newest_turns(items, turns, is_compacted=False) is items
    assert newest_turns((), turns, is_compacted=False) == ()


@pytest.mark.parametrize(("turns", "begin"), [(1, 7), (2, 2)])
@pytest.mark.covers("A8-1")
def test_the_newest_turns_stay_whole(turns: int, begin: int) -> None:
    """A turn is kept with all its answers, calls and results, unchanged."""
    assert limited(Branch(TALK), turns) == TALK[begin:]


def test_the_summary_in_front_stays() -> None:
    """What stands for all that was compacted is never cut off, and counts as no turn."""
    branch = Branch(TALK)
    branch.compact("e3")
    branch.say(user("four"))
    summary, *rest = limited(branch, 1, is_compacted=True)
    assert "Long ago." in str(summary)
    assert rest == [user("four")]


def test_recalled_notes_stay_and_are_no_turn() -> None:
    """Daily logs at the beginning are background; the limit does not take them away."""
    branch = Branch([user("one")])
    branch.recall("yesterday")
    branch.say(answer("first"))
    branch.say(user("two"))
    assert [message_text(message) for message in limited(branch, 1)] == ["yesterday", "two"]
