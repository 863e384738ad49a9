"""PostgreSQL keeps everything of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.settings.config import load_config
from nacre.runtime.storage.backend import StorageBackend
from nacre.runtime.storage.storage import storage_of
from tests.runtime.agents import write_settings
from tests.runtime.storage.storage_contract import OpenStorage, StorageContract


@pytest.mark.postgres
class TestPostgresStorage(StorageContract):
    """Rows of a database."""

    @pytest.fixture
    def open_storage(self, database_url: str, tmp_path: Path) -> OpenStorage:
        """Opens what an agent has there."""
        write_settings(tmp_path, {"agents": {"list": [{"id": "main", "default": True}, {"id": "other"}]}})
        environment = {"HOME": str(tmp_path), "NACRE_DATABASE_URL": database_url}

        def opened(agent_id: str) -> StorageBackend:
            return storage_of(load_config(environment, state_dir=tmp_path, agent_id=agent_id))

        return opened
