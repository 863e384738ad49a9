"""`agents.list`: which agents there are, and what each has otherwise than `agents.defaults`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import Config, load_config
from tests.memory.doubles import noon
from tests.runtime.agents import write_settings

DEFAULTS = {"memorySearch": {"provider": "none", "extraPaths": ["/shared"], "query": {"maxResults": 4}}}


def _config(state: Path, entries: Any, defaults: dict[str, Any] | None = None) -> Config:
    write_settings(
        state, {"agents": {"defaults": DEFAULTS if defaults is None else defaults, "list": entries}}
    )
    return load_config({"HOME": str(state)}, state_dir=state)


def test_the_agents_own_settings_lie_over_those_of_all(tmp_path: Path) -> None:
    """CFG-3, 4: field by field, a null replaces nothing, extra paths are joined; nothing is left to tell."""
    own = {"query": {"minScore": 0.5, "maxResults": None}, "extraPaths": ["notes"]}

    config = _config(tmp_path, [{"id": "main", "default": True, "memorySearch": own}])

    search = config.settings.agent.memory_search
    assert (search.query.max_results, search.query.min_score) == (4, 0.5)
    assert (search.extra_paths, search.provider) == (("/shared", "notes"), "none")
    assert config.notices == ()


async def test_an_agent_can_have_memory_search_switched_off(tmp_path: Path) -> None:
    """CFG-1: `enabled: false` of the agent wins, and no index is opened."""
    config = _config(tmp_path, [{"id": "main", "memorySearch": {"enabled": False}}])

    assert await open_memory(config, noon) is None


def test_other_agents_settings_are_not_ours(tmp_path: Path) -> None:
    """What another agent is given changes nothing here."""
    entries = [{"id": "main"}, {"id": "work", "memorySearch": {"query": {"maxResults": 9}}}]

    config = _config(tmp_path, entries)

    assert config.settings.agent.memory_search.query.max_results == 4
    assert config.notices == ()


def test_what_is_not_read_of_the_list_is_told(tmp_path: Path) -> None:
    """Keys of any entry that Nacre does not read are named with the agent that they stand at."""
    entries = [{"id": "main"}, {"id": "Work", "sandbox": {"mode": "all"}, "tools": {"profile": "coding"}}]

    config = _config(tmp_path, entries)

    assert "agents.list[work].sandbox, agents.list[work].tools.profile" in config.notices[0]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"id": "main", "memorySearch": 3}], r"agents\.list\.0\.memorySearch"),
        (["main"], r"agents\.list\.0"),
        ([None], r"agents\.list\.0"),
        ({"main": {}}, r"agents\.list"),
        ([{"name": "nobody"}], r"agents\.list\.0\.id"),
        ([{"id": ""}], "'' cannot name an agent"),
        ([{"id": "../main"}], "'../main' cannot name an agent.*for example 'main'"),
        ([{"id": "a b"}], "'a b' cannot name an agent.*for example 'a-b'"),
        ([{"id": "-work"}], "cannot name an agent"),
        ([{"id": "agent:work"}], "cannot name an agent"),
        ([{"id": "w" * 65}], "at most 64"),
        ([{"id": "work"}, {"id": " WORK "}], "two agents with the id 'work'"),
    ],
)
def test_an_entry_that_cannot_be_an_agent_stops_the_start(tmp_path: Path, entries: Any, told: str) -> None:
    """Values of a wrong type, ids that would be spelled in another way on disk, and ids given twice."""
    with pytest.raises(ConfigError, match=told):
        _config(tmp_path, entries)


def test_without_defaults_the_own_settings_stand_alone(tmp_path: Path) -> None:
    """The list is enough; `null` where it means no limit stays what it is."""
    entries = [{"id": "main", "memorySearch": {"query": {"maxResults": 9}}}]

    alone = _config(tmp_path, entries, {})
    unlimited = _config(tmp_path, entries, {"memorySearch": {"cache": {"maxEntries": None}}})

    assert alone.settings.agent.memory_search.query.max_results == 9
    assert unlimited.settings.agent.memory_search.cache.max_entries is None


@pytest.mark.parametrize("own", [{"chunkin": {}}, {"query": {"maxResults": "many"}}, {"extraPaths": "notes"}])
def test_a_wrong_value_stops_the_start_with_its_name(tmp_path: Path, own: dict[str, Any]) -> None:
    """As in the defaults: a typo or a wrong type is named."""
    with pytest.raises(ConfigError, match=f"memorySearch.{next(iter(own))}"):
        _config(tmp_path, [{"id": "main", "memorySearch": own}])
