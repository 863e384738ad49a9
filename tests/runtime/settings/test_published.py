"""Settings as they were published elsewhere, brought along word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings

URL = "postgresql://nora:secret@127.0.0.1:5432/nacre"


@pytest.mark.parametrize("driver", ["postgres", "postgresql"])
def test_the_published_name_of_the_storage_is_taken(tmp_path: Path, driver: str) -> None:
    """`memory.driver` and `memory.url` mean `storage.driver` and `storage.url`, without a notice."""
    write_settings(tmp_path, {"memory": {"driver": driver, "url": URL, "citations": "on"}})

    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)

    assert config.folders.storage.url == URL
    assert config.settings.storage.driver == "postgres"
    assert config.settings.memory.citations == "on"
    assert config.notices == ()


def test_two_places_for_the_data_are_refused(tmp_path: Path) -> None:
    """Nobody guesses which of two databases is meant; the url, which may hold a password, is not told."""
    write_settings(
        tmp_path, {"memory": {"driver": "postgres", "url": URL}, "storage": {"url": "postgresql://b/c"}}
    )
    with pytest.raises(ConfigError, match="storage") as refused:
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)
    assert "secret" not in str(refused.value)


def test_yaml_is_told_how_it_is_written(tmp_path: Path) -> None:
    """The published lines are YAML: the refusal names the settings that mean the same."""
    (tmp_path / "nacre.json5").write_text(f"memory:\n  driver: postgres\n  url: {URL}\n")
    with pytest.raises(ConfigError, match=r"YAML.*storage: \{ driver") as refused:
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "tells"),
    [
        ({"default": "allow"}, True),
        ({"rules": [{"action": "allow", "match": {"chatType": "group"}}]}, True),
        ({"rules": [{"action": "allow", "match": {"chatType": "direct"}}]}, False),
        ({}, False),
    ],
)
def test_a_scope_that_allows_groups_says_what_it_does_not_do(
    tmp_path: Path, scope: dict[str, Any], tells: bool
) -> None:
    """A group never sees the owner's notes, whatever the scope allows, and the owner is told."""
    write_settings(tmp_path, {"memory": {"backend": "qmd", "qmd": {"scope": scope}}})

    notices = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).notices

    assert any("memory.qmd.scope" in notice for notice in notices) is tells
