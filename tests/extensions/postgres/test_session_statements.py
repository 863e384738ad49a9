"""No statement looks at another agent's rows, and each table can be spread by its agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nacre.extensions.postgres import session_statements as statements
from nacre.extensions.postgres.server.database import packaged_migrations
from tests.extensions.postgres.opened import stores
from tests.sessions.stores.store_contract import DM, FIRST, MAIN
from tests.sessions.talk import user

STATEMENTS = {name: text for name, text in vars(statements).items() if name.isupper() and name[0] != "_"}
VALUES: dict[str, Any] = {
    **dict.fromkeys(("agent", "key", "lane", "session_id", "line", "name", "owner_key", "chat_kind"), "x"),
    **dict.fromkeys(("body", "holder", "aside", "old", "new"), "x"),
    **dict.fromkeys(
        ("number", "lines", "size_bytes", "fence", "most", "ended_at_ms", "process"),
        1,
    ),
    **dict.fromkeys(("transcript", "copy"), UUID(int=1)),
    "at": datetime(2026, 3, 1, tzinfo=UTC),
}
BYTES = {"SET_LINE": "line", "KEEP_RESULT": "body", "APPEND_LINE": "line", "ADD_LINE": "line"}
"""Which value of a statement is bytes; elsewhere it is text."""


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a plan that look rows up in a table."""
    if "Relation Name" in plan and plan["Node Type"] != "ModifyTable":
        yield plan
    for part in plan.get("Plans", ()):
        if plan["Node Type"] != "Bitmap Heap Scan":
            yield from scans(part)


@pytest.mark.postgres
def test_a_plan_stays_with_one_agent(database_url: str) -> None:
    """The server finds rows by an index that begins with the agent, whatever the statement does."""
    import psycopg

    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        for name, text in STATEMENTS.items():
            values = {**VALUES, **({BYTES[name]: b"x"} if name in BYTES else {})}
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), values).fetchone()
            for scan in scans(row[0][0]["Plan"] if row else {}):
                if scan["Relation Name"] == "processes":
                    continue
                found_by = scan.get("Index Cond") or scan.get("Recheck Cond", "")
                assert "agent = " in found_by, f"{name}: {json.dumps(scan, indent=2)}"


@pytest.mark.postgres
def test_a_lane_is_not_taken_while_its_last_holder_writes(database_url: str) -> None:
    """What was begun under a fence is committed before there is a later one, which then refuses the rest."""
    import psycopg

    taking = {**VALUES, "lane": "k"}
    writing = {**taking, "key": "k", "old": None}
    with psycopg.connect(database_url) as late, psycopg.connect(database_url, autocommit=True) as now:
        assert now.execute(statements.TAKE_LANE, taking).fetchone() is not None
        now.execute(statements.LEAVE_LANE, taking)
        assert late.execute(statements.REPLACE_LINE, writing).fetchone() == ("k",)
        now.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            now.execute(statements.TAKE_LANE, taking)
        late.commit()
        assert now.execute(statements.TAKE_LANE, taking).fetchone() is not None
        assert late.execute(statements.REPLACE_LINE, {**writing, "old": "x"}).fetchone() is None


@pytest.mark.postgres
def test_each_table_can_be_partitioned_by_agent(database_url: str) -> None:
    """A copy of each that is partitioned by a hash of the agent takes all its keys, which begin with it."""
    import psycopg

    keys = (
        "SELECT conrelid::regclass::text, (SELECT attname FROM pg_attribute "
        "WHERE attrelid = conrelid AND attnum = conkey[1]) FROM pg_constraint WHERE contype IN ('p', 'u')"
        " AND connamespace = 'public'::regnamespace"
        " AND conrelid::regclass::text NOT IN ('nacre_migrations', 'processes')"
    )
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(keys).fetchall()
        made = (
            sum(part.sql.count("CREATE TABLE ") for part in packaged_migrations()) - 1
        )  # processes are of no agent
        assert len({table for table, _ in tables}) == made
        assert {table for table, first in tables if first != "agent"} == set()
        for table in sorted({table for table, _ in tables}):
            like = f"CREATE TABLE spread_{table} (LIKE {table} INCLUDING ALL) PARTITION BY HASH (agent)"
            connection.execute(like.encode())


@pytest.mark.postgres
async def test_a_table_is_partitioned_as_the_page_says(database_url: str) -> None:
    """With the rows that it has; sessions go on, and are removed from the partitions."""
    import psycopg

    page = Path(__file__).parents[3] / "docs" / "engineering" / "scale.md"
    spread = page.read_text(encoding="utf-8").split("```sql\n")[1].split("```")[0]
    async with stores(database_url) as opener:
        before = opener.store()
        await before.index.edit(lambda _: {MAIN: FIRST})
        await (await before.transcript(FIRST)).append(user("said"))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(spread.encode())
    async with stores(database_url) as opener:
        store = opener.store()
        await (await store.transcript(FIRST)).append(user("said behind it"))
        assert [facts.lines for facts in await store.transcripts()] == [3]
        [session] = await store.sessions(with_earlier=False)
        assert len(await store.last_messages([session], most=1)) == 1
        assert await store.delete(session)


@pytest.mark.postgres
async def test_agents_of_one_database_know_nothing_of_each_other(database_url: str) -> None:
    """The same keys and names are others for each, also when a session is deleted."""
    async with stores(database_url) as opener:
        mine, theirs = opener.store(agent="mine"), opener.store(agent="theirs")
        for store in (mine, theirs):
            await store.index.edit(lambda _: {MAIN: FIRST, DM: FIRST})
            await (await store.transcript(FIRST)).append(user("said"))
        async with mine.turn_lock(MAIN) as is_mine, theirs.turn_lock(MAIN) as is_theirs:
            assert is_mine
            assert is_theirs
        [session, _] = await mine.sessions(with_earlier=True)
        assert await mine.delete(session)
        assert await mine.transcripts() == []
        assert [facts.lines for facts in await theirs.transcripts()] == [2]
        assert set(await theirs.index.all()) == {MAIN, DM}


def test_each_statement_names_its_agent() -> None:
    """Also those that look at no table."""
    assert [name for name, text in STATEMENTS.items() if "%(agent)s" not in text] == []
