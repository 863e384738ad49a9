"""What memory search is told of an agent's transcripts, with real files and a real index."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.memory.files.sources.secrets import without_secrets
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.runtime.recall.transcripts import SessionTranscripts
from nacre.sessions.index.record import SessionRecord
from tests.sessions.stores.places import file_store

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:family"


def message(role: str, *texts: str, at: datetime = NOON, **more: Any) -> dict[str, Any]:
    """A message entry of texts."""
    content = [{"type": "text", "text": text} for text in texts]
    at_ms = int(at.timestamp() * 1000)
    return {"type": "message", "message": {"role": role, "content": content, "timestamp": at_ms, **more}}


def lines_of(*entries: Mapping[str, Any]) -> str:
    """A transcript file with a header."""
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-14T12:00:00.000Z", "cwd": "/"}
    rows = [{"id": f"e{n}", "parentId": None, **entry} for n, entry in enumerate(entries)]
    return "".join(json.dumps(row) + "\n" for row in [header, *rows])


class Folder:
    """An agent's folder of sessions, and the source over it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        store = file_store(directory, now=lambda: NOON, new_id=CountingIds())
        self.index = store.index
        self.clock = Clock(datetime.now(BERLIN))
        self.source = SessionTranscripts(store, agent_id="main", main_key="main", now=self.clock)

    async def names(self, key: str, session_id: str, *earlier: str) -> None:
        """Makes a session the current one of its key."""
        record = SessionRecord(session_id=session_id, updated_at_ms=1, previous_session_ids=earlier)
        await self.index.update(key, lambda _: record)

    def write(self, session_id: str, text: str) -> Path:
        """Writes a transcript file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{session_id}.jsonl"
        path.write_text(text, encoding="utf-8")
        return path

    async def text(self, session_id: str) -> TranscriptText:
        """What one transcript says."""
        await self.source.transcripts()
        found = await self.source.text(f"{session_id}.jsonl")
        assert found is not None
        return found

    async def infos(self) -> dict[str, TranscriptInfo]:
        """All transcripts by session id."""
        return {info.name.removesuffix(".jsonl"): info for info in await self.source.transcripts()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty folder of sessions."""
    return Folder(tmp_path / "sessions")


@pytest.mark.covers("SESS-1", "Q-42")
async def test_people_and_assistant_are_quoted_with_their_lines(folder: Folder) -> None:
    """One line a message, white space folded, with its line of the file and its day in the owner's zone."""
    late = datetime(2026, 3, 14, 23, 30, tzinfo=UTC)
    folder.write(
        "s1",
        lines_of(
            message("user", "Where is\n\n the   hive?", "By the pond?"),
            message("assistant", "Behind the barn.", at=late),
        ),
    )
    await folder.names(MAIN, "s1")
    found = await folder.text("s1")

    assert found.lines == ["User: Where is the hive? By the pond?", "Assistant: Behind the barn."]
    assert found.line_numbers == [2, 3]
    assert found.days == [date(2026, 3, 14), date(2026, 3, 15)]


@pytest.mark.covers("SESS-3", "SESS-6")
async def test_only_what_was_said_is_quoted(folder: Folder) -> None:
    """No tools, thinking, recalled notes, flushes, summaries, commands, silence or broken lines."""
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "SECRET-ARGUMENT"}}
    thinking = {"type": "thinking", "thinking": "SECRET-THOUGHT"}
    answer = message("assistant", "Here.")
    answer["message"]["content"] = [thinking, *answer["message"]["content"], call]
    entries = [
        message("user", "/status"),
        answer,
        message("toolResult", "SECRET-RESULT", toolCallId="c", toolName="read"),
        {"type": "custom_message", "customType": "nacre.recall", "content": "SECRET-NOTE"},
        {"type": "custom", "customType": "nacre.flush_message", "data": message("user", "SECRET-FLUSH")},
        {"type": "compaction", "summary": "SECRET-SUMMARY", "firstKeptEntryId": "e0", "tokensBefore": 1},
        message("assistant", "NO_REPLY"),
        message("assistant", "Noted.\n\nNO_REPLY"),
        message("user", "   "),
    ]
    file = folder.write(
        "s1", lines_of(*entries) + "\nnot json\n" + json.dumps(message("user", "Last?")) + "\n"
    )
    found = await folder.text("s1")

    assert found.lines == ["Assistant: Here.", "Assistant: Noted.", "Somebody: Last?"]
    rows = file.read_text(encoding="utf-8").split("\n")
    assert [json.loads(rows[number - 1])["type"] for number in found.line_numbers] == ["message"] * 3
    assert "Last?" in rows[found.line_numbers[-1] - 1]


@pytest.mark.parametrize(
    ("key", "private", "speaker"),
    [
        (MAIN, True, "User"),
        (MAIN, False, "Somebody"),
        (MAIN, None, "User"),
        (f"{MAIN}:thread:7", None, "User"),
        (GROUP, None, "Somebody"),
        (GROUP, False, "Somebody"),
        ("agent:main:telegram:dm:99", None, "Somebody"),
        ("agent:main:telegram:dm:42", True, "User"),
        ("agent:other:main", None, "Somebody"),
    ],
)
async def test_only_the_owner_is_called_user(
    folder: Folder, key: str, private: bool | None, speaker: str
) -> None:
    """The session's own entry tells; where it does not, only the main session is the owner's for sure."""
    data = {"key": key} if private is None else {"key": key, "private": private}
    told = {"type": "custom", "customType": "nacre.session", "data": data}
    folder.write("s1", lines_of(told, message("user", "My sister lives in Graz.")))

    assert (await folder.text("s1")).lines == [f"{speaker}: My sister lives in Graz."]


