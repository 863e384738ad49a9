"""The index: which session a key names, and how it comes back when the file is damaged."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionCorrupt, SessionWriteFailed
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord, record_from_json, record_to_json
from nacre.sessions.journal.journal import Journal
from tests.sessions.talk import FIXTURES, counted_ids, set_aside_in, ticking_clock

MAIN = "agent:main:main"


def record(session_id: str = "s-1", **more: object) -> SessionRecord:
    return replace(SessionRecord(session_id=session_id, updated_at_ms=5), **more)


def index(folder: Path) -> SessionIndex:
    return SessionIndex(folder, now=ticking_clock())


async def stored(folder: Path) -> dict[str, dict[str, object]]:
    """What other programs read, once whoever wrote is done."""
    await index(folder).close()
    return json.loads((folder / "sessions.json").read_text())


async def transcript(folder: Path, session_id: str, *, key: str | None, hour: int = 9) -> None:
    clock = ticking_clock()
    journal = await Journal.open(
        folder / f"{session_id}.jsonl",
        session_id=session_id,
        cwd=folder,
        now=lambda: clock().replace(hour=hour),
        new_id=counted_ids(),
    )
    about = {} if key is None else {"key": key, "chatKind": "direct"}
    await journal.append_custom("nacre.session", about)


@pytest.mark.covers("A4-2")
async def test_a_new_index_is_empty(tmp_path: Path) -> None:
    """Without a folder, and with an empty one, there are no sessions and nothing is written by looking."""
    for folder in (tmp_path / "none", tmp_path):
        assert await index(folder).all() == {}
        assert await index(folder).get(MAIN) is None
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "sessions.json").exists()


async def test_a_record_is_stored_under_openclaws_names(tmp_path: Path) -> None:
    """A record is on disk when the call returns, for the owner's eyes, and comes back as it was."""
    full = record(chat_type="direct", total_tokens=5, total_tokens_fresh=True, previous_session_ids=("s-0",))
    assert await index(tmp_path / "a").update(MAIN, lambda present: full) == full
    assert await stored(tmp_path / "a") == {
        MAIN: {
            "sessionId": "s-1",
            "updatedAt": 5,
            "chatType": "direct",
            "totalTokens": 5,
            "totalTokensFresh": True,
            "previousSessionIds": ["s-0"],
        }
    }
    assert await index(tmp_path / "a").get(MAIN) == full
    assert (tmp_path / "a" / "sessions.json").stat().st_mode & 0o777 == 0o600


def test_foreign_keys_survive() -> None:
    """Keys of other programs, and values of a wrong type, are written back as they were."""
    raw = {
        "sessionId": "s",
        "updatedAt": 1.0,
        "inputTokens": "many",
        "systemSent": 1,
        "origin": {"from": "x"},
        "compactionCount": 2.0,
        "previousSessionIds": "none",
    }
    read = record_from_json(raw)
    assert read is not None
    assert (read.updated_at_ms, read.input_tokens, read.system_sent, read.compaction_count) == (
        1,
        None,
        None,
        2,
    )
    assert record_to_json(read) == raw
    assert [record_from_json(odd) for odd in ({}, {"sessionId": ""}, {"sessionId": 5}, [], None)] == [
        None
    ] * 5


@pytest.mark.covers("A4-5")
async def test_an_update_changes_only_its_key(tmp_path: Path) -> None:
    """Other records stay, even what is no record; returning nothing removes the key."""
    (tmp_path / "sessions.json").write_text('{"other": {"sessionId": "o", "note": 1}, "odd": 5}')
    sessions = index(tmp_path)
    await sessions.update(MAIN, lambda present: record())
    assert await sessions.update(MAIN, lambda present: None) is None
    assert await stored(tmp_path) == {"other": {"sessionId": "o", "note": 1}, "odd": 5}
    assert list(await sessions.all()) == ["other"]


@pytest.mark.covers("A4-5")
async def test_writers_do_not_lose_each_others_changes(tmp_path: Path) -> None:
    """Changes made at the same time through two objects all arrive."""
    sessions = [index(tmp_path), index(tmp_path)]
    await sessions[0].update(MAIN, lambda present: record(compaction_count=0))

    def counted(present: SessionRecord | None) -> SessionRecord:
        assert present is not None
        return replace(present, compaction_count=(present.compaction_count or 0) + 1)

    await asyncio.gather(
        *(sessions[number % 2].update(MAIN, counted) for number in range(20)),
        *(sessions[number % 2].update(f"k{number}", lambda present: record()) for number in range(10)),
    )
    assert (await stored(tmp_path))[MAIN]["compactionCount"] == 20
    assert len(await stored(tmp_path)) == 11


