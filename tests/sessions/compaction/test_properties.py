"""Whatever is said, and however often it is compacted, nothing falls between summary and kept part.

What leaves the view is handed out to be summarized exactly once, with the summary of what left before
it; so the newest summary stands at the end of one chain that covers all that is not in view.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.compaction.cut import CompactionPlan, plan_compaction
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.view.transcript import TranscriptItem, build_transcript
from tests.sessions.talk import Branch, answer, result, user, words

# One step of a conversation: what happens, how many words it has, and how many calls are involved.
STEP = st.tuples(
    st.sampled_from(
        ["user", "answer", "tools", "late", "unanswered", "aborted", "orphan", "recall", "flush"]
    ),
    st.sampled_from([1, 3, 10, 60]),
    st.integers(1, 3),
)
TALK = st.lists(STEP, max_size=14)


class Talk:
    """A branch on which every message has a number of its own in its text, and so can be traced."""

    def __init__(self) -> None:
        self.branch = Branch()
        self.numbered = 0
        self.covered: set[str] = set()
        self.callers: dict[str, str] = {}
        self.orphans: set[str] = set()

    def text(self, size: int) -> str:
        self.numbered += 1
        return f"#{self.numbered} " + "w " * (size - 1)

    def go_on(self, steps: list[tuple[str, int, int]]) -> None:
        say = self.branch.say
        for kind, size, count in steps:
            calls = [f"c{number}" for number in range(count)]
            match kind:
                case "user":
                    say(user(self.text(size)))
                case "answer":
                    say(answer(self.text(size)))
                case "tools" | "late" | "unanswered":
                    say(answer(asked := self.text(1), *calls))
                    if kind == "late":
                        say(user(self.text(size)))
                    for call in reversed(calls) if kind == "late" else calls[kind == "unanswered" :]:
                        say(result(call, told := self.text(size)))
                        self.callers[told.split(" ", 1)[0]] = asked.split(" ", 1)[0]
                case "aborted":
                    say(answer(self.text(size), *calls, stop_reason="aborted"))
                case "orphan":
                    say(result("never-called", text := self.text(size)))
                    self.orphans.add(text.split(" ", 1)[0])
                case "recall":
                    self.branch.recall("notes " * size)
                case _:
                    self.branch.record()

    def compact(self, keep: int) -> CompactionPlan | None:
        plan = plan_compaction(
            self.branch.entries, keep_recent_tokens=keep, count_tokens=words, tokens_before=0
        )
        if not isinstance(plan, CompactionPlan):
            return None
        summarized = {number(message) for message in (*plan.to_summarize, *plan.turn_prefix)}
        assert not summarized & self.covered, "a message was summarized twice"
        self.covered |= summarized
        for told, asked in self.callers.items():
            assert (told in self.covered) == (asked in self.covered), "a call was parted from its result"
        self.branch.compact(plan.first_kept_entry_id, "Summary.", details=plan.details())
        return plan


def number(message: Message) -> str:
    return message_text(message).split(" ", 1)[0]


def assert_sound(talk: Talk) -> None:
    """Every message is summarized or in view, the newest request is in view, and all calls are paired."""
    items = build_transcript(talk.branch.entries)
    shown = {number(item.message) for item in items}
    assert {f"#{n}" for n in range(1, talk.numbered + 1)} <= talk.covered | shown | talk.orphans

    said = [number(entry.body) for entry in talk.branch.entries if isinstance(entry.body, UserMessage)]
    assert set(said[-1:]) <= shown
    twice = shown & talk.covered
    assert len(twice) <= 1, "only the request of a turn that was cut is in view and in a summary"
    assert twice <= set(said)
    assert not talk.covered or isinstance(items[0].message, UserMessage)
    assert_paired(items)


def assert_paired(items: tuple[TranscriptItem, ...]) -> None:
    """Each answer with calls is followed by their results, in order, and no result stands elsewhere."""
    expected: list[str] = []
    for item in items:
        if isinstance(item.message, ToolResultMessage):
            assert expected, "a result without a call"
            assert item.message.tool_call_id == expected.pop(0)
        else:
            assert not expected, "a call without a result"
            if isinstance(item.message, AssistantMessage):
                expected = [call.id for call in item.message.tool_calls]
    assert not expected


@given(rounds=st.lists(st.tuples(TALK, st.sampled_from([0, 5, 20, 80])), min_size=2, max_size=6))
@pytest.mark.covers("A10-11", "W8-3", "A11-3", "ASK-4")
def test_nothing_is_lost_over_any_compactions(rounds: list[tuple[list[tuple[str, int, int]], int]]) -> None:
    """After each compaction every message is in one summary or in view, and no call lost its result."""
    talk = Talk()
    for steps, keep in rounds:
        talk.go_on(steps)
        assert_sound(talk)
        talk.compact(keep)
        assert_sound(talk)


@given(steps=st.lists(STEP, min_size=4, max_size=30), keep=st.sampled_from([5, 20, 80]))
def test_a_compaction_always_makes_progress(steps: list[tuple[str, int, int]], keep: int) -> None:
    """Each compaction summarizes something, so that compacting again and again comes to an end."""
    talk = Talk()
    talk.go_on(steps)
    for _ in range(len(talk.branch.entries) + 1):
        plan = talk.compact(keep)
        if plan is None:
            break
        assert plan.to_summarize or plan.turn_prefix
    else:
        raise AssertionError("compacting did not come to an end")
