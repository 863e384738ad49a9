"""Settings that stand where nothing reads them are told, and change nothing."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings


def test_memory_search_at_the_top_is_told_and_not_read(tmp_path: Path) -> None:
    """CFG-14: an old file's `memorySearch` is named in a notice; `agents.defaults` alone decides."""
    write_settings(
        tmp_path,
        {
            "memorySearch": {"enabled": False},
            "agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}},
        },
    )

    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)

    assert [notice for notice in config.notices if "memorySearch" in notice and "does not read" in notice]
    assert config.settings.agent.memory_search.enabled
    assert config.settings.agent.memory_search.query.max_results == 3
