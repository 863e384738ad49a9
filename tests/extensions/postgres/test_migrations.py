"""The tables are brought to the newest version once, and come back from a dump."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.server.connections import DatabaseUnusable, StatementRefused
from nacre.extensions.postgres.server.database import Database, Migration, packaged_migrations
from nacre.extensions.postgres.workers.turn_rows import TurnRows
from nacre.runtime.contracts.inbound import Inbound
from tests.extensions.postgres.opened import stores
from tests.servers.postgres_server import PostgresServer
from tests.sessions.stores.store_contract import FIRST, MAIN
from tests.sessions.talk import said, user

ONE = Migration(
    number=1, name="0001_first", sql="CREATE TABLE one (agent TEXT); INSERT INTO one VALUES ('100 %')"
)
BREAKING = Migration(number=3, name="0003_end", sql="-- Breaks programs of an older version\nDROP TABLE two")
SECOND = Migration(number=2, name="0002_second", sql="CREATE TABLE two AS SELECT * FROM one")


async def tables(url: str, *migrations: Migration) -> list[str]:
    """Opens the database with these migrations; the tables that are there."""
    query = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    database = Database(url, migrations=migrations)
    try:
        return await database.read(lambda db: [name for (name,) in db.execute(query)])
    finally:
        await database.close()


def test_the_packaged_files_are_numbered() -> None:
    """From one, each number once; rooms may leave gaps."""
    numbers = [migration.number for migration in packaged_migrations()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


def test_files_only_add_or_say_that_they_break() -> None:
    """Since an older program works beside newer tables, a file takes nothing from it without a word."""
    broken = [each.name for each in packaged_migrations() if each.number > 132 and takes_something(each)]
    assert broken == []
    taking = ("DROP TABLE x", "ALTER TABLE x RENAME y TO z", "ALTER TABLE x ADD COLUMN y TEXT NOT NULL")
    assert all(takes_something(Migration(number=1, name="one", sql=sql)) for sql in taking)
    assert not takes_something(BREAKING)


def takes_something(migration: Migration) -> bool:
    """Whether programs before it might miss something, and it does not say so."""
    taking = (
        r"\bDROP (?!CONSTRAINT|NOT NULL)|\bRENAME\b|\bTYPE\b|\bSET NOT NULL"
        r"|\bADD COLUMN [^,;]*NOT NULL(?![^,;]*(DEFAULT|GENERATED))"
    )
    return re.search(taking, migration.sql) is not None and not migration.is_breaking


@pytest.mark.postgres
async def test_programs_that_start_at_once_make_the_tables_once(postgres_server: PostgresServer) -> None:
    """None fails and none does it twice; a later version adds what is new."""
    url = postgres_server.empty_database()
    assert await asyncio.gather(*(tables(url, ONE) for _ in range(6))) == [["nacre_migrations", "one"]] * 6
    assert await tables(url, ONE, SECOND) == ["nacre_migrations", "one", "two"]


@pytest.mark.postgres
async def test_a_migration_that_fails_leaves_nothing(postgres_server: PostgresServer) -> None:
    """Also nothing of those before it; put right, all of them are made."""
    url = postgres_server.empty_database()
    bad = Migration(number=2, name="0002_bad", sql="CREATE TABLE two (agent TEXT); SELECT nothing")
    with pytest.raises(StatementRefused, match="nothing"):
        await tables(url, ONE, bad)
    assert await tables(url) == []
    assert await tables(url, ONE, SECOND) == ["nacre_migrations", "one", "two"]


@pytest.mark.postgres
async def test_a_missing_right_names_its_remedy(postgres_server: PostgresServer) -> None:
    """Of a role that may make tables and no extension."""
    url = postgres_server.empty_database()
    postgres_server.run("CREATE ROLE nacre_no_extension")
    with psycopg_of(url) as owner:
        owner.execute("GRANT CREATE ON SCHEMA public TO nacre_no_extension")
    database = Database(f"{url}&options=-crole%3Dnacre_no_extension")
    with pytest.raises(DatabaseUnusable, match="run `CREATE EXTENSION vector` there once"):
        await database.read(lambda connection: connection.execute("SELECT 1"))
    await database.close()
    with psycopg_of(url) as owner:
        owner.execute("DROP OWNED BY nacre_no_extension")
    postgres_server.run("DROP ROLE nacre_no_extension")


def psycopg_of(url: str) -> Any:
    """The database as its owner has it."""
    import psycopg

    return psycopg.connect(url, autocommit=True)


@pytest.mark.postgres
async def test_tables_of_another_program_are_left_alone(postgres_server: PostgresServer) -> None:
    """Those of a newer version that breaks older ones, and those that were made by another text, are told and
    not touched. Beside those that only add something an older program works."""
    url = postgres_server.empty_database()
    await tables(url, ONE, SECOND)
    assert await tables(url, ONE) == ["nacre_migrations", "one", "two"]
    await tables(url, ONE, SECOND, BREAKING)
    with pytest.raises(DatabaseUnusable, match=r"newer Nacre.*0003_end"):
        await tables(url, ONE)
    other: dict[str, Any] = {"number": 1, "name": "0001_first", "sql": "CREATE TABLE other (agent TEXT)"}
    with pytest.raises(DatabaseUnusable, match="0001_first that was applied"):
        await tables(url, Migration(**other), SECOND, BREAKING)


pytestmark = pytest.mark.postgres

HELLO = Inbound(text="hello", chat_kind="direct", channel="line", chat_id="c", message_id="1")


def _ran(program: str, *arguments: str) -> None:
    from pgserver._commands import POSTGRES_BIN_PATH

    ended = subprocess.run(
        [str(POSTGRES_BIN_PATH / program), *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


async def test_a_dump_of_a_busy_database_is_whole(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Transcripts end with a whole line, the queue goes on, and a turn that waited is claimed once."""
    url, restored = postgres_server.database(), postgres_server.empty_database()
    dump = str(tmp_path / "nacre.dump")
    database = Database(url)
    turn_id, _ = await TurnRows(database).ask("main", MAIN, HELLO)
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
        texts = said(again.tree.branch())
        assert texts == [f"say {number}" for number in range(len(texts))]
        assert 1 <= len(texts) <= written + 1
        await again.append(user("and on"))
    database = Database(restored)
    [turn] = await TurnRows(database).claim(2, 60)
    assert await TurnRows(database).claim(2, 60, mine=[turn.key]) == []
    await database.close()
    assert turn.key == ("main", turn_id)


SPREAD = """
ALTER TABLE memory_words RENAME TO whole_words;
CREATE TABLE memory_words (LIKE whole_words INCLUDING ALL) PARTITION BY HASH (agent);
CREATE TABLE memory_words_0 PARTITION OF memory_words FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE memory_words_1 PARTITION OF memory_words FOR VALUES WITH (MODULUS 2, REMAINDER 1);
DROP TABLE whole_words
"""
WAITING = """
SELECT reloptions FROM pg_class JOIN pg_am ON pg_am.oid = relam AND amname = 'gin' WHERE relkind = 'i'
"""


@pytest.mark.parametrize("is_spread", [False, True])
async def test_few_words_wait_for_their_place(database_url: str, is_spread: bool) -> None:
    """Each search reads what waits. An operator may have partitioned the table before."""
    earlier = [each for each in packaged_migrations() if each.number < 157]
    before = Database(database_url, migrations=earlier)
    await before.single(lambda db: db.execute((SPREAD if is_spread else "SELECT 1").encode()))
    await before.close()

    database = Database(database_url)
    found = await database.single(lambda db: db.execute(WAITING).fetchall())
    await database.close()

    assert found == [(["gin_pending_list_limit=64"],)] * (2 if is_spread else 1)
