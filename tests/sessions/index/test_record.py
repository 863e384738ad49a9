"""One line of the index: other programs' names, where messages come from, and what a new session keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nacre.sessions.index.record import (
    Origin,
    SessionRecord,
    next_session,
    record_from_json,
    record_to_json,
    resumed_session,
    with_origin,
)

TELEGRAM = Origin(
    chat_kind="group",
    channel=" Telegram ",
    account="work",
    chat_id=" -7 ",
    sender_id="42",
    chat_name="Family",
)
TERMINAL = Origin(chat_kind="direct", channel="terminal")


def record(**raw: Any) -> SessionRecord:
    """A record as it would be read from a file."""
    read = record_from_json({"sessionId": "s-1", "updatedAt": 5, **raw})
    assert read is not None
    return read


@pytest.mark.covers("A4-8")
def test_former_names_are_read_and_written_as_todays() -> None:
    """What older versions called provider, lastProvider and room has today's names, unless both stand."""
    old = record(provider="telegram", lastProvider="signal", room="#a", lastChannel="discord")

    assert (old.channel, old.last_channel) == ("telegram", "discord")
    assert record_to_json(old) == {
        "sessionId": "s-1",
        "updatedAt": 5,
        "channel": "telegram",
        "lastChannel": "discord",
        "groupChannel": "#a",
    }


@pytest.mark.covers("A3-2", "A4-4", "A4-7", "A4-10")
def test_a_message_leaves_its_place_in_the_record() -> None:
    """Origin, group and the place for replies are stored trimmed, under OpenClaw's names."""
    stored = record_to_json(with_origin(record(note=1), TELEGRAM))

    assert stored == {
        "note": 1,
        "sessionId": "s-1",
        "updatedAt": 5,
        "chatType": "group",
        "channel": "telegram",
        "groupId": "-7",
        "displayName": "Family",
        "origin": {
            "label": "Family",
            "provider": "telegram",
            "chatType": "group",
            "from": "42",
            "to": "-7",
            "accountId": "work",
        },
        "deliveryContext": {"channel": "telegram", "to": "-7", "accountId": "work"},
        "lastChannel": "telegram",
        "lastTo": "-7",
        "lastAccountId": "work",
    }


@pytest.mark.covers("A4-4")
def test_a_terminal_does_not_displace_the_place_for_replies() -> None:
    """What the owner says in a terminal is the latest message, but an answer later still goes to the chat."""
    both = with_origin(with_origin(record(), TELEGRAM), TERMINAL)

    assert both.origin == {"provider": "terminal", "chatType": "direct"}
    assert (both.last_channel, both.last_to) == ("telegram", "-7")
    assert (both.channel, both.group_id, both.chat_type) == ("telegram", "-7", "group")
    assert with_origin(record(), TERMINAL).last_channel == "terminal"


def test_a_new_session_keeps_what_the_owner_chose() -> None:
    """Toggles, names and a model chosen by the owner survive; tokens, counts and caches do not."""
    chosen = {
        "thinkingLevel": "high",
        "queueMode": "collect",
        "label": "Mine",
        "providerOverride": "openai",
        "modelOverride": "gpt-5",
        "modelOverrideSource": "user",
    }
    spent = {"totalTokens": 9, "totalTokensFresh": True, "compactionCount": 3, "memoryFlushAt": 4}
    caches = {"skillsSnapshot": {"a": 1}, "model": "gpt-5-mini", "abortedLastRun": True, "systemSent": True}
    old = record(**chosen, **spent, **caches, previousSessionIds=["s-0"], sessionFile="odd.jsonl")

    assert record_to_json(next_session(old, session_id="s-2", at_ms=8)) == {
        **chosen,
        "sessionId": "s-2",
        "updatedAt": 8,
        "sessionStartedAt": 8,
        "compactionCount": 0,
        "previousSessionIds": ["s-0", "s-1"],
    }


def test_a_model_that_a_fallback_chose_ends_with_its_session() -> None:
    """An override that says that nobody chose it is dropped, and so is its provider."""
    old = record(
        providerOverride="x", modelOverride="y", modelOverrideSource="auto", authProfileOverride="mine"
    )

    assert next_session(old, session_id="s-2", at_ms=8).extra == {"authProfileOverride": "mine"}


def test_a_line_does_not_grow_for_ever() -> None:
    """It names the hundred sessions before the present one."""
    line = record()
    for number in range(150):
        line = next_session(line, session_id=f"s-{number + 2}", at_ms=number)

    assert line.previous_session_ids == tuple(f"s-{number}" for number in range(51, 151))


def test_going_back_to_an_earlier_session_forgets_none() -> None:
    """The key names the earlier session and its file; the one it left can be gone back to in turn."""
    now = record(label="Mine", totalTokens=5, previousSessionIds=["s-a", "s-b"])
    earlier = record(sessionId="s-a", sessionFile="brought.jsonl")

    back = resumed_session(now, earlier, at_ms=9)

    assert (back.session_id, back.session_file, back.label) == ("s-a", "brought.jsonl", "Mine")
    assert back.previous_session_ids == ("s-b", "s-1")
    assert (back.session_started_at_ms, back.last_interaction_at_ms, back.total_tokens) == (9, 9, None)
    assert resumed_session(back, replace(back, label="other"), at_ms=10) == back
