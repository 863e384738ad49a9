"""What is still to do for sessions that are over: kept until it is done, whatever stands in the folder."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionWriteFailed
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.stores.files import EndedSessionFiles, ended_session_file

ENDED = EndedSession(
    key="agent:main:main",
    session_id="00000001",
    transcript="00000001.jsonl",
    reason="daily",
    ended_at_ms=1_773_500_000_000,
    channel="terminal",
)
OLD_BYTES = b"""{
  "version": 1,
  "key": "agent:main:main",
  "sessionId": "00000001",
  "transcript": "00000001.jsonl",
  "reason": "daily",
  "endedAt": 1773500000000,
  "channel": "terminal",
  "attempts": 0
}"""


def folder(path: Path) -> EndedSessionFiles:
    return EndedSessionFiles(path, now=lambda: datetime(2026, 3, 14, tzinfo=UTC))


async def test_an_ending_is_kept_until_it_is_struck_off(tmp_path: Path) -> None:
    """Another process sees it, the oldest first, and the number of attempts takes its place."""
    later = replace(ENDED, session_id="../up", ended_at_ms=ENDED.ended_at_ms + 1)
    endings = folder(tmp_path / "endings")
    assert await endings.all() == ()
    await endings.put(later)
    await endings.put(ENDED)
    await endings.put(replace(ENDED, attempts=1))

    assert await folder(tmp_path / "endings").all() == (replace(ENDED, attempts=1), later)
    assert sorted(path.parent.name for path in tmp_path.rglob("*.json")) == ["endings", "endings"]
    assert await endings.has(ENDED)
    await endings.remove(ENDED)
    await endings.remove(ENDED)
    assert await endings.all() == (later,)
    assert not await endings.has(ENDED)


async def test_the_bytes_of_version_1_are_read(tmp_path: Path) -> None:
    """A file that an earlier release left behind is finished by a later one."""
    (tmp_path / ended_session_file(ENDED)).write_bytes(OLD_BYTES)

    assert await folder(tmp_path).all() == (ENDED,)
    await folder(tmp_path).put(ENDED)
    assert (tmp_path / ended_session_file(ENDED)).read_bytes() == OLD_BYTES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 2}',
        OLD_BYTES.replace(b'"daily"', b'"whim"'),
        OLD_BYTES.replace(b"00000001.jsonl", b"../../x.jsonl"),
        OLD_BYTES.replace(b"1773500000000", b'"now"'),
        OLD_BYTES.replace(b'"attempts": 0', b'"attempts": true'),
        json.dumps({"version": 1}).encode(),
    ],
)
async def test_what_tells_no_ending_is_set_aside(tmp_path: Path, data: bytes) -> None:
    """It is neither guessed at nor deleted, and does not stop the others."""
    (tmp_path / "0.json").write_bytes(data)
    await folder(tmp_path).put(ENDED)

    assert await folder(tmp_path).all() == (ENDED,)
    assert [path.read_bytes() for path in tmp_path.glob("0.json.corrupt-*")] == [data]


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The session then goes on, because its ending could not be written down."""
    (tmp_path / "endings").write_text("a file is in the way")

    with pytest.raises(SessionWriteFailed, match="endings"):
        await folder(tmp_path / "endings").put(ENDED)
