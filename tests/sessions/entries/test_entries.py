"""Lines of a transcript file."""

from __future__ import annotations

import json
import types
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from nacre.sessions.disk.json_text import split_lines, timestamp_ms, timestamp_text, to_line
from nacre.sessions.entries.entries import (
    Body,
    BranchSummary,
    Compaction,
    CustomMessage,
    CustomRecord,
    Entry,
    Label,
    RawBody,
    SessionHeader,
    entry_from_json,
    entry_to_json,
    header_from_json,
    header_to_json,
    is_malformed,
)
from tests.sessions.talk import FIXTURES, STAMP, user


@pytest.mark.parametrize(
    "body",
    [
        user("hi"),
        Compaction(summary="s", first_kept_entry_id="0000000a", tokens_before=5),
        Compaction(
            summary="s",
            first_kept_entry_id="a",
            tokens_before=5,
            details={"readFiles": []},
            from_hook=True,
        ),
        CustomRecord(custom_type="nacre.flush", data={"cycle": 0}),
        CustomRecord(custom_type="stamp"),
        CustomMessage(custom_type="nacre.recall", content="notes", details={"from": "x"}),
        BranchSummary(from_id="root", summary="We tried."),
        BranchSummary(from_id="a", summary="s", details={"readFiles": ["x"]}, from_hook=True),
        Label(target_id="0000000a", label="good place"),
        Label(target_id="0000000a"),
        RawBody(raw={"type": "label", "id": "0000000b", "parentId": "0000000a", "timestamp": STAMP}),
    ],
)
def test_an_entry_comes_back_as_it_was_stored(body: Body) -> None:
    """Every kind of entry survives its line in the file."""
    entry = Entry(id="0000000b", parent_id="0000000a", timestamp=STAMP, body=body)
    assert entry_from_json(json.loads(to_line(entry_to_json(entry)))) == entry


def test_a_header_comes_back_as_it_was_stored() -> None:
    """The first line survives, with and without a parent session."""
    for parent in (None, "/old.jsonl"):
        header = SessionHeader(id="s", timestamp=STAMP, cwd="/w", parent_session=parent)
        assert header_from_json(header_to_json(header)) == header


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "message", "id": "s"},
        {"type": "session"},
        {"type": "session", "id": 5},
        {"type": "session", "id": "s", "version": "3"},
        {"type": "session", "id": "s", "version": 0},
    ],
)
def test_what_is_no_header_is_not_read_as_one(raw: dict[str, Any]) -> None:
    """A line without a session's id and a whole version number is no header."""
    assert header_from_json(raw) is None


@pytest.mark.parametrize("name", ["v3-pi.jsonl", "compacted-twice.jsonl", "failed-flush.jsonl"])
@pytest.mark.covers("A7-1")
def test_reading_loses_nothing_of_a_pi_file(name: str) -> None:
    """Ids, times, texts and unknown entries of a file are all there after reading, and none is misshapen."""
    raws = [line.value for line in split_lines((FIXTURES / name).read_bytes())][1:]
    for raw in raws:
        assert raw is not None
        entry = entry_from_json(raw)
        assert not is_malformed(entry)
        written = entry_to_json(entry)
        for key in ("type", "id", "parentId", "timestamp"):
            assert written[key] == raw[key]
        if isinstance(entry.body, RawBody):
            assert written == raw


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "message", "id": "a", "message": {"role": "user", "content": 5}},
        {"type": "message", "id": "a"},
        {"type": "compaction", "id": "a", "summary": None},
        {"type": "custom_message", "id": "a", "content": 5},
        {"type": "branch_summary", "id": "a"},
    ],
)
def test_an_entry_of_a_wrong_shape_is_kept_as_it_is(raw: dict[str, Any]) -> None:
    """What cannot be read as its type is kept whole and can be told from what is merely unknown."""
    entry = entry_from_json(raw)
    assert isinstance(entry.body, RawBody)
    assert entry.body.raw == raw
    assert is_malformed(entry)
    assert not is_malformed(entry_from_json({"type": ["odd"], "id": "a"}))


def test_a_line_holds_what_json_cannot() -> None:
    """Numbers without JSON, lone surrogates, paths and foreign mappings never stop a line."""
    raw = {"a": float("nan"), "b": "\ud800", "c": Path("x"), "d": types.MappingProxyType({"k": 1}), 5: {1}}
    assert json.loads(to_line(raw)) == {"a": None, "b": "\ud800", "c": "x", "d": {"k": 1}, "5": [1]}
    assert to_line({"t": "zweite\nZeile\u2028 é"}) == '{"t":"zweite\\nZeile\u2028 é"}\n'.encode()


def test_times_are_written_as_pi_writes_them() -> None:
    """Any zone becomes UTC with milliseconds and Z, and can be read back."""
    moment = datetime(2026, 3, 1, 10, 0, 0, 123999, tzinfo=timezone(timedelta(hours=1)))
    assert timestamp_text(moment) == "2026-03-01T09:00:00.123Z"
    assert timestamp_ms("2026-03-01T09:00:00.123Z") == int(moment.astimezone(UTC).timestamp() * 1000)
    assert (timestamp_ms("yesterday"), timestamp_ms("")) == (0, 0)
