"""What `pg_dump` saved while it was written to, and `pg_restore` brought to an empty database."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from nacre.bridges.workers.opening import QUEUE
from nacre.bridges.workers.turn_rows import TurnRows
from nacre.postgres.database import Database
from nacre.postgres.jobs import JobQueue
from nacre.runtime.contracts.inbound import Inbound
from tests.servers.postgres_server import PostgresServer
from tests.sessions.stores.postgres.opened import stores
from tests.sessions.stores.store_contract import FIRST, MAIN
from tests.sessions.talk import said, user

pytestmark = pytest.mark.postgres

HELLO = Inbound(text="hello", chat_kind="direct", channel="line", chat_id="c", message_id="1")


def _ran(program: str, *arguments: str) -> None:
    from pgserver._commands import POSTGRES_BIN_PATH

    ended = subprocess.run(
        [str(POSTGRES_BIN_PATH / program), *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


async def test_a_dump_of_a_busy_database_is_whole(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Transcripts end with a whole line, the queue goes on, and each turn that waited runs once."""
    url, restored = postgres_server.database(), postgres_server.empty_database()
    dump = str(tmp_path / "nacre.dump")
    database = Database(url)
    jobs = JobQueue(database, url, QUEUE)
    await jobs.prepare()
    turn_id = await TurnRows(database, jobs).ask("main", MAIN, HELLO)
    await database.close()
    async with stores(url) as opener:
        store = opener.store()
        await store.index.update(MAIN, lambda _: FIRST)
        transcript = await store.transcript(FIRST)
        await transcript.append(user("say 0"))
        dumping = asyncio.create_task(
            asyncio.to_thread(_ran, "pg_dump", "--format=custom", f"--file={dump}", url)
        )
        written = 0
        while not dumping.done():
            written += 1
            await transcript.append(user(f"say {written}"))
        await dumping
    await asyncio.to_thread(_ran, "pg_restore", "--exit-on-error", f"--dbname={restored}", dump)
    async with stores(restored) as opener:
        again = await opener.store().transcript(FIRST)
        texts = said(again.branch())
        assert texts == [f"say {number}" for number in range(len(texts))]
        assert 1 <= len(texts) <= written + 1
        await again.append(user("and on"))
    done, database = asyncio.Event(), Database(restored)
    ran = []

    async def work(job: object) -> None:
        ran.append(job)
        done.set()

    running = asyncio.create_task(
        JobQueue(database, restored, QUEUE).run(work, most_at_once=1, last_seconds=1)
    )
    await asyncio.wait_for(done.wait(), 20)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await database.close()
    assert ran == [{"agent": "main", "turn": turn_id}]
