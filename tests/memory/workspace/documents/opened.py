"""Workspaces over one database, all on one pool, as the parts of a process have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nacre.postgres.database import Database


@asynccontextmanager
async def database_at(url: str) -> AsyncIterator[Database]:
    """A database that is closed at the end."""
    database = Database(url)
    try:
        yield database
    finally:
        await database.close()
