"""What is let go of sessions: lines that nobody uses, programs' transcripts, and files only within limits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.keys import key_kind
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.files import maintain
from nacre.sessions.upkeep.maintenance import (
    PROTECTED_KINDS,
    FileKind,
    MaintenanceLimits,
    StoredFile,
    files_to_remove,
    lines_to_prune,
)
from tests.sessions.disk_steps import disk_steps, is_on_disk
from tests.sessions.talk import START

DAY_MS = 86_400_000
NOW_MS = int(START.timestamp() * 1000)
LIMITS = MaintenanceLimits(
    prune_after_ms=30 * DAY_MS,
    most_entries=500,
    archive_retention_ms=None,
    most_bytes=None,
    high_water_bytes=None,
)


def idle(days: float, **extra: object) -> SessionRecord:
    """A line in which somebody last spoke so many days ago."""
    return SessionRecord(session_id="s", updated_at_ms=NOW_MS - int(days * DAY_MS), extra=extra)


def peers(count: int, *, days: float = 1, name: str = "p") -> dict[str, SessionRecord]:
    """Direct chats, each idle a little longer than the one before."""
    return {f"agent:main:telegram:dm:{name}{n}": idle(days + n / 10_000) for n in range(count)}


def pruned(records: dict[str, SessionRecord], **limits: int | None) -> list[str]:
    return lines_to_prune(records, replace(LIMITS, **limits), now_ms=NOW_MS, main_key="main")


@pytest.mark.covers("A4-12")
def test_idle_lines_go_and_protected_ones_stay() -> None:
    """After thirty days; never the main session, groups, threads, the global one, pinned or archived ones."""
    kept = {
        "agent:main:main": idle(99),
        "agent:main:telegram:group:7": idle(99),
        "agent:main:telegram:dm:1:thread:2": idle(99),
        "global": idle(99),
        "agent:main:telegram:dm:pinned": idle(99, pinned=True),
        "agent:main:telegram:dm:archived": idle(99, archived=True),
        "agent:main:telegram:dm:fresh": idle(29.9),
        "agent:main:telegram:dm:timeless": replace(idle(0), updated_at_ms=0),
        "agent:main:telegram:dm:future": idle(-4_000),
    }
    gone = {"agent:main:telegram:dm:9": idle(30.1), "agent:main:cron:nightly": idle(31)}

    assert pruned(kept | gone) == list(gone)
    assert pruned(kept | gone, prune_after_ms=None) == []
    assert lines_to_prune(gone, LIMITS, now_ms=NOW_MS, main_key="main", active_keys=gone.keys()) == []


@pytest.mark.covers("A4-12")
def test_the_limit_of_lines_has_slack_and_takes_programs_first() -> None:
    """Above 550 lines the idlest go until there are 500, programs' before people's."""
    cron = {f"agent:main:cron:{n}": idle(0.1) for n in range(20)}

    assert pruned(peers(550)) == []
    assert pruned(peers(530) | cron) == []
    gone = pruned(peers(531) | cron)
    assert gone[:20] == list(cron)
    assert gone[20:] == [f"agent:main:telegram:dm:p{n}" for n in range(530, 499, -1)]


@pytest.mark.covers("A4-12")
def test_a_small_limit_is_kept_to_the_line() -> None:
    """Below fifty there is no slack."""
    assert len(pruned(peers(11), most_entries=10)) == 1
    assert pruned(peers(85), most_entries=60) == []
    assert len(pruned(peers(86), most_entries=60)) == 26


@given(
    keys=st.lists(
        st.sampled_from(
            ["main", "cron:a", "telegram:dm:a", "telegram:group:a", "dm:b", "hook:x", "odd", "x:thread:1"]
        ),
        unique=True,
    ),
    days=st.lists(st.floats(-10, 90), min_size=8, max_size=8),
    most=st.integers(1, 8),
)
def test_no_limit_takes_what_is_protected(keys: list[str], days: list[float], most: int) -> None:
    """Whatever the limits, each key goes once at most, and none of a protected kind."""
    records = {f"agent:main:{key}": idle(age) for key, age in zip(keys, days, strict=False)}
    gone = pruned(records, most_entries=most)

    assert len(set(gone)) == len(gone)
    assert all(key_kind(key) not in PROTECTED_KINDS for key in gone)


def file(name: str, kind: FileKind, size_bytes: int, days: float) -> StoredFile:
    return StoredFile(name=name, kind=kind, size_bytes=size_bytes, modified_ms=NOW_MS - int(days * DAY_MS))


FILES = [
    file("sessions.json", "kept", 10, 400),
    file("now.jsonl", "kept", 100, 300),
    file("ended-old", "ended", 100, 90),
    file("ended-new", "ended", 100, 60),
    file("cron-old", "synthetic", 100, 50),
    file("archive-old", "archive", 100, 40),
    file("archive-new", "archive", 100, 20),
    file("ended-today", "ended", 100, 0.5),
]


def removed(**limits: int | None) -> list[str]:
    return [item.name for item in files_to_remove(FILES, replace(LIMITS, **limits), now_ms=NOW_MS)]


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ({}, []),
        ({"archive_retention_ms": 30 * DAY_MS}, ["archive-old"]),
        ({"most_bytes": 710}, []),
        ({"most_bytes": 700}, ["archive-old", "archive-new"]),
        ({"most_bytes": 700, "high_water_bytes": 650}, ["archive-old"]),
        ({"most_bytes": 500}, ["archive-old", "archive-new", "cron-old", "ended-old"]),
        ({"most_bytes": 1}, ["archive-old", "archive-new", "cron-old", "ended-old", "ended-new"]),
        ({"most_bytes": 700, "high_water_bytes": 900}, ["archive-old"]),
        ({"most_bytes": 660, "archive_retention_ms": 30 * DAY_MS}, ["archive-old"]),
    ],
)
def test_files_go_only_within_a_limit(limits: dict[str, int], names: list[str]) -> None:
    """Nothing without one; then what was moved aside, programs', ended ones; never what a key names."""
    assert removed(**limits) == names


