"""The tables are made once and in order, by whoever comes first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nacre.postgres.database import Database
from nacre.postgres.errors import DatabaseUnusable, StatementRefused
from nacre.postgres.migrations import Migration, packaged_migrations
from tests.servers.postgres_server import PostgresServer

FIRST = Migration(
    number=1, name="0001_first", sql="CREATE TABLE one (agent TEXT); INSERT INTO one VALUES ('100 %')"
)
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


@pytest.mark.postgres
async def test_programs_that_start_at_once_make_the_tables_once(postgres_server: PostgresServer) -> None:
    """None fails and none does it twice; a later version adds what is new."""
    url = postgres_server.empty_database()
    assert await asyncio.gather(*(tables(url, FIRST) for _ in range(6))) == [["nacre_migrations", "one"]] * 6
    assert await tables(url, FIRST, SECOND) == ["nacre_migrations", "one", "two"]


@pytest.mark.postgres
async def test_a_migration_that_fails_leaves_nothing(postgres_server: PostgresServer) -> None:
    """Also nothing of those before it; put right, all of them are made."""
    url = postgres_server.empty_database()
    bad = Migration(number=2, name="0002_bad", sql="CREATE TABLE two (agent TEXT); SELECT nothing")
    with pytest.raises(StatementRefused, match="nothing"):
        await tables(url, FIRST, bad)
    assert await tables(url) == []
    assert await tables(url, FIRST, SECOND) == ["nacre_migrations", "one", "two"]


@pytest.mark.postgres
async def test_tables_of_another_program_are_left_alone(postgres_server: PostgresServer) -> None:
    """Those of a newer version, and those that were made by another text, are told and not touched."""
    url = postgres_server.empty_database()
    await tables(url, FIRST, SECOND)
    with pytest.raises(DatabaseUnusable, match=r"newer Nacre.*0002_second"):
        await tables(url, FIRST)
    other: dict[str, Any] = {"number": 1, "name": "0001_first", "sql": "CREATE TABLE other (agent TEXT)"}
    with pytest.raises(DatabaseUnusable, match="another text of 0001_first"):
        await tables(url, Migration(**other), SECOND)