async def test_a_failing_change_writes_nothing(tmp_path: Path) -> None:
    """What a change raises reaches the caller, and the index is as it was."""
    await index(tmp_path).update(MAIN, lambda present: record())
    before = (tmp_path / "sessions.json").read_bytes()

    def failing(present: SessionRecord | None) -> SessionRecord:
        raise KeyError("no")

    with pytest.raises(KeyError):
        await index(tmp_path).update(MAIN, failing)
    assert (tmp_path / "sessions.json").read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"{torn", b"[]", b"\xff", b"\0" * 90])
@pytest.mark.covers("A4-2", "A4-3")
async def test_a_damaged_index_comes_back_from_its_backup(tmp_path: Path, damage: bytes) -> None:
    """An index that cannot be read is set aside; backup and transcripts together give it back."""
    await index(tmp_path).update("telegram", lambda present: record("s-1"))
    await transcript(tmp_path, "s-2", key=MAIN)
    await index(tmp_path).update(MAIN, lambda present: record("s-2"))
    (tmp_path / "sessions.json").write_bytes(damage)

    sessions = index(tmp_path)
    found = await sessions.all()

    assert {key: item.session_id for key, item in found.items()} == {"telegram": "s-1", MAIN: "s-2"}
    assert set_aside_in(tmp_path) == [damage]
    assert len(sessions.notices) == 1
    assert "2 sessions were restored from its backup and the transcripts" in sessions.notices[0]
    assert (await index(tmp_path).all()) == found


@pytest.mark.covers("A4-2")
async def test_an_index_is_rebuilt_from_transcripts(tmp_path: Path) -> None:
    """Without index and backup each key names its newest transcript, and no session is lost."""
    await transcript(tmp_path, "old", key=MAIN, hour=8)
    await transcript(tmp_path, "new", key=MAIN, hour=10)
    await transcript(tmp_path, "Lost", key=None)
    (tmp_path / "broken.jsonl").write_text("no transcript")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "old.jsonl")
    (tmp_path / "v3.jsonl").write_bytes((FIXTURES / "v3-pi.jsonl").read_bytes())

    found = await index(tmp_path).all()

    assert {key: item.session_id for key, item in found.items()} == {
        MAIN: "new",
        "recovered:lost": "Lost",
        "recovered:33333333-1111-4222-8333-444455556666": "33333333-1111-4222-8333-444455556666",
    }
    assert found[MAIN].previous_session_ids == ("old",)
    assert found[MAIN].chat_type == "direct"
    foreign = found["recovered:33333333-1111-4222-8333-444455556666"]
    assert index(tmp_path).transcript_path(foreign) == tmp_path / "v3.jsonl"


async def test_a_transcript_newer_than_the_backup_wins(tmp_path: Path) -> None:
    """When the backup still names the session before `/new`, the newer transcript is the key's session."""
    await transcript(tmp_path, "first", key=MAIN, hour=8)
    await index(tmp_path).update(MAIN, lambda present: record("first", extra={"label": "x"}))
    await index(tmp_path).update("k", lambda present: record("k"))
    await transcript(tmp_path, "second", key=MAIN, hour=10)
    (tmp_path / "sessions.json").unlink()
    found = await index(tmp_path).all()
    assert (found[MAIN].session_id, found[MAIN].previous_session_ids) == ("second", ("first",))


async def test_an_index_written_by_hand_is_read(tmp_path: Path) -> None:
    """Comments and trailing commas of JSON5 do not make an index unreadable."""
    (tmp_path / "sessions.json").write_text(
        "// mine\n{'agent:main:main': {sessionId: 's-1', updatedAt: 5,},}"
    )
    assert await index(tmp_path).all() == {MAIN: record()}
    assert index(tmp_path).notices == ()


@pytest.mark.parametrize(
    "name",
    [
        "../s.jsonl",
        "/etc/passwd",
        "a/b.jsonl",
        "..",
        "s.txt",
        "x\0.jsonl",
        ".jsonl",
        "sessions.json",
        "a\n.jsonl",
    ],
)
def test_a_transcript_never_leaves_its_folder(tmp_path: Path, name: str) -> None:
    """A record that names a file elsewhere, or no transcript, is refused with a sentence."""
    for named in (record(session_file=name), record(name.removesuffix(".jsonl") if "/" in name else "../up")):
        with pytest.raises(SessionCorrupt, match=r"which is not a \.jsonl file in"):
            index(tmp_path).transcript_path(named)


