"""What a terminal may look at in the ledger's file beside the program that serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import StoredStatus, inbound_from_json
from nacre.runtime.ledger.sqlite_database import Connection, Database, open_database
from nacre.runtime.ledger.sqlite_jobs import SqliteJobs
from nacre.runtime.ledger.sqlite_people import SqlitePeople
from nacre.runtime.ledger.sqlite_schema import MIGRATIONS

_NOT_DONE = """
SELECT state, count(*) FROM inbound WHERE state IN ('waiting', 'running') GROUP BY state
UNION ALL
SELECT state, count(*) FROM outbound WHERE state IN ('pending', 'sending', 'unsure', 'failed') GROUP BY state
"""


class SqliteTables:
    """Those of one file, which other processes may have open as well."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.people = SqlitePeople(database)
        self.jobs = SqliteJobs(database)

    async def close(self) -> None:
        """Finishes what was asked for and closes the file. Safe to repeat."""
        await self.database.close()

    async def owner_chats(self, agent_id: str) -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private."""
        query = "SELECT inbound FROM owner_chats WHERE agent = ? ORDER BY at_ms DESC"
        return tuple(inbound_from_json(text) for (text,) in await self._rows(query, agent_id))

    async def put_statuses(self, statuses: Sequence[StoredStatus]) -> None:
        """Keeps how all bridges are."""

        def work(db: Connection) -> None:
            db.execute("DELETE FROM bridge_states")
            db.executemany("INSERT INTO bridge_states VALUES (?, ?, ?, ?, ?, ?, ?)", statuses)

        await self.database.write(work)

    async def statuses(self) -> tuple[StoredStatus, ...]:
        """What was last kept of the bridges."""
        query = (
            "SELECT channel, account, state, problem, restarts, since_ms, next_try_ms FROM bridge_states "
            "ORDER BY channel, account"
        )
        return tuple(StoredStatus(*row) for row in await self._rows(query))

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """What was chosen."""
        query = "SELECT session_key, name, value FROM choices"
        return {(key, name): value for key, name, value in await self._rows(query)}

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Keeps a choice, or forgets it."""
        if value:
            await self._rows("INSERT OR REPLACE INTO choices VALUES (?, ?, ?)", session_key, name, value)
        else:
            await self._rows("DELETE FROM choices WHERE session_key = ? AND name = ?", session_key, name)

    async def not_done(self) -> dict[str, int]:
        """How much is not done, by state."""
        return dict(await self._rows(_NOT_DONE))

    async def _rows(self, query: str, *values: str) -> list[Any]:
        rows: list[Any] = await self.database.write(lambda db: db.execute(query, values).fetchall())
        return rows


def open_tables(path: Path, *, now: datetime) -> SqliteTables:
    """Those of a ledger's file, made if need be. Raises `LedgerUnusable`."""
    return SqliteTables(open_database(path, MIGRATIONS, now=now)[0])
