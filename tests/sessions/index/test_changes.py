"""The changes beside `sessions.json`: what they cost, who is right, and what becomes of damaged ones."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.locks import try_lock
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from tests.runtime.turn.watched_work import watched_work
from tests.sessions.disk_steps import disk_steps, is_on_disk
from tests.sessions.index.changing import MAIN, change, index, put, record
from tests.sessions.talk import START, set_aside_in, ticking_clock


async def stored(folder: Path) -> dict[str, dict[str, object]]:
    """What other programs read, once whoever wrote is done."""
    await index(folder).close()
    return on_disk(folder)


def on_disk(folder: Path) -> dict[str, dict[str, object]]:
    return json.loads((folder / "sessions.json").read_text())


async def test_an_edit_appends_a_line_and_close_writes_the_index(tmp_path: Path) -> None:
    """`sessions.json` stays as it is until then; closing once more changes nothing."""
    sessions = index(tmp_path)
    await sessions.update(MAIN, put(record()))
    before = (tmp_path / "sessions.json").read_bytes()
    await sessions.update(MAIN, change(label="mine"))
    assert (tmp_path / "sessions.json").read_bytes() == before
    assert len((tmp_path / "sessions.json.changes").read_text().splitlines()) == 2

    await sessions.close()
    assert on_disk(tmp_path)[MAIN]["label"] == "mine"
    facts = (tmp_path / "sessions.json").stat()
    await sessions.close()
    assert (tmp_path / "sessions.json").stat() == facts


async def test_what_another_object_changed_is_seen_at_the_next_look(tmp_path: Path) -> None:
    """Whether it is in the changes, in `sessions.json`, or both, and however often it was written anew."""
    mine, other = index(tmp_path), index(tmp_path)
    for number in range(12):
        await other.update(MAIN, change(compaction_count=number))
        if number % 3 == 0:
            await other.close()
        seen = await mine.get(MAIN)
        assert seen is not None
        assert seen.compaction_count == number


@pytest.mark.parametrize("pause", [0.0, 0.1])
@pytest.mark.covers("A4-1")
async def test_an_index_written_by_another_program_counts_at_once(tmp_path: Path, pause: float) -> None:
    """In place, with as many bytes as before and again and again: within one tick of the clock too."""
    sessions = index(tmp_path)
    await sessions.update(MAIN, put(record("s-0")))
    path = tmp_path / "sessions.json"
    for number in range(1, 10):
        path.write_text(path.read_text().replace(f"s-{number - 1}", f"s-{number}"))
        found = await sessions.get(MAIN)
        assert found is not None
        assert found.session_id == f"s-{number}"
        await asyncio.sleep(pause)


async def test_another_program_is_right_about_what_it_changed(tmp_path: Path) -> None:
    """And about nothing else: fields and lines that only Nacre changed since are as Nacre left them."""
    sessions = index(tmp_path)
    for key in ("theirs", "removed", MAIN):
        await sessions.update(key, put(record(f"of-{key}")))
    await sessions.close()
    read_by_them = on_disk(tmp_path)
    await sessions.update(MAIN, change(label="mine", compaction_count=3))
    await sessions.update("theirs", change(compaction_count=3))
    await sessions.update("removed", change(compaction_count=3))
    await sessions.update("new", put(record("of-new")))

    read_by_them[MAIN] |= {"updatedAt": 9, "mood": "good"}
    read_by_them["theirs"] = {"sessionId": "another", "updatedAt": 9}
    del read_by_them["removed"]
    (tmp_path / "sessions.json").write_text(json.dumps(read_by_them))

    for who in (sessions, index(tmp_path)):
        found = await who.all()
        assert found == {
            "theirs": replace(record("another"), updated_at_ms=9),
            MAIN: record(
                f"of-{MAIN}", updated_at_ms=9, label="mine", compaction_count=3, extra={"mood": "good"}
            ),
            "new": record("of-new"),
        }
    await sessions.close()
    assert set(on_disk(tmp_path)) == {"theirs", MAIN, "new"}


async def test_an_older_index_put_back_gets_what_changed_since(tmp_path: Path) -> None:
    """A backup restored while an agent runs: what it says of other lines counts, what is new stays new."""
    sessions = index(tmp_path)
    await sessions.update("old", put(record("s-old")))
    await sessions.close()
    backup = (tmp_path / "sessions.json").read_bytes()
    await sessions.update("later", put(record("s-later")))
    await sessions.close()
    await sessions.update("newest", put(record("s-newest")))

    (tmp_path / "sessions.json").write_bytes(backup)

    assert set(await sessions.all()) == {"old", "newest"}


async def test_only_what_no_transcript_tells_waits_for_the_disk(tmp_path: Path) -> None:
    """One sync for an edit that must last, none for one that mirrors the transcript, none for a look."""
    synced: list[int] = []

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        os.fsync(descriptor)

    sessions = SessionIndex(tmp_path, now=ticking_clock(), sync=counted)
    await sessions.update(MAIN, put(record()))
    costs = []
    for changed in (
        change(updated_at_ms=6, total_tokens=7, model="m", last_interaction_at_ms=6),
        change(label="mine"),
        change(session_id="s-2"),
        change(label="mine"),
        lambda _present: None,
    ):
        synced.clear()
        await sessions.update(MAIN, changed)
        await sessions.get(MAIN)
        costs.append(len(synced))
    assert costs == [0, 1, 1, 0, 1]


def counting_one(present: SessionRecord) -> SessionRecord:
    return replace(present, input_tokens=(present.input_tokens or 0) + 1)


async def test_what_is_mirrored_needs_neither_thread_nor_disk(tmp_path: Path) -> None:
    """The bytes are those of an update; what no transcript tells waits for the disk here, too."""
    sessions = index(tmp_path)
    with watched_work() as work:
        await sessions.update(MAIN, put(record()))
        await sessions.mirror(MAIN, counting_one)
        before = work.so_far()
        await sessions.mirror(MAIN, counting_one)
        mirrored = work - before
        await sessions.mirror(MAIN, lambda present: replace(present, label="mine"))
        lasting = work - before - mirrored
    assert (mirrored.hops, mirrored.syncs) == (0, 0)
    assert (lasting.hops, lasting.syncs) == (1, 1)
    lines = (tmp_path / "sessions.json.changes").read_bytes().splitlines()
    assert json.loads(lines[2])["changes"] == [
        {
            "key": MAIN,
            "was": {"sessionId": "s-1", "inputTokens": 1},
            "now": {"sessionId": "s-1", "inputTokens": 2},
        }
    ]
    assert await index(tmp_path).get(MAIN) == record(input_tokens=2, label="mine")


async def test_what_is_mirrored_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While somebody else writes, it waits on a thread, and begins from what that other one wrote."""
    sessions = index(tmp_path)
    await sessions.update(MAIN, put(record()))
    await sessions.mirror(MAIN, counting_one)
    release = try_lock(tmp_path / "sessions.json.lock")
    assert release is not None
    waiting = asyncio.create_task(sessions.mirror(MAIN, counting_one))
    behind_it = asyncio.create_task(sessions.mirror(MAIN, counting_one))
    await asyncio.sleep(0)
    assert not waiting.done()
    release()
    assert [await waiting, await behind_it] == [record(input_tokens=2), record(input_tokens=3)]


