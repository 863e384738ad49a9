"""The database keeps the contract of a store of sessions, and refuses what comes too late."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nacre.sessions.stores.store import SessionStore
from tests.sessions.stores.postgres.opened import StoreOpener
from tests.sessions.stores.store_contract import OpenStore, StoreContract

pytestmark = pytest.mark.postgres


class TestPostgresSessionStore(StoreContract):
    @pytest.fixture
    async def open_store(self, database_url: str) -> AsyncIterator[OpenStore]:
        opener = StoreOpener(database_url)

        def opened() -> SessionStore:
            return opener.store()

        yield opened
        await opener.close()
