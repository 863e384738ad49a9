"""Turns a second with one, two and four workers at one database, and the database's share of a turn.

    python -m benchmarks.beside.workers postgresql://… [--turns 400] [--chats 100]

The database must be an empty one. The offline responder answers, so a turn costs what Nacre itself does: the
row and the job, the session's lines with their fence, the outcome. The server's share is what it says of
itself (`pg_stat_database`: time in statements, and commits). Workers, server and this program have one
machine: figures on a busy one are worth their ratio alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.workers.turn_rows import TurnRows
from nacre.runtime.contracts.inbound import Inbound

WORKERS = (1, 2, 4)
AT_ONCE = 8
_STATISTICS = """
SELECT active_time, xact_commit::float FROM pg_stat_database WHERE datname = current_database()
"""


@contextmanager
def running_worker(state_dir: Path, url: str, *, at_once: int) -> Iterator[int]:
    """The process of a worker that takes so many turns at once, from when it says so."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "nacre",
            "admin",
            "worker",
            "--state-dir",
            str(state_dir),
            "--at-once",
            str(at_once),
        ],
        env={**os.environ, "HOME": str(state_dir), "NACRE_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _answered(rows: TurnRows, label: str, turns: int, chats: int) -> float:
    """How many seconds so many turns of so many chats take."""
    began = time.perf_counter()
    said = [_said(f"{label}-{number % chats}", number) for number in range(turns)]
    asked = [rows.ask("main", f"agent:main:bench:group:{inbound.chat_id}", inbound) for inbound in said]
    ids = await asyncio.gather(*asked)
    while len(await rows.news([("main", each.id) for each in ids])) < turns:  # noqa: ASYNC110 - the database says when
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


def _said(chat: str, number: int) -> Inbound:
    return Inbound(
        text=f"{chat} says {number}",
        chat_kind="group",
        channel="bench",
        chat_id=chat,
        sender_id="ann",
        message_id=str(number),
        is_mentioned=True,
    )


async def _measured(url: str, workers: int, turns: int, chats: int) -> None:
    database = Database(url)
    rows = TurnRows(database)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        for _ in range(workers):
            running.enter_context(running_worker(Path(folder), url, at_once=AT_ONCE))
        await _answered(rows, f"warm-{workers}", workers * AT_ONCE * 2, chats)
        before = await _statistics(database)
        seconds = await _answered(rows, f"turn-{workers}", turns, chats)
        await asyncio.sleep(2)  # connections report what they did within a second
        after = await _statistics(database)
    await database.close()
    active_ms, commits = (after[0] - before[0]) / turns, (after[1] - before[1]) / turns
    print(
        f"{workers} workers: {turns / seconds:6.1f} turns/s, {1000 * seconds / turns:6.1f} ms a turn; "
        f"the database {active_ms:5.1f} ms in statements, {commits:4.1f} commits"
    )


async def _statistics(database: Database) -> tuple[float, float]:
    row = await database.read(lambda connection: connection.execute(_STATISTICS).fetchone())
    assert row is not None
    return float(row[0]), float(row[1])


def main() -> None:
    """Prints a line for each number of workers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--chats", type=int, default=100)
    told = parser.parse_args()
    for workers in WORKERS:
        asyncio.run(_measured(told.url, workers, told.turns, told.chats))


if __name__ == "__main__":
    main()
