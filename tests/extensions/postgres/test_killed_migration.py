"""`nacre admin storage migrate` killed at random moments: the next run goes on, and both sides agree."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from nacre.runtime.tools.approvals.approvals import ApprovalFolder
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.files import FileSessionStore, SessionPlaces
from tests.cli.program import environment, run_nacre
from tests.runtime.tools.approvals.store_contract import asked
from tests.servers.postgres_server import PostgresServer
from tests.sessions.talk import counted_ids, ticking_clock, user

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROUNDS = int(os.environ.get("NACRE_MIGRATE_ROUNDS", "2"))
KILLS = 3


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without git's, locks, and what a kill left half written under another name."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in found
        if not {"locks", "logs", "bridges"} & set(path.parts) and path.suffix not in (".lock", ".tmp")
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
        await store.ended_sessions.put(
            EndedSession(session_id=f"e{number}", key="k", reason="new", transcript="e", ended_at_ms=number)
        )
    await store.close()
    for number in range(100):
        note = state_dir / f"workspace/memory/n{number}.md"
        note.write_bytes(f"- caf\xe9 {number}\r\n".encode("latin-1") * 500)
    tables = open_tables(state_dir / LEDGER_FILE)
    for number in range(40):
        who, now_ms = ("line", "default", f"p{number}"), epoch_ms(now)
        assert await tables.people.ask(who, f"CODE{number}", now_ms=now_ms, since_ms=0, most=100)
        assert await tables.people.approve(f"CODE{number}", "guest", now_ms=now_ms, since_ms=0) == who
    await tables.close()
    await ApprovalFolder(agent / "approvals", now=lambda: now).put(asked("a1b2c3d4"))


def _record(number: int) -> SessionRecord:
    return SessionRecord(session_id=f"s{number:03}", updated_at_ms=number + 1)


def test_a_killed_copy_goes_on_and_ends_whole(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Into the database and out of it again; what was there before is not touched, whatever is killed."""
    run_nacre(tmp_path, "init")
    old = tmp_path / ".nacre"
    asyncio.run(filled(old))
    chance, midway = random.Random(11), Counter[str]()
    before = (tree(old), people(old))
    for number in range(ROUNDS):
        url = postgres_server.database()
        new = tmp_path / f"new{number}"
        for target, state_dir in (("postgres", old), ("files", new)):
            words = ("admin", "storage", "migrate", "--to", target, "--json", "--state-dir", str(state_dir))
            for _ in range(KILLS):
                there = partial(copied, target, new, url)
                least = chance.randrange(min(there(), 59), 60)
                if killed(tmp_path, words, url, lambda least=least, there=there: there() > least):  # type: ignore[misc]  # bound now
                    midway[target] += there() < 60
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
    assert midway["files"] > 0, "no kill came while conversations were copied into files"
    assert midway["postgres"] > 0, "no kill came while conversations were copied into the database"


def copied(target: str, new: Path, url: str) -> int:
    """How many conversations the target of a round has by now."""
    if target == "files":
        return len(list((new / "agents/main/sessions").glob("*.jsonl")))
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM transcripts").fetchone()
        return int(row[0]) if row else 0


def killed(home: Path, words: tuple[str, ...], url: str, has_reached: Callable[[], bool]) -> bool:
    """Whether the program was killed when it had reached something; otherwise it came to its end."""
    program = subprocess.Popen(
        [Path(sys.executable).with_name("nacre"), *words],
        cwd=home,
        env=environment(home, NACRE_DATABASE_URL=url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while program.poll() is None and not has_reached():
        pass
    program.kill()
    return program.wait() == -signal.SIGKILL


def agree(told: dict[str, Any]) -> None:
    """What the command says of both sides is the same, and all of what was there."""
    assert told["problems"] == []
    for part in ("sessions", "workspace", "approvals", "ledger"):
        assert told[part]["source"] == told[part]["target"], part
    assert told["sessions"]["source"]["transcripts"] == told["sessions"]["source"]["results"] == 60
    assert told["sessions"]["source"]["endings"] == 60
    assert told["workspace"]["source"]["files"] > 100
    assert (told["ledger"]["source"]["people"], told["approvals"]["source"]) == (40, 1)
