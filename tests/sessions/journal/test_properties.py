"""What holds for every transcript: any bytes, any cut, any sequence of talk, compactions and branches."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from nacre.sessions.compaction.cut import CompactionPlan, plan_compaction
from nacre.sessions.contracts.errors import SessionVersionUnknown
from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolResultMessage, message_text
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import Compaction, Entry, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.journal.journal import JournalFile
from nacre.sessions.view.transcript import TranscriptView
from tests.sessions.talk import FIXTURES, STAMP, answer, counted_ids, result, ticking_clock, user, words

HEADER = SessionHeader(id="s-1", timestamp=STAMP, cwd="/w")

# What happens next, how many words it has, and which earlier entry or how many tokens it is about.
STEP = st.tuples(
    st.sampled_from(["user", "user", "answer", "tools", "late", "aborted", "compact", "compact", "rewind"]),
    st.sampled_from([1, 5, 30]),
    st.integers(0, 40),
)


@contextmanager
def journal_in_a_folder(data: bytes | None = None) -> Iterator[JournalFile]:
    """A transcript file of these bytes in a folder of its own, not read yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        if data is not None:
            path.write_bytes(data)
        yield JournalFile(path, fresh_header=HEADER, now=ticking_clock(), new_id=counted_ids())


class Session:
    """A session in a real file, in which every message carries a number, and summaries are kept track of."""

    def __init__(self, file: JournalFile) -> None:
        self.file = file
        self.view = TranscriptView()
        self.summarized: dict[str, set[str]] = {}
        self._number = 0
        file.load()

    def go_on(self, kind: str, size: int, about: int) -> None:
        calls = [f"c{about}-{size}", f"d{about}-{size}"]
        match kind:
            case "user":
                self._say(user(self._text(size)))
            case "answer":
                self._say(answer(self._text(size)))
            case "aborted":
                self._say(answer(self._text(size), *calls, stop_reason="aborted"))
            case "tools" | "late":
                self._say(answer(self._text(1), *calls))
                if kind == "late":
                    self._say(user(self._text(1)))
                for call in reversed(calls):
                    self._say(result(call, self._text(size)))
            case "compact":
                self._compact(about)
            case _:
                self._rewind(about)

    def branch(self) -> list[Entry]:
        return list(self.file.linker.tree.branch())

    def _text(self, size: int) -> str:
        self._number += 1
        return f"#{self._number} " + "w " * (size - 1)

    def _say(self, message: Message) -> None:
        self.file.append(message)

    def _compact(self, keep: int) -> None:
        plan = plan_compaction(self.branch(), keep_recent_tokens=keep, count_tokens=words, tokens_before=0)
        if isinstance(plan, CompactionPlan):
            entry = self.file.append(
                Compaction(summary="Summary.", first_kept_entry_id=plan.first_kept_entry_id, tokens_before=0),
            )
            self.summarized[entry.id] = {
                number(message) for message in (*plan.to_summarize, *plan.turn_prefix)
            }

    def _rewind(self, about: int) -> None:
        entries = self.file.linker.tree.entries
        target = entries[about % len(entries)].id if entries else None
        self.file.append(user(self._text(1)), parent_id=target)


def number(message: Message) -> str:
    return message_text(message).split(" ", 1)[0]


def assert_nothing_is_lost(session: Session) -> None:
    """Each message of the branch is in view, or exactly one summary of the branch was made from it."""
    branch = session.branch()
    shown = {number(item.message) for item in session.view.follow(branch)}
    summaries = [session.summarized[entry.id] for entry in branch if isinstance(entry.body, Compaction)]
    kept_results = {
        call.id
        for entry in branch
        if isinstance(entry.body, AssistantMessage)
        for call in entry.body.tool_calls
    }
    for entry in branch:
        if not isinstance(entry.body, Message):
            continue
        if isinstance(entry.body, ToolResultMessage) and entry.body.tool_call_id not in kept_results:
            continue  # its call is on a branch that was left
        times = sum(number(entry.body) in summarized for summarized in summaries)
        assert times <= 1, "summarized twice"
        assert times == 1 or number(entry.body) in shown, "neither shown nor summarized"


def assert_calls_are_paired(messages: list[Message]) -> None:
    """Each answer with calls is followed by their results, in order; no result stands elsewhere."""
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert expected
            assert message.tool_call_id == expected.pop(0)
        else:
            assert expected == []
            if isinstance(message, AssistantMessage):
                expected = [call.id for call in message.tool_calls]
    assert expected == []


