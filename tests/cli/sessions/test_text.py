"""What `nacre sessions` prints: tables that stay tables, and words that cannot drive a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nacre.cli.screen.session_words import age
from nacre.cli.sessions.text import exported, list_lines, show_json, show_lines
from nacre.sessions.contracts.messages import Image, Text, Thinking, UserMessage
from nacre.sessions.entries.entries import (
    BranchSummary,
    CustomMessage,
    Entry,
    SessionHeader,
    StoredTranscript,
)
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.upkeep.stored_session import StoredSession
from tests.runtime.turn.watched_work import watched_work
from tests.sessions.talk import Branch, answer, result, user

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
STAMP = "2026-03-01T09:00:00.000Z"


def session(key: str = "agent:main:main", **record: Any) -> StoredSession:
    """A current session that was active an hour ago."""
    values = {"session_id": "3f2a91c4-aaaa", "updated_at_ms": NOW_MS - 3_600_000, **record}
    return StoredSession(
        key=key,
        record=SessionRecord(**values),
        is_current=True,
        transcript="x.jsonl",
        place="/s/x.jsonl",
        size_bytes=9,
    )


def transcript(*entries: Entry, elsewhere: tuple[Entry, ...] = ()) -> StoredTranscript:
    """A transcript whose present branch is `entries`."""
    header = SessionHeader(id="3f2a91c4-aaaa", timestamp=STAMP, cwd="/")
    return StoredTranscript(header=header, entries=(*elsewhere, *entries), branch=tuple(entries))


def talk() -> list[Entry]:
    """A question, a tool, an answer that broke off, after a summary."""
    branch = Branch([user("early")])
    branch.compact("e1", "Early things.")
    branch.say(
        UserMessage(
            content=(Text(text="look at\x1b[31m this"), Image(data="AA", mime_type="image/png")),
            timestamp_ms=NOW_MS,
        )
    )
    branch.say(replace(answer("Let me see.", "c1", path="a\nb"), timestamp_ms=NOW_MS))
    branch.say(result("c1", "no such file ````", is_error=True))
    broken = answer("", stop_reason="error")
    branch.say(replace(broken, content=(Thinking(thinking="hidden"),), error_message="no\nconnection"))
    return branch.entries


@pytest.mark.parametrize(
    ("past", "told"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=-30), "just now"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=29), "29 d ago"),
        (timedelta(days=30), "2026-01-30"),
        (timedelta(days=-400), "2027-04-05"),
    ],
)
def test_an_age_is_told_in_words(past: timedelta, told: str) -> None:
    """The near past in words, everything else as a day, also what is still to come."""
    assert age(int((NOW - past).timestamp() * 1000), NOW) == told


@pytest.mark.parametrize("at_ms", [0, -1, 10**18])
def test_an_age_that_cannot_be_is_unknown(at_ms: int) -> None:
    """A damaged time is no reason to break off."""
    assert age(at_ms, NOW) == "unknown"


def test_columns_stay_in_line() -> None:
    """Whatever the names: wide characters, long keys, line feeds and escape sequences."""
    sessions = [
        session(
            display_name="家族\x1b[2J", total_tokens=1_500, total_tokens_fresh=True, context_tokens=200_000
        ),
        session("agent:main:telegram:group:" + "x" * 90, session_id="bbbbbbbb-1"),
        replace(session("agent:main:gone", session_id="cc"), size_bytes=None, is_current=False),
        replace(session("agent:main:new", session_id="dd"), size_bytes=None),
    ]
    words = {"3f2a91c4-aaaa": "one\ntwo \x07" + "long " * 40}

    lines = list_lines(sessions, words, now=NOW, main_key="main")

    assert lines[0].split()[:4] == ["SESSION", "ID", "ACTIVE", "CONTEXT"]
    assert lines[1].startswith("main (家族␛[2J) ")
    assert "3f2a91c4  1 h ago  1.5k/200k" in lines[1]
    assert lines[1].endswith("…")
    assert "one two ␇long" in lines[1]
    assert "…  bbbbbbbb  1 h ago" in lines[2]
    assert lines[3].startswith("gone, earlier ")
    assert lines[3].endswith("no transcript")
    assert lines[4].endswith("nothing said yet")
    assert all("\x1b" not in line and "\n" not in line for line in lines)


def test_a_row_of_thousands_costs_little() -> None:
    """Its name is not looked up in the scheme of keys, and no cell is measured twice."""
    sessions = [session(f"agent:main:telegram:group:{number}") for number in range(200)]
    with watched_work() as work:
        before = work.so_far()
        list_lines(sessions, {}, now=NOW, main_key="main")
        rows = work - before
    assert rows.calls < 80 * len(sessions)


def test_a_session_is_told_with_its_branches() -> None:
    """Counts of the present branch, what was left elsewhere, and the last messages, each tool on a line."""
    left = Branch([user("other"), answer("way")]).entries
    lines = show_lines(
        session(
            label="Boats",
            previous_session_ids=("aaaabbbb-1", "ccccdddd-2"),
            last_channel="telegram",
            last_to="7",
        ),
        transcript(*talk(), elsewhere=tuple(left)),
        last=4,
        now=NOW,
        main_key="main",
        short=str,
    )

    assert "Name:          Boats" in lines
    assert "Replies go to: telegram 7" in lines
    assert "Earlier:       aaaabbbb, ccccdddd" in lines
    assert "History:       5 messages, 2 more on abandoned branches · 1 compaction" in lines
    shown = lines[lines.index("") + 1 :]
    assert shown == [
        "[2026-03-01 12:00] User: look at\x1b[31m this\n[1 image]",
        "[2026-03-01 12:00] Assistant: Let me see.",
        '  → read {"path": "a\\nb"}',
        "  read failed: no such file ````",
        "  broke off: no connection",
    ]


def test_where_history_was_summarized_is_marked() -> None:
    """The summary stands between the messages that it replaced and those that follow."""
    branch = [
        *talk(),
        Entry(id="b", parent_id="e6", timestamp=STAMP, body=BranchSummary(from_id="x", summary="Left.")),
    ]
    lines = show_lines(session(), transcript(*branch), last=9, now=NOW, main_key="main", short=str)

    assert any(line.startswith("--- compaction: earlier messages were summarized") for line in lines)
    assert lines[-1] == "--- went back to here from another branch ---"
    none = show_lines(session(), transcript(*branch), last=0, now=NOW, main_key="main", short=str)
    assert "" not in none


def test_scripts_get_messages_as_they_are() -> None:
    """In pi's shapes, with the entries' ids; summaries and notes are not messages."""
    told = show_json(session(), transcript(*talk()), last=2, main_key="main")

    assert [message["role"] for message in told["messages"]] == ["toolResult", "assistant"]
    assert told["messages"][0]["entryId"] == "e5"
    assert told["messageCount"] == 5
    assert json.loads(json.dumps(told))["kind"] == "main"


def test_an_exported_document_is_whole() -> None:
    """Every message of the branch, fences longer than what they hold, no thinking, nothing hidden."""
    seen = CustomMessage(custom_type="x", content="Seen", display=True)
    note = Entry(id="n", parent_id="e6", timestamp=STAMP, body=seen)
    hidden = replace(note, id="h", body=replace(seen, display=False, content="recalled"))
    text = exported("markdown", session(), transcript(*talk(), note, hidden), UTC).decode()

    assert text.startswith(
        "# Session\n\n- Session: 3f2a91c4-aaaa\n- Key: agent:main:main\n- Started: 2026-03-01 09:00\n"
    )
    assert "## Summary of earlier messages · 2026-03-01 09:00\n\nEarly things.\n" in text
    assert "look at\x1b[31m this\n\n*An image, image/png*\n" in text
    assert "**Result of read, failed**\n\n`````\nno such file ````\n`````\n" in text
    assert "*Broke off: no connection*" in text
    assert "## Note · 2026-03-01 09:00\n\nSeen\n" in text
    assert "hidden" not in text
    assert "recalled" not in text


def test_an_exported_object_has_every_branch() -> None:
    """All entries, and which of them are the present branch."""
    left = Branch([user("other")]).entries
    whole = transcript(*talk(), elsewhere=(replace(left[0], id="x1"),))
    value = json.loads(exported("json", session(), whole, UTC))

    assert [entry["id"] for entry in value["entries"]] == ["x1", *value["branch"]]
    assert value["header"]["id"] == value["index"]["sessionId"]
