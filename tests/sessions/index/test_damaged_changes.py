"""Damaged changes, and damaged indexes with changes beside them: nothing that was promised is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionVersionUnknown, SessionWriteFailed
from nacre.sessions.index.index import SessionIndex
from tests.sessions.index.changing import FIXTURES, MAIN, change, index, put, record
from tests.sessions.talk import set_aside_in, ticking_clock


@pytest.mark.parametrize("cut", range(1, 40, 6))
async def test_a_torn_change_is_set_aside_and_the_others_stay(tmp_path: Path, cut: int) -> None:
    """A reader passes it over; the next edit sets it aside and goes on."""
    await index(tmp_path).update(MAIN, put(record()))
    await index(tmp_path).update(MAIN, change(label="whole"))
    path = tmp_path / "sessions.json.changes"
    whole = path.read_bytes()
    await index(tmp_path).update(MAIN, change(label="torn"))
    torn = path.read_bytes()[:-cut]
    path.write_bytes(torn)

    assert (await index(tmp_path).all())[MAIN].label == "whole"
    assert path.read_bytes() == torn
    sessions = index(tmp_path)
    await sessions.update(MAIN, change(compaction_count=2))
    found = await index(tmp_path).get(MAIN)
    assert found == record(label="whole", compaction_count=2)
    assert torn.startswith(whole)
    assert set_aside_in(tmp_path) == [torn]
    assert "Not every line" in sessions.notices[0]


async def test_a_broken_line_of_changes_costs_only_itself(tmp_path: Path) -> None:
    """It is set aside with the file that it stood in, once; what was changed before and behind it stays."""
    for label in ("one", "two", "three"):
        await index(tmp_path).update(label, put(record(label=label)))
    path = tmp_path / "sessions.json.changes"
    lines = path.read_bytes().splitlines(keepends=True)
    broken = b"".join((lines[0], b'{"type": "edit", "changes": [7]}\n', *lines[1:], b"\xff\n"))
    path.write_bytes(broken)

    sessions = index(tmp_path)
    assert set(await sessions.all()) == {"one", "two", "three"}
    assert set_aside_in(tmp_path) == [broken]
    again = index(tmp_path)
    assert set(await again.all()) == {"one", "two", "three"}
    assert again.notices == ()


@pytest.mark.parametrize("damage", [b"", b"{torn", None])
async def test_no_change_is_lost_with_sessions_json(tmp_path: Path, damage: bytes | None) -> None:
    """The backup, what changed until then and what changed since are the index as it was, to the field."""
    sessions = index(tmp_path)
    for number in range(4):
        for key in ("a", "b", "c"):
            await sessions.update(key, change(session_id=f"{key}{number}", label=f"{number}", model="m"))
        if number != 2:
            await sessions.close()
        await sessions.update("a", change(compaction_count=number))
    before = await sessions.all()
    path = tmp_path / "sessions.json"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)

    after = index(tmp_path)
    assert await after.all() == before
    assert "from its backup" in after.notices[0]


async def test_changes_of_a_newer_program_are_left_alone(tmp_path: Path) -> None:
    """They are neither read as far as they can be nor overwritten."""
    await index(tmp_path).update(MAIN, put(record()))
    path = tmp_path / "sessions.json.changes"
    path.write_bytes(b'{"type":"header","version":2}\n')
    for attempt in (index(tmp_path).all(), index(tmp_path).update(MAIN, change(label="x"))):
        with pytest.raises(SessionVersionUnknown, match="Use a newer Nacre"):
            await attempt
    assert path.read_bytes() == b'{"type":"header","version":2}\n'


async def test_changes_of_version_1_are_read_for_ever(tmp_path: Path) -> None:
    """The fixture is as the first version wrote it: a new line, changed fields, a line gone, an odd one."""
    for name in ("sessions.json", "sessions.json.changes"):
        (tmp_path / name).write_bytes((FIXTURES / f"index-v1-{name}").read_bytes())
    assert await index(tmp_path).all() == {
        MAIN: record("s-1", updated_at_ms=9, label="Mine", extra={"mood": {"good": True}}),
        "agent:main:telegram:dm:9": record("s-2", chat_type="direct"),
        "odd": record("s-3"),
    }


async def test_a_change_that_the_disk_refuses_leaves_no_trace(tmp_path: Path) -> None:
    """Not in memory, not in the file; the next one is made."""
    is_full = False

    def full(descriptor: int) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        os.fsync(descriptor)

    sessions = SessionIndex(tmp_path, now=ticking_clock(), sync=full)
    await sessions.update(MAIN, put(record()))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    is_full = True
    with pytest.raises(SessionWriteFailed, match="No space left"):
        await sessions.update(MAIN, change(label="lost"))
    await sessions.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    is_full = False
    assert await sessions.get(MAIN) == record()
    await sessions.update(MAIN, change(label="kept"))
    assert await index(tmp_path).get(MAIN) == record(label="kept")
