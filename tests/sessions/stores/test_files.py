"""The files keep the contract of a store of sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.sessions.stores.files import FileSessionStore, SessionPlaces
from nacre.sessions.stores.store import SessionStore
from tests.sessions.stores.store_contract import OpenStore, StoreContract
from tests.sessions.talk import counted_ids, ticking_clock


class TestFileSessionStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        def opened() -> SessionStore:
            places = SessionPlaces(
                index=tmp_path / "sessions" / "sessions.json",
                endings=tmp_path / "endings",
                lanes=tmp_path / "lanes",
                cwd=tmp_path,
            )
            return FileSessionStore(places, now=ticking_clock(), new_id=counted_ids())

        return opened
