"""Files keep everything of an agent, and nothing is made before something is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.settings.config import load_config
from nacre.runtime.storage.backend import StorageBackend
from nacre.runtime.storage.storage import FileStorage, storage_of
from tests.runtime.agents import write_settings
from tests.runtime.storage.storage_contract import OpenStorage, StorageContract


class TestFileStorage(StorageContract):
    """Files of a state folder."""

    @pytest.fixture
    def open_storage(self, tmp_path: Path) -> OpenStorage:
        """Opens what an agent has there."""
        write_settings(tmp_path, {"agents": {"list": [{"id": "main", "default": True}, {"id": "other"}]}})

        def opened(agent_id: str) -> StorageBackend:
            return storage_of(load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id=agent_id))

        return opened


def test_without_a_setting_files_keep_everything(tmp_path: Path) -> None:
    """Opening makes nothing."""
    found = storage_of(load_config({"HOME": str(tmp_path)}, state_dir=tmp_path / "state"))

    assert isinstance(found, FileStorage)
    assert not (tmp_path / "state").exists()
