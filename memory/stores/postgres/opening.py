"""The index's place, the rows of an agent: damaged ones are dropped, since the notes are the truth."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nacre.memory.stores.postgres.reading.tokens import ANALYSIS
from nacre.memory.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from nacre.postgres.database import Database

log = logging.getLogger(__name__)


class PostgresIndexPlace:
    """`IndexPlace` (its methods are described there) for one agent. It closes the database with itself."""

    def __init__(self, database: Database, agent: str) -> None:
        self._database = database
        self._agent = agent

    @property
    def name(self) -> str:
        return f"{self._database.place}, agent {self._agent!r}"

    @property
    def analysis(self) -> str:
        return ANALYSIS

    async def open(self) -> PostgresStore:
        try:
            return await PostgresStore.open(self._database, self._agent)
        except BaseException:
            await self._database.close()
            raise

    async def replace_damaged(self) -> PostgresStore:
        store = await self.open()
        if problem := await store.check():
            await store.begin_anew()
            log.warning("The memory index of %r is damaged (%s). It is built again.", self._agent, problem)
        return store

    async def close(self) -> None:
        await self._database.close()

    def quarantined(self) -> tuple[str, ...]:
        """Nothing: an index that is rebuilt elsewhere is not kept."""
        return ()