async def folder(path: Path) -> SessionIndex:
    """A main session, an idle peer, an idle job and an archive, each with a transcript."""
    index = SessionIndex(path, now=lambda: START)
    for key, session_id, days in (
        ("agent:main:main", "main-1", 90.0),
        ("agent:main:telegram:dm:9", "peer-1", 60.0),
        ("agent:main:cron:nightly", "cron-1", 60.0),
    ):
        record = replace(idle(days), session_id=session_id)
        await index.update(key, lambda _, record=record: record)
        line = f'{{"type":"session","version":3,"id":"{session_id}","timestamp":"","cwd":""}}\n'
        own = f'{{"type":"custom","id":"a","customType":"nacre.session","data":{{"key":"{key}"}}}}\n'
        (path / f"{session_id}.jsonl").write_text(line + own)
    outside = replace(idle(60), session_id="y", session_file="../y.jsonl")
    await index.update("agent:main:cron:outside", lambda _: outside)
    (path / "x.jsonl.deleted.2025-01-01T00-00-00.000Z").write_text("gone")
    return index


def names(path: Path) -> set[str]:
    return {item.name for item in path.iterdir() if ".lock" not in item.name and ".bak" not in item.name}


@pytest.mark.covers("A4-12")
async def test_what_was_said_stays_on_disk(tmp_path: Path) -> None:
    """A peer's line leaves the index and its transcript stays; a job's transcript is moved aside."""
    index = await folder(tmp_path)
    before = names(tmp_path)
    dry = await maintain(index, LIMITS, now=lambda: START, main_key="main", dry_run=True)
    assert names(tmp_path) == before

    report = await maintain(index, LIMITS, now=lambda: START, main_key="main")

    assert report == dry
    assert set(report.pruned_keys) == {
        "agent:main:telegram:dm:9",
        "agent:main:cron:nightly",
        "agent:main:cron:outside",
    }
    assert set(await index.all()) == {"agent:main:main"}
    assert names(tmp_path) == (before - {"cron-1.jsonl"}) | {"cron-1.jsonl.deleted.2026-03-01T09-00-00.000Z"}
    assert (await maintain(index, LIMITS, now=lambda: START, main_key="main")).is_empty


async def test_a_limit_of_the_disk_removes_the_oldest_that_nothing_names(tmp_path: Path) -> None:
    """With a limit of one byte all goes but the index and the main session, and what changed today stays."""
    index = await folder(tmp_path)
    results = tmp_path / "peer-1.results"
    results.mkdir()
    (results / "long.txt").write_text("x" * 5_000)
    limits = replace(LIMITS, most_bytes=1)
    after = START.replace(year=2027)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # threads that begin when watched
    with disk_steps(tmp_path) as steps:
        first = await maintain(index, limits, now=lambda: after, main_key="main")

    assert is_on_disk(steps, "peer-1.jsonl")
    assert set(first.removed) >= {"peer-1.jsonl", "x.jsonl.deleted.2025-01-01T00-00-00.000Z"}
    assert names(tmp_path) >= {"sessions.json", "main-1.jsonl"}
    assert not (tmp_path / "peer-1.jsonl").exists()
    assert not results.exists()
    assert first.removed_bytes > 5_000
    assert set(await index.all()) == {"agent:main:main"}


async def test_a_new_folder_has_nothing_to_keep_up(tmp_path: Path) -> None:
    """Looking at a folder that is not there makes none."""
    index = SessionIndex(tmp_path / "none", now=lambda: START)
    limits = replace(LIMITS, most_bytes=1, archive_retention_ms=1)

    assert (await maintain(index, limits, now=lambda: START, main_key="main")).is_empty
    assert not (tmp_path / "none").exists()
