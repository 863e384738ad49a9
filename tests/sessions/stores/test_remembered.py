"""The contract asks for nothing that only files can do: a store without one keeps it."""

from __future__ import annotations

import pytest

from nacre.sessions.stores.store import SessionStore
from tests.sessions.stores.remembered import RememberedStore
from tests.sessions.stores.remembered_transcript import Everything
from tests.sessions.stores.store_contract import OpenStore, StoreContract
from tests.sessions.talk import counted_ids, ticking_clock


class TestRememberedStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        everything = Everything(now=ticking_clock(), new_id=counted_ids())

        def opened() -> SessionStore:
            return RememberedStore(everything)

        return opened
