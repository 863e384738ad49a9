"""Tool calls and notes of a turn: one line each, and all of it when they are opened."""

from __future__ import annotations

from nacre.cli.talk.event_lines import Calls, changed_lines
from nacre.runtime.contracts.events import FlushEnded, ToolEnded, ToolStarted


def test_a_call_tells_its_name_argument_time_and_size() -> None:
    """One line; what the summary says already is not said twice; opened, it has arguments and result."""
    calls = Calls()
    calls.follow(ToolStarted(call_id="1", tool_name="fetch", arguments={"url": "x.org", "depth": 2}), 10.0)
    assert calls.running_text == 'fetch "x.org"'
    ended = ToolEnded(
        call_id="1", tool_name="fetch", is_error=False, summary="ok\x1b", result="one\ntwo\x1b[2J"
    )

    assert calls.follow(ended, 11.25) == [('· fetch "x.org": ok␛ · 1.2 s · 11 characters', "dim")]
    assert calls.running_text == ""
    assert [text for text, _ in calls.details()] == [
        '· fetch "x.org": ok␛ · 1.2 s · 11 characters',
        "  url: x.org",
        "  depth: 2",
        "  → one",
        "  two␛[2J",
    ]


def test_a_call_that_failed_shows_no_change() -> None:
    """A warning, and no diff of what was not written."""
    calls = Calls()
    calls.follow(ToolStarted(call_id="1", tool_name="append", arguments={"path": "a.md", "text": "x"}), 0.0)
    ended = ToolEnded(call_id="1", tool_name="append", is_error=True, summary="no room", result="no room")

    assert calls.follow(ended, 0.0) == [('· append failed "a.md": no room', "warning")]


def test_an_edit_shows_what_changed_in_short() -> None:
    """Lines taken out and put in, with what stands beside them; of many the first eight."""
    edit = {"path": "a.md", "old_text": "one\ntwo\nthree", "new_text": "one\n2\nthree"}
    assert changed_lines("edit", edit) == [
        ("    one", "dim"),
        ("  - two", "removed"),
        ("  + 2", "added"),
        ("    three", "dim"),
    ]
    many = changed_lines("write", {"path": "a.md", "content": "\n".join("abcdefghij")})
    assert many[-2:] == [("  + h", "added"), ("  … 2 more lines", "dim")]
    assert changed_lines("read", {"path": "a.md"}) == []


def test_saved_notes_open_too() -> None:
    """The words that a flush wrote are kept for whoever wants to see them, cut where they are very long."""
    calls = Calls()
    notes = "\n".join(f"- note {number}" for number in range(300))
    calls.follow(FlushEnded(status="written", path="memory/a.md", notes=notes), 0.0)

    lines = [text for text, _ in calls.details()]
    assert lines[:2] == ["· notes in memory/a.md", "  - note 0"]
    assert lines[-1] == "  … 100 more lines"
