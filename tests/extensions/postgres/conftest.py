"""A database with empty tables, and an agent's store in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nacre.extensions.postgres.memory_store import PostgresStore
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.store import Store
from tests.memory.stores.sample_index import OpenStore

AGENT = "main"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The database of this test."""
    opened = Database(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def open_store(database: Database) -> AsyncIterator[OpenStore]:
    """Opens the store of this test, as often as asked; closes every one at the end."""
    opened: list[Store] = []

    async def opener() -> Store:
        store = await PostgresStore.open(database, AGENT)
        opened.append(store)
        return store

    yield opener
    for store in opened:
        await store.close()
