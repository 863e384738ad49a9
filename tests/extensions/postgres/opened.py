"""Databases of a test, and stores over one, each with connections of its own, as processes have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nacre.extensions.postgres.server.connections import ConnectionLimits
from nacre.extensions.postgres.server.database import Database, Pace
from nacre.extensions.postgres.session_store import PostgresSessionStore
from tests.sessions.talk import counted_ids, ticking_clock

LIMITS = ConnectionLimits(most_connections=4)


class StoreOpener:
    """Opens stores of a database and closes all of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: list[PostgresSessionStore] = []

    def store(self, *, agent: str = "main", silent_seconds: float = 10.0) -> PostgresSessionStore:
        store = PostgresSessionStore(
            Database(
                self._url,
                limits=LIMITS,
                pace=Pace(beat_seconds=silent_seconds / 4, silent_seconds=silent_seconds),
            ),
            agent=agent,
            cwd="/work",
            now=ticking_clock(),
            new_id=counted_ids(f"of-{len(self._opened)}"),
        )
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@asynccontextmanager
async def stores(url: str) -> AsyncIterator[StoreOpener]:
    """An opener, closed at the end."""
    opener = StoreOpener(url)
    try:
        yield opener
    finally:
        await opener.close()


@asynccontextmanager
async def database_at(url: str) -> AsyncIterator[Database]:
    """A database that is closed at the end."""
    database = Database(url)
    try:
        yield database
    finally:
        await database.close()