@settings(max_examples=30)
@given(steps=st.lists(STEP, min_size=1, max_size=20))
@pytest.mark.covers("A18-3")
def test_every_message_is_shown_or_summarized_once(steps: list[tuple[str, int, int]]) -> None:
    """On whatever branch, after whichever compactions; calls keep their results; reopening is the same."""
    with journal_in_a_folder() as file:
        session = Session(file)
        for step in steps:
            session.go_on(*step)
            assert_nothing_is_lost(session)
            shown = [item.message for item in session.view.follow(file.linker.tree.branch())]
            assert_calls_are_paired(shown)
            assert not shown or not isinstance(shown[0], ToolResultMessage)
        again = JournalFile(file.path, fresh_header=HEADER, now=ticking_clock(), new_id=counted_ids())
        again.load()
        assert (again.linker.tree.entries, again.notices) == (file.linker.tree.entries, ())
        assert TranscriptView().follow(again.linker.tree.branch()) == session.view.follow(
            file.linker.tree.branch()
        )


def a_file(texts: list[str]) -> bytes:
    """A sound transcript of these texts."""
    lines = [to_line(header_to_json(HEADER))]
    parent: str | None = None
    for place, text in enumerate(texts):
        entry = Entry(id=f"e{place}", parent_id=parent, timestamp=STAMP, body=user(text))
        lines.append(to_line(entry_to_json(entry)))
        parent = entry.id
    return b"".join(lines)


@settings(max_examples=40)
@given(texts=st.lists(st.text(max_size=8), max_size=6), share=st.floats(0, 1))
def test_a_file_cut_anywhere_keeps_every_whole_entry(texts: list[str], share: float) -> None:
    """Cut at any byte, also in its header, a file opens with all entries whose lines were whole."""
    data = a_file(texts)
    end = round(len(data) * share)
    whole = data[:end].count(b"\n")
    whole += data[end : end + 1] == b"\n"  # only the line feed is missing
    with journal_in_a_folder(data[:end]) as file:
        file.load()
        assert [entry.id for entry in file.linker.tree.branch()] == [
            f"e{place}" for place in range(max(0, whole - 1))
        ]
        assert file.linker.tree.branch() == file.linker.tree.entries
        assert kept_lines(file.path) >= set(data[:end].split(b"\n")) - {b""}


def kept_lines(path: Path) -> set[bytes]:
    """Every line that stands in the file or was set aside of it."""
    files = [path, *path.parent.glob(f"{path.name}.corrupt-*"), *path.parent.glob(f"{path.name}.v*-*")]
    return {line for file in files for line in file.read_bytes().split(b"\n")}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
IDS = st.sampled_from(["a", "b", "c", "", None, 7])
ENTRY = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "compaction", "label", "custom", "branch_summary", "x", "session"])},
    optional={
        "id": IDS,
        "parentId": IDS,
        "version": st.sampled_from([1, 2, 3, 0, "3", None]),
        "message": JSON
        | st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "toolResult", "hookMessage", "custom"])},
            optional={"content": JSON, "toolCallId": IDS, "stopReason": JSON, "usage": JSON},
        ),
        "summary": JSON,
        "firstKeptEntryId": IDS,
        "firstKeptEntryIndex": JSON,
        "targetId": IDS,
        "label": JSON,
        "timestamp": JSON,
        "data": JSON,
        "details": JSON,
    },
)
LINE = (
    ENTRY.map(json.dumps).map(str.encode)
    | st.sampled_from((FIXTURES / "v3-pi.jsonl").read_bytes().splitlines())
    | st.sampled_from((FIXTURES / "v1.jsonl").read_bytes().splitlines())
    | st.binary(max_size=12)
    | JSON.map(json.dumps).map(str.encode)
)
END = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b""])


@settings(max_examples=50)
@given(lines=st.lists(st.tuples(LINE, END), max_size=7))
@pytest.mark.covers("A6-1")
def test_any_bytes_open_and_none_are_lost(lines: list[tuple[bytes, bytes]]) -> None:
    """Whatever stands in a file, it opens, every line of it still stands somewhere, and it can be used."""
    data = b"".join(text + end for text, end in lines)
    with journal_in_a_folder(data) as file:
        try:
            file.load()
        except SessionVersionUnknown:
            assert file.path.read_bytes() == data
            return
        assert_lines_are_kept(data, file.path)
        entries = file.linker.tree.entries
        TranscriptView().follow(file.linker.tree.branch())
        Session(file).go_on("user", 1, 0)

        again = JournalFile(file.path, fresh_header=HEADER, now=ticking_clock(), new_id=counted_ids())
        again.load()

        assert again.linker.tree.entries[:-1] == tuple(entries)
        assert len({entry.id for entry in again.linker.tree.entries}) == len(again.linker.tree)
        assert {text for text in again.notices if "set aside" in text or "copies are" in text} == set()


def assert_lines_are_kept(data: bytes, path: Path) -> None:
    kept = {line.strip() for line in kept_lines(path)}
    assert {line.strip() for line in data.split(b"\n")} - {b""} <= kept
