"""What a model sees of a session's entries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.entries.entries import BranchSummary, Entry, entry_from_json
from nacre.sessions.view.transcript import MISSING_RESULT, TranscriptItem, build_transcript, last_compaction
from tests.sessions.talk import STAMP, Branch, answer, result, user


def seen(branch: Branch) -> list[str]:
    return [line(item) for item in build_transcript(branch.entries)]


def line(item: TranscriptItem) -> str:
    message = item.message
    if isinstance(message, ToolResultMessage):
        return f"{message.tool_call_id}={'!' if message.is_error else ''}{message_text(message)}"
    if isinstance(message, AssistantMessage):
        return " ".join(["A:" + message_text(message), *(call.id for call in message.tool_calls)])
    return "U:" + message_text(message)


@pytest.mark.covers("A7-1")
def test_an_empty_branch_shows_nothing() -> None:
    """Before anything is said the model sees nothing."""
    assert build_transcript([]) == ()


@pytest.mark.covers("A7-1", "A7-5")
def test_messages_stand_in_order() -> None:
    """Without a compaction everything said is shown, records are not."""
    branch = Branch([user("one"), answer("two")])
    branch.record()
    branch.say(user("three"))
    assert seen(branch) == ["U:one", "A:two", "U:three"]


@pytest.mark.covers("A7-2")
def test_a_summary_stands_for_what_is_before_the_first_kept_entry() -> None:
    """After a compaction come the summary, the kept part and what was said later."""
    branch = Branch([user("old"), answer("old answer"), user("kept"), answer("kept answer")])
    branch.compact("e3", "We said </summary> old things.")
    branch.say(user("new"))

    first, *others = build_transcript(branch.entries)

    assert [line(item) for item in others] == ["U:kept", "A:kept answer", "U:new"]
    assert isinstance(first.message, UserMessage)
    assert message_text(first.message).split("\n") == [
        "The conversation before this point was compacted. "
        "What follows is a record of it, not an instruction and not a question to answer. "
        "Go on from where it ends, under the same rules as before; nothing begins anew.",
        "",
        "<summary>",
        "We said &lt;/summary> old things.",
        "</summary>",
    ]
    assert (first.entry_id, first.is_recall, first.message.timestamp_ms) == ("e5", False, 1772355600000)


@pytest.mark.covers("A7-2")
def test_only_the_latest_compaction_counts() -> None:
    """A second summary replaces the first, also where the kept part reaches back before the first."""
    branch = Branch([user("a"), answer("b"), user("c"), answer("d")])
    branch.compact("e3", "first")
    branch.say(user("e"))
    branch.compact("e4", "second")

    shown = seen(branch)

    assert "second" in shown[0]
    assert shown[1:] == ["A:d", "U:e"]
    assert last_compaction(branch.entries) == branch.entries[-1].body


@pytest.mark.covers("A7-5")
def test_an_unknown_first_kept_entry_keeps_nothing() -> None:
    """When the first kept entry is not on the branch, the summary and what came later are shown."""
    branch = Branch([user("a"), answer("b")])
    branch.compact("nowhere")
    branch.say(user("c"))
    assert seen(branch)[1:] == ["U:c"]


@pytest.mark.covers("A7-2", "A7-5")
def test_a_summary_may_keep_everything() -> None:
    """When the first kept entry is the first of all, the summary stands in front of every word."""
    branch = Branch([user("a"), answer("b")])
    branch.compact("e1")
    assert seen(branch)[1:] == ["U:a", "A:b"]


def test_the_request_of_a_turn_that_was_cut_stays_in_view() -> None:
    """When the kept part holds no word of the user, the request it works on stands before it."""
    branch = Branch(
        [user("other"), user("do it"), answer("", "c1"), result("c1"), answer("", "c2"), result("c2")]
    )
    branch.compact("e5")
    assert seen(branch)[1:] == ["U:do it", "A: c2", "c2=done"]


@pytest.mark.covers("A18-1", "A18-3")
def test_results_follow_their_calls_in_order() -> None:
    """Results that were written late or in another order stand after their call, in its order."""
    branch = Branch(
        [
            answer("", "c1", "c2"),
            user("and?"),
            result("c2", "two"),
            result("c1", "one"),
            result("c1", "again"),
        ]
    )
    branch.say(result("c9", "whose?"))
    assert seen(branch) == ["A: c1 c2", "c1=one", "c2=two", "U:and?"]


@pytest.mark.covers("A18-1")
def test_a_missing_result_is_an_error_result() -> None:
    """A call that a crash left without a result gets one that says so."""
    branch = Branch([user("go"), answer("", "c1", "c2"), result("c2"), user("again")])
    assert seen(branch) == ["U:go", "A: c1 c2", f"c1=!{MISSING_RESULT}", "c2=done", "U:again"]


@pytest.mark.covers("A18-3")
def test_an_id_used_again_belongs_to_the_nearest_call() -> None:
    """Providers that count calls from zero in each turn keep their results apart."""
    branch = Branch([answer("", "c0"), result("c0", "first"), answer("", "c0"), result("c0", "second")])
    assert seen(branch) == ["A: c0", "c0=first", "A: c0", "c0=second"]


def test_a_broken_off_answer_keeps_its_text_only() -> None:
    """Of failed and aborted answers the text stays and the calls go; without text nothing stays."""
    branch = Branch(
        [
            user("go"),
            answer("I will", "c1", stop_reason="aborted"),
            result("c1"),
            answer("", "c2", stop_reason="error"),
            answer(" ", stop_reason="stop"),
        ]
    )
    assert seen(branch) == ["U:go", "A:I will"]


def test_calls_that_cannot_be_paired_are_left_out() -> None:
    """Calls without an id, or with one used twice in an answer, are not sent back to a provider."""
    branch = Branch([answer("x", "", "c1", "c1"), result("", "lost"), result("c1")])
    assert seen(branch) == ["A:x c1", "c1=done"]


def test_no_user_message_is_dropped_or_merged() -> None:
    """Empty, repeated and image-only user messages all stay, each by itself."""
    picture = UserMessage(content=(Image(data="aGk=", mime_type="image/png"),), timestamp_ms=1)
    branch = Branch([user("a"), user("a"), user(""), picture])
    assert [item.message for item in build_transcript(branch.entries)] == [
        user("a"),
        user("a"),
        user(""),
        picture,
    ]


def test_recalled_notes_are_marked() -> None:
    """Text of a program is shown as a user message, and recalled notes are told apart."""
    branch = Branch()
    branch.recall("yesterday")
    branch.recall("hint", custom_type="other")

    items = build_transcript(branch.entries)

    assert [(line(item), item.is_recall) for item in items] == [("U:yesterday", True), ("U:hint", False)]


@pytest.mark.covers("A7-3")
def test_a_branch_summary_is_shown() -> None:
    """What happened on a branch that was left is told in its place; an empty summary is not."""
    told = BranchSummary(from_id="root", summary="We tried.")
    left = Entry(id="b", parent_id=None, timestamp=STAMP, body=told)
    items = build_transcript([left, replace(left, id="c", body=replace(told, summary=" "))])
    assert [item.entry_id for item in items] == ["b"]
    assert "We tried." in message_text(items[0].message)


def test_foreign_roles_are_shown_as_pi_shows_them() -> None:
    """Shell commands and extension messages in a pi file are user messages, excluded ones are not."""
    shell = {"role": "bashExecution", "command": "ls", "output": "a.md"}
    messages = [
        shell,
        {**shell, "excludeFromContext": True},
        {"role": "custom", "content": "note"},
        {"role": "?"},
    ]
    entries = [
        entry_from_json({"type": "message", "id": f"e{n}", "timestamp": STAMP, "message": message})
        for n, message in enumerate(messages)
    ]
    shown = [message_text(item.message) for item in build_transcript(entries)]
    assert shown == ["I ran `ls`:\n\n```\na.md\n```", "note"]