async def test_a_look_reads_nothing_while_nothing_changed(tmp_path: Path) -> None:
    """An index is read once; its files may even be unreadable as long as they look the same."""
    sessions = index(tmp_path)
    many: dict[str, SessionRecord | None] = {f"k{number}": record() for number in range(50)}
    await sessions.edit(lambda _: many)
    path = tmp_path / "sessions.json"
    facts, size = path.stat(), path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"x" * size)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert await sessions.get("k7") == record()
    assert sessions.notices == ()


async def test_sessions_json_follows_within_a_minute_of_talk(tmp_path: Path) -> None:
    """The first edit after it has it written, beside the edits."""
    now = START
    sessions = SessionIndex(tmp_path, now=lambda: now)
    await sessions.update(MAIN, put(record(compaction_count=0)))
    await sessions.update(MAIN, change(compaction_count=1))
    assert on_disk(tmp_path)[MAIN]["compactionCount"] == 0
    now += timedelta(seconds=61)
    await sessions.update(MAIN, change(compaction_count=2))
    [writing] = [task for task in asyncio.all_tasks() if task.get_name() == "sessions-index"]
    await writing
    assert on_disk(tmp_path)[MAIN]["compactionCount"] == 2


async def test_edits_while_the_index_is_written_are_kept(tmp_path: Path) -> None:
    """By this program and by another one; each is in the file or in the changes behind it."""
    mine, other = index(tmp_path), index(tmp_path)
    await mine.edit(lambda _: {f"k{number}": record() for number in range(400)})

    async def counting(who: SessionIndex, key: str) -> None:
        for number in range(40):
            await who.update(key, change(compaction_count=number, label=f"{number}"))

    async def writing(who: SessionIndex) -> None:
        for _ in range(12):
            await who.close()
            await asyncio.sleep(0)

    await asyncio.gather(counting(mine, "a"), counting(other, "b"), writing(mine), writing(other))
    for who in (mine, other, index(tmp_path)):
        found = await who.all()
        assert [found[key].compaction_count for key in "ab"] == [39, 39]
        assert len(found) == 402
        assert who.notices == ()
    assert set_aside_in(tmp_path) == []


