"""Approvals in a database: as in a folder, and no late turn runs a call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nacre.extensions.postgres import approvals as table
from nacre.extensions.postgres.approvals import SET, ApprovalTable
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.tools.approvals.store import ApprovalStore
from nacre.sessions.contracts.errors import SessionTakenOver
from tests.runtime.tools.approvals.store_contract import KEY, ApprovalStoreContract, asked, claimed


@pytest.mark.postgres
class TestTable(ApprovalStoreContract):
    """Rows."""

    @pytest.fixture
    def place(self, database_url: str) -> str:
        """The database."""
        return database_url

    @asynccontextmanager
    async def opened(self, place: str) -> AsyncIterator[tuple[ApprovalStore, ApprovalStore]]:
        """Two, each with connections of its own; the first turn of the session is over for both."""
        async with tables(place) as (_, one, other):
            yield one, other

    async def test_a_turn_that_was_taken_over_changes_nothing(self, place: str) -> None:
        """It asks nothing more and runs no call that was approved meanwhile; an answer is nobody's turn."""
        held = {KEY: 1}
        async with tables(place, held) as (database, late, now):
            await database.write(lambda connection: connection.execute(LANE, {"fence": 1}))
            assert await late.put(asked("a", state="approved"))
            await database.write(lambda connection: connection.execute(LANE, {"fence": 2}))
            with pytest.raises(SessionTakenOver):
                await late.put(asked("b"))
            with pytest.raises(SessionTakenOver, match="was not run here"):
                await claimed(late, "a")
            held[KEY] = 2
            assert (await now.get("a")) == asked("a", state="approved")
            assert (await claimed(now, "a")) is not None
            held[KEY] = 1
            assert (await late.change("a", lambda found: found, by_turn=False)) is not None

    async def test_a_row_that_cannot_be_read_stays(self, place: str) -> None:
        """Nothing of it runs, nothing is lost, and its id is not given to another."""
        async with tables(place) as (database, one, _):
            await one.put(asked("a"))
            row = {"agent": "main", "id": "a", "body": b'{"version": 9}'}
            await database.write(lambda connection: connection.execute(SET, row))
            assert (await one.all(), await one.get("a")) == ((), None)
            assert await claimed(one, "a") is None
            assert not await one.put(asked("a"))
            assert await database.read(lambda db: db.execute("SELECT body FROM approvals").fetchone()) == (
                b'{"version": 9}',
            )

    def test_no_statement_looks_at_another_agents_rows(self, place: str) -> None:
        """The server's plan of each asks for the agent, by an index that begins with it."""
        import psycopg

        values = {"agent": "main", "id": "i", "key": KEY, "body": b"", "fence": 1}
        texts = {name: text for name, text in vars(table).items() if name.isupper() and isinstance(text, str)}
        with psycopg.connect(place) as connection:
            connection.execute("SET enable_seqscan = off")
            for name, text in texts.items():
                row = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), values).fetchone()
                plan = json.dumps(row)
                assert name == "PUT" or "agent = 'main'" in plan, plan
                assert "Seq Scan" not in plan, plan


LANE = """
INSERT INTO lanes (agent, key, fence, holder, held_until)
VALUES ('main', 'agent:main:main', %(fence)s, 'x', now())
ON CONFLICT (agent, key) DO UPDATE SET fence = EXCLUDED.fence
"""


@asynccontextmanager
async def tables(
    url: str, held: dict[str, int] | None = None
) -> AsyncIterator[tuple[Database, ApprovalTable, ApprovalTable]]:
    """Two tables of one agent, and a database of theirs; `held` has the fences of this process."""
    databases = Database(url), Database(url)
    fence_of: Any = (held or {}).get
    one, other = (ApprovalTable(database, agent="main", fence_of=fence_of) for database in databases)
    try:
        yield databases[0], one, other
    finally:
        for database in databases:
            await database.close()