async def test_an_earlier_session_has_its_key_from_the_index(folder: Folder) -> None:
    """A file of another program says nothing of itself; the index knows it."""
    await folder.names(MAIN, "new", "old")
    folder.write("old", lines_of(message("user", "Hello")))
    folder.write("new", lines_of(message("user", "Hello again")))

    assert (await folder.text("old")).lines == ["User: Hello"]


@pytest.mark.covers("SESS-4")
async def test_a_session_that_its_key_left_has_ended(folder: Folder) -> None:
    """The current session of a key goes on until an hour of silence; all others are over."""
    await folder.names(MAIN, "new", "old")
    for session_id in ("old", "new", "lost"):
        folder.write(session_id, lines_of(message("user", "Hello")))
    before = {name: info.ended for name, info in (await folder.infos()).items()}
    folder.clock.advance(hours=2)
    after = {name: info.ended for name, info in (await folder.infos()).items()}

    assert before == {"old": True, "new": False, "lost": True}
    assert after == {"old": True, "new": True, "lost": True}


async def test_listing_reads_only_what_is_new(folder: Folder) -> None:
    """Lines are counted once; a file that only grew is read from where it ended."""
    first = lines_of(message("user", "one"))
    file = folder.write("s1", first)
    assert (await folder.infos())["s1"].lines == 2
    with file.open("r+b") as handle:
        handle.write(b"\n" * 5)  # what was counted is not looked at again
    assert (await folder.infos())["s1"].lines == 2
    with file.open("ab") as handle:
        handle.write(b"{}\n{}\n{}")
    info = (await folder.infos())["s1"]

    assert info.lines == 4
    assert info.size_bytes == len(first.encode()) + 8


async def test_a_file_that_was_replaced_is_counted_anew(folder: Folder) -> None:
    """A shorter file, or another one under the name, has its own lines."""
    file = folder.write("s1", lines_of(*[message("user", "word")] * 9))
    assert (await folder.infos())["s1"].lines == 10
    file.write_text(lines_of(message("user", "one")), encoding="utf-8")
    assert (await folder.infos())["s1"].lines == 2
    other = file.with_suffix(".new")
    other.write_text(lines_of(*[message("user", "word")] * 20), encoding="utf-8")
    other.replace(file)
    assert (await folder.infos())["s1"].lines == 21


@pytest.mark.covers("SESS-4", "SESS-5")
async def test_only_plain_transcripts_of_this_folder_are_listed(folder: Folder, tmp_path: Path) -> None:
    """Links, folders, locks and what was set aside are no transcripts; a deleted one is gone."""
    outside = tmp_path / "other.jsonl"
    outside.write_text(lines_of(message("user", "another agent's words")), encoding="utf-8")
    file = folder.write("s1", lines_of(message("user", "Hello")))
    folder.write("s1.jsonl.corrupt-20260314T120000Z", "").rename(
        folder.directory / "s1.jsonl.corrupt-20260314T120000Z"
    )
    (folder.directory / "link.jsonl").symlink_to(outside)
    (folder.directory / "folder.jsonl").mkdir()
    assert list(await folder.infos()) == ["s1"]
    assert await folder.source.text("link.jsonl") is None

    file.unlink()
    assert await folder.infos() == {}
    assert await folder.source.text("s1.jsonl") is None


async def test_no_sessions_yet_is_no_failure(folder: Folder) -> None:
    """A fresh agent has no folder."""
    assert await folder.infos() == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_an_unreadable_folder_is_told(folder: Folder) -> None:
    """A folder that cannot be listed must not look like one without sessions."""
    folder.write("s1", lines_of(message("user", "Hello")))
    folder.directory.chmod(0)
    try:
        with pytest.raises(OSError, match="sessions"):
            await folder.infos()
    finally:
        folder.directory.chmod(0o700)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key sk-proj-abc123DEF456ghi789 works", "key [redacted] works"),
        ("ghp_0123456789abcdefghij0123456789abcdef", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
        ("postgres://nora:hunter22@db/bees", "postgres://[redacted]@db/bees"),
        ("API_KEY=abcdef123456 and more", "API_KEY=[redacted] and more"),
        ('"password": "hunter2222"', '"password": "[redacted]"'),
        ("-----BEGIN RSA PRIVATE KEY----- MIIE -----END RSA PRIVATE KEY----- after", "[redacted] after"),
        ("bot 123456789:AAEhBOweik9ai-abcdefghijklmnopqrstu", "bot [redacted]"),
        ("max_tokens: 128000, the sk-learn-extensions, commit a828e60", None),
        ("The token of the talk was kindness.", None),
    ],
)
@pytest.mark.covers("SESS-6")
def test_secrets_are_not_indexed(text: str, kept: str | None) -> None:
    """What looks like a key or a password is replaced, ordinary words and numbers are not."""
    assert without_secrets(text) == (text if kept is None else kept)