@pytest.mark.covers("A4-1", "A4-6", "W4-4")
async def test_an_update_never_starts_from_what_was_read_before(tmp_path: Path) -> None:
    """What another process wrote since the last look, even within one tick of the clock, is kept."""
    mine, other = index(tmp_path), index(tmp_path)
    await mine.update(MAIN, lambda present: record("s-1"))
    seen = await mine.all()
    await other.update(MAIN, lambda present: replace(present or record(), label="theirs"))
    await other.update("k", lambda present: record("s-2"))
    await mine.update(MAIN, lambda present: replace(present or record(), compaction_count=7))

    assert (await stored(tmp_path))[MAIN] == {
        "sessionId": "s-1",
        "updatedAt": 5,
        "label": "theirs",
        "compactionCount": 7,
    }
    assert list(seen) == [MAIN]
    assert list(await mine.all()) == [MAIN, "k"]


@pytest.mark.covers("A4-6")
async def test_several_lines_change_at_once_or_not_at_all(tmp_path: Path) -> None:
    """One edit adds, changes and removes; a key that it does not name stays as it is."""
    for key in ("a", "b", "c"):
        await index(tmp_path).update(key, lambda present: record())
    changed = {"a": None, "b": record("s-9"), "d": record("s-4"), "none": None}
    assert await index(tmp_path).edit(lambda records: changed) == changed
    assert {key: item["sessionId"] for key, item in (await stored(tmp_path)).items()} == {
        "b": "s-9",
        "c": "s-1",
        "d": "s-4",
    }


async def test_an_index_of_a_later_program_is_kept_whole(tmp_path: Path) -> None:
    """Names and times that this program does not know of are read past and written back."""
    future = {"sessionId": "s-1", "updatedAt": 99_999_999_999_999, "mood": {"a": [1]}, "channel": ["x"]}
    (tmp_path / "sessions.json").write_text(json.dumps({MAIN: future, "schema": 9}))
    await index(tmp_path).update(MAIN, lambda present: replace(present or record(), label="x"))
    assert await stored(tmp_path) == {MAIN: {**future, "label": "x"}, "schema": 9}


async def test_names_are_on_disk_before_the_next_step(tmp_path: Path) -> None:
    """The first change and a written index last through a power cut, and so do the changes behind it."""
    sessions = index(tmp_path)
    with disk_steps(tmp_path) as steps:
        await sessions.update(MAIN, put(record()))
    assert is_on_disk(steps, "sessions.json.changes")

    await sessions.update(MAIN, change(label="mine"))
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # threads that begin when watched
    with disk_steps(tmp_path) as steps:
        await sessions.close()
    renamed = steps.index(("named", "sessions.json")), steps.index(("named", "sessions.json.changes"))
    assert renamed[0] < renamed[1]
    assert is_on_disk(steps[: renamed[1]], "sessions.json")
    assert is_on_disk(steps, "sessions.json.changes")
