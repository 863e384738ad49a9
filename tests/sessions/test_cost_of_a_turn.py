"""What a turn costs does not depend on how long its session is: counted in function calls, not in time."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

from nacre.sessions.entries import CompactionEntry, MessageEntry, SessionHeader
from nacre.sessions.entry_writing import entry_to_json, header_to_json
from nacre.sessions.journal_file import JournalFile
from nacre.sessions.lines import to_line
from nacre.sessions.messages import Usage
from nacre.sessions.tokens import measure_context
from nacre.sessions.transcript_view import TranscriptView
from tests.sessions.talk import STAMP, answer, counted_ids, ticking_clock, user, words

HEADER = SessionHeader(id="s-1", timestamp=STAMP, cwd="/w")


def write_long(path: Path, count: int) -> None:
    """A session of so many entries, compacted every fifty."""
    lines, parent = [to_line(header_to_json(HEADER))], None
    for place in range(count):
        head = {"id": f"e{place}", "parent_id": parent, "timestamp": STAMP}
        if place % 50 == 49:
            kept = f"e{place - 10}"
            entry = CompactionEntry(**head, summary="S", first_kept_entry_id=kept, tokens_before=1)
        else:
            said = user("q") if place % 2 else answer("a", usage=Usage(input_tokens=9))
            entry = MessageEntry(**head, message=said)
        lines.append(to_line(entry_to_json(entry)))
        parent = entry.id
    path.write_bytes(b"".join(lines))


def calls_of_a_turn(path: Path) -> int:
    """How many functions are called for a question, the view of it and the measure of its window."""
    file = JournalFile(path, fresh_header=HEADER, now=ticking_clock())
    file.load()
    view, new_id = TranscriptView(), counted_ids()
    view.follow(file.tree.branch())
    profile = cProfile.Profile()
    profile.enable()
    file.append(
        lambda entry_id, parent_id, at: MessageEntry(
            id=entry_id, parent_id=parent_id, timestamp=at, message=user("next")
        ),
        new_id,
    )
    items = view.follow(file.tree.branch())
    measure_context(items, file.tree.branch(), words, overhead_tokens=0)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)


def test_a_turn_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    """Thirty times the history adds nothing to what a turn does."""
    short, long = tmp_path / "short.jsonl", tmp_path / "long.jsonl"
    write_long(short, 120)
    write_long(long, 3_620)
    calls_of_a_turn(short)  # what is done once in a process, such as imports
    assert abs(calls_of_a_turn(long) - calls_of_a_turn(short)) < 30
