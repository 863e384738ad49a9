"""All who name the same url have one pool, and who is done takes nothing from the others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.server.connections import MOST_CONNECTIONS
from nacre.extensions.postgres.server.database import shared_database
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.runtime.settings.config import load_config
from nacre.runtime.storage.storage import storage_of
from tests.sessions.talk import counted_ids, ticking_clock

pytestmark = pytest.mark.postgres
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
CALLS = 40


def words(db: Any) -> list[str]:
    return [word for (word,) in db.execute("SELECT word FROM words ORDER BY word")]


async def test_the_sessions_and_the_index_have_one_pool(database_url: str, tmp_path: Path) -> None:
    """Sessions and index together, asked for at once, have no more connections than one of them may have."""
    config = load_config({"NACRE_DATABASE_URL": database_url}, state_dir=tmp_path)
    sessions = storage_of(config).sessions(now=ticking_clock(), new_id=counted_ids("id"))
    place = storage_of(config).index(MemorySearchSettings(), now=lambda: datetime.now(UTC))
    index = await place.open()

    await asyncio.gather(
        *(sessions.index.all() for _ in range(CALLS)), *(index.check() for _ in range(CALLS))
    )

    database = shared_database(database_url)
    ((connections,),) = await database.read(lambda db: db.execute(CONNECTIONS).fetchall())
    assert 1 <= connections <= MOST_CONNECTIONS
    await sessions.close()
    await index.close()
    await place.close()


async def test_who_closes_takes_nothing_from_the_others(database_url: str) -> None:
    """Work asked for before, while and after another one closes is done once each."""
    database = shared_database(database_url)
    other = shared_database(database_url)
    await database.write(lambda db: db.execute("CREATE TABLE words (agent TEXT, word TEXT)"))

    async def add(number: int) -> None:
        word = f"{number:02}"
        await database.write(lambda db: db.execute("INSERT INTO words VALUES ('a', %s)", (word,)))
        if number % 8 == 0:
            await other.close()

    await asyncio.gather(*(add(number) for number in range(CALLS)))

    assert await database.read(words) == [f"{number:02}" for number in range(CALLS)]
    await database.close()