@pytest.mark.covers("A4-9")
def test_a_transcript_brought_along_is_found_here(tmp_path: Path) -> None:
    """A record that names another machine's path means the file of that name in this folder."""
    sessions = index(tmp_path)
    (tmp_path / "s-9.jsonl").touch()
    for name in ("/home/else/sessions/s-9.jsonl", str(tmp_path / "s-9.jsonl"), "s-9.jsonl", None):
        assert sessions.transcript_path(record("s-9", session_file=name)) == tmp_path / "s-9.jsonl"
    assert sessions.transcript_path(record("s-10")) == tmp_path / "s-10.jsonl"


async def test_an_index_that_cannot_be_read_at_all_is_reported(tmp_path: Path) -> None:
    """A folder in the index's place is an error, not an empty index."""
    (tmp_path / "sessions.json").mkdir()
    with pytest.raises((SessionWriteFailed, SessionCorrupt), match=r"sessions\.json"):
        await index(tmp_path).all()


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.covers("W4-2", "ASK-23")
async def test_a_torn_index_never_counts_as_empty(tmp_path: Path, kept: float) -> None:
    """Cut off anywhere, with its backup or without: each key names the session that it named."""
    await transcript(tmp_path, "s-1", key=MAIN)
    for number in range(3):
        await index(tmp_path).update(MAIN, lambda _, number=number: record("s-1", compaction_count=number))
        await index(tmp_path).close()
    whole = (tmp_path / "sessions.json").read_bytes()
    for has_backup in (True, False):
        (tmp_path / "sessions.json").write_bytes(whole[: int(len(whole) * kept)])
        if not has_backup:
            for path in tmp_path.glob("sessions.json.*"):
                path.unlink()
        found = await index(tmp_path).update(MAIN, lambda present: present)
        assert found is not None
        assert found.session_id == "s-1"


@pytest.mark.covers("W4-3")
async def test_an_index_is_never_written_in_place(tmp_path: Path) -> None:
    """Who reads while it changes reads the old one to its end; the new one has its place at once."""
    await index(tmp_path).update(MAIN, lambda present: record("s-1"))
    with (tmp_path / "sessions.json").open() as reader:
        await index(tmp_path).update(MAIN, lambda present: record("s-2", compaction_count=1))
        await index(tmp_path).close()
        assert json.load(reader)[MAIN]["sessionId"] == "s-1"
    assert (await stored(tmp_path))[MAIN]["sessionId"] == "s-2"
    assert json.loads((tmp_path / "sessions.json.bak").read_text())[MAIN]["sessionId"] == "s-1"


async def test_edits_that_come_together_wait_for_the_disk_once_and_see_each_other(tmp_path: Path) -> None:
    """Each is as if it came behind the one before it; one that fails fails alone."""
    synced: list[int] = []

    def counting(descriptor: int) -> None:
        synced.append(descriptor)
        os.fsync(descriptor)

    sessions = SessionIndex(tmp_path, now=ticking_clock(), sync=counting)
    await sessions.update(MAIN, lambda _record: record(updated_at_ms=0))
    before = len(synced)

    def later(there: SessionRecord | None) -> SessionRecord:
        assert there is not None, "the edit before it is not seen"
        return replace(
            there, session_id=f"s-{there.updated_at_ms + 1}", updated_at_ms=there.updated_at_ms + 1
        )

    def refused(_there: SessionRecord | None) -> SessionRecord:
        raise LookupError("not this one")

    given = await asyncio.gather(
        *(sessions.update(MAIN, later) for _ in range(30)),
        sessions.update("agent:main:other", refused),
        *(sessions.update(f"agent:main:{number}", lambda _record: record()) for number in range(30)),
        sessions.update("agent:main:0", lambda _record: None),
        return_exceptions=True,
    )
    assert [one.updated_at_ms for one in given[:30]] == list(range(1, 31))
    assert isinstance(given[30], LookupError)
    assert len(synced) - before < 10
    assert set(await stored(tmp_path)) == {MAIN, *(f"agent:main:{number}" for number in range(1, 30))}


async def test_a_change_that_may_wait_for_the_disk_is_seen_at_once_and_flushed_later(tmp_path: Path) -> None:
    """A new session's record waits for the disk together with its first message."""
    synced: list[int] = []

    def counting(descriptor: int) -> None:
        synced.append(descriptor)
        os.fsync(descriptor)

    sessions = SessionIndex(tmp_path, now=ticking_clock(), sync=counting)
    await sessions.update(MAIN, lambda _record: record())
    synced.clear()
    await sessions.update("agent:main:new", lambda _record: record(session_id="s-new"), durable=False)
    assert (synced, set(await stored(tmp_path))) == ([], {MAIN, "agent:main:new"})
    await asyncio.gather(sessions.flush(), sessions.flush())
    assert len(synced) >= 1
    synced.clear()
    await sessions.flush()
    assert synced == []
