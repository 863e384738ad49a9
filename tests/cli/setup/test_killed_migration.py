"""`nacre storage migrate` killed at random moments: the next run goes on, and both sides agree."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.ledger.opening import LEDGER_FILE
from nacre.bridges.ledger.sqlite.tables import open_tables
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.tools.approvals.folder import ApprovalFolder
from nacre.sessions.contracts.endings import EndedSession
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.files import FileSessionStore, SessionPlaces
from tests.cli.program import environment, run_nacre
from tests.runtime.tools.approvals.store_contract import asked
from tests.servers.warm_python import run_warm
from tests.sessions.talk import counted_ids, ticking_clock, user

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROUNDS = int(os.environ.get("NACRE_MIGRATE_ROUNDS", "3"))
KILLS = 4
LONGEST_SECONDS = 1.2
"""A whole run takes about so long; which moments are hit is left to chance."""


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without git's, and without those that are locks or caches."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in found
        if not {"locks", "logs", "bridges"} & set(path.parts) and path.suffix != ".lock"
    }


def people(state_dir: Path) -> list[tuple[Any, ...]]:
    """Who the ledger lets in; its file also gets a mark of what was copied."""
    with closing(sqlite3.connect(state_dir / LEDGER_FILE)) as database:
        return database.execute("SELECT * FROM people ORDER BY sender_id").fetchall()


async def filled(state_dir: Path) -> None:
    """Conversations, notes, people and an open approval in files."""
    agent, now = state_dir / "agents/main", datetime.now(UTC)
    places = SessionPlaces(
        index=agent / "sessions/sessions.json",
        endings=agent / "endings",
        lanes=state_dir / "locks/lanes",
        cwd=state_dir,
    )
    store = FileSessionStore(places, now=ticking_clock(), new_id=counted_ids("file"))
    records = {f"agent:main:line:direct:{n}": _record(n) for n in range(60)}
    await store.index.edit(lambda _: records)
    for number, record in enumerate(records.values()):
        transcript = await store.transcript(record)
        for line in range(6):
            await transcript.append(user(f"café \u0000 {number} {line} " + "x" * 2_000))
        await transcript.results.keep("whole", "all of it " * 5_000)
        await store.endings.put(
            EndedSession(session_id=f"e{number}", key="k", reason="new", transcript="e", ended_at_ms=number)
        )
    await store.close()
    for number in range(100):
        note = state_dir / f"workspace/memory/n{number}.md"
        note.write_bytes(f"- caf\xe9 {number}\r\n".encode("latin-1") * 500)
    tables = open_tables(state_dir / LEDGER_FILE, now=now)
    for number in range(40):
        who, now_ms = ("line", "default", f"p{number}"), epoch_ms(now)
        assert await tables.people.ask(who, f"CODE{number}", now_ms=now_ms, since_ms=0, most=100)
        assert await tables.people.approve(f"CODE{number}", "guest", now_ms=now_ms, since_ms=0) == who
    await tables.close()
    await ApprovalFolder(agent / "approvals", now=lambda: now).put(asked("a1b2c3d4"))


def _record(number: int) -> SessionRecord:
    return SessionRecord(session_id=f"s{number:03}", updated_at_ms=number + 1)


def test_a_killed_copy_goes_on_and_ends_whole(database_url: str, tmp_path: Path) -> None:
    """Into the database and out of it again; what was there before is not touched, whatever is killed."""
    import psycopg

    run_nacre(tmp_path, "init")
    old = tmp_path / ".nacre"
    asyncio.run(filled(old))
    chance, kills = random.Random(11), Counter[str]()
    before = (tree(old), people(old))
    for number in range(ROUNDS):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA k{number}".encode())
        url = f"{database_url}&options=-csearch_path%3Dk{number}%2Cpublic"
        new = tmp_path / f"new{number}"
        for target, state_dir in (("postgres", old), ("files", new)):
            words = ("storage", "migrate", "--to", target, "--json", "--state-dir", str(state_dir))
            for _ in range(KILLS):
                seconds = chance.uniform(0.1, LONGEST_SECONDS)
                kills[target] += killed(tmp_path, words, url, seconds)
            ended = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=url)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            agree(json.loads(ended.stdout))
            assert (tree(old), people(old)) == before, "the old data is as it was"
        assert tree(new / "workspace") == tree(old / "workspace")
        assert people(new) == people(old)
        for name in ("sessions", "approvals"):
            here, there = (tree(each / "agents/main" / name) for each in (old, new))
            assert {path: data for path, data in there.items() if path != "sessions.json"} == {
                path: data for path, data in here.items() if path != "sessions.json"
            }
    assert min(kills["postgres"], kills["files"]) > 0, kills


def killed(home: Path, words: tuple[str, ...], url: str, seconds: float) -> bool:
    """Whether the program had to be killed after so long; otherwise it came to its end."""
    env = environment(home, NACRE_DATABASE_URL=url)
    try:
        run_warm("-m", "nacre", *words, cwd=home, env=env, timeout_seconds=seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def agree(told: dict[str, Any]) -> None:
    """What the command says of both sides is the same, and all of what was there."""
    assert told["problems"] == []
    for part in ("sessions", "workspace", "approvals", "ledger"):
        assert told[part]["source"] == told[part]["target"], part
    assert told["sessions"]["source"]["transcripts"] == told["sessions"]["source"]["results"] == 60
    assert told["sessions"]["source"]["endings"] == 60
    assert told["workspace"]["source"]["files"] > 100
    assert (told["ledger"]["source"]["people"], told["approvals"]["source"]) == (40, 1)
