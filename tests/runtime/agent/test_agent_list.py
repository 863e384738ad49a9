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


@pytest.mark.covers("CFG-3")
def test_the_agents_own_settings_lie_over_those_of_all(tmp_path: Path) -> None:
    """CFG-3, 4: field by field, a null replaces nothing, extra paths are joined; nothing is left to tell."""
    own = {"query": {"minScore": 0.5, "maxResults": None}, "extraPaths": ["notes"]}

    config = _config(tmp_path, [{"id": "main", "default": True, "memorySearch": own}])

    search = config.settings.agent.memory_search
    assert (search.query.max_results, search.query.min_score) == (4, 0.5)
    assert (search.extra_paths, search.provider) == (("/shared", "notes"), "none")
    assert config.notices == ()


@pytest.mark.covers("CFG-1")
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
    entries = [{"id": "main"}, {"id": "Work", "sandbox": {"scope": "agent"}, "tools": {"profile": "coding"}}]

    config = _config(tmp_path, entries)

    assert "agents.list[work].tools.profile, agents.list[work].sandbox.scope" in config.notices[0]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"id": "main", "memorySearch": 3}], r"agents\.list\[0\]\.memorySearch"),
        (["main"], r"agents\.list\[0\]"),
        ([None], r"agents\.list\[0\]"),
        ({"main": {}}, r"agents\.list"),
        ([{"name": "nobody"}], r"agents\.list\[0\]\.id"),
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


@pytest.mark.parametrize(
    ("entries", "default"),
    [
        ([], "main"),
        ([{"id": "work"}, {"id": "main"}], "work"),
        ([{"id": "work"}, {"id": "play", "default": True}], "play"),
        ([{"id": "work", "default": True}, {"id": "play", "default": True}], "work"),
    ],
)
def test_the_default_agent(tmp_path: Path, entries: Any, default: str) -> None:
    """The first that says so, else the first of the list, else `main`; two that say so are told."""
    config = _config(tmp_path, entries)

    assert config.agent_id == default
    assert [agent.id for agent in config.agents if agent.is_default] == [default]
    told = any("marked as the default: work, play. work is used" in text for text in config.notices)
    assert told is (len([entry for entry in entries if entry.get("default")]) > 1)


def test_each_agent_has_places_of_its_own(tmp_path: Path) -> None:
    """The default agent keeps `workspace`; what an entry names goes before; `{agentId}` is the id."""
    _config(
        tmp_path,
        [{"id": "main"}, {"id": "work"}, {"id": "play", "workspace": "~/fun", "agentDir": "~/.play"}],
    )

    places = {
        name: load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id=name).folders
        for name in ("main", "work", "play")
    }

    assert [folders.workspace for folders in places.values()] == [
        tmp_path / "workspace",
        tmp_path / "workspace-work",
        tmp_path / "fun",
    ]
    assert [folders.agent_dir for folders in places.values()] == [
        tmp_path / "agents" / "main",
        tmp_path / "agents" / "work",
        tmp_path / ".play",
    ]
    assert places["play"].sessions_file == tmp_path / "agents" / "play" / "sessions" / "sessions.json"
    assert places["work"].index_file == tmp_path / "memory" / "work.sqlite"


def test_the_default_agents_workspace_is_nobody_elses(tmp_path: Path) -> None:
    """`agents.defaults.workspace` and the variable are its own; the others keep `workspace-<id>`."""
    _config(tmp_path, [{"id": "main"}, {"id": "work"}], {**DEFAULTS, "workspace": "~/notes"})

    def workspace(agent_id: str, **environment: str) -> Path:
        config = load_config({"HOME": str(tmp_path), **environment}, state_dir=tmp_path, agent_id=agent_id)
        return config.workspace

    assert workspace("main") == tmp_path / "notes"
    assert workspace("main", NACRE_WORKSPACE=str(tmp_path / "x")) == tmp_path / "x"
    assert workspace("work") == workspace("work", NACRE_WORKSPACE="/x") == tmp_path / "workspace-work"


def test_an_entry_lies_over_the_defaults_key_by_key(tmp_path: Path) -> None:
    """Any key of `agents.defaults`: a model as a text keeps the fallbacks, an empty list of them does not."""
    defaults = {
        **DEFAULTS,
        "model": {"primary": "a/one", "fallbacks": ["b/two"]},
        "userTimezone": "Asia/Tokyo",
        "tools": {"allow": ["read"], "deny": ["write"]},
        "compaction": {"reserveTokens": 1_000, "keepRecentTokens": 2_000},
    }
    work = {
        "id": "work",
        "model": "c/three",
        "tools": {"allow": None, "deny": ["edit"]},
        "compaction": {"keepRecentTokens": 3_000, "reserveTokens": None},
    }
    _config(tmp_path, [{"id": "main", "model": {"fallbacks": []}}, work, {"id": "play"}], defaults)

    def config(agent_id: str, **environment: str) -> Config:
        return load_config({"HOME": str(tmp_path), **environment}, state_dir=tmp_path, agent_id=agent_id)

    own = config("work").settings.agent
    assert (config("work").model_name, own.model.fallbacks) == ("c/three", ("b/two",))
    assert (config("main").model_name, config("main").settings.agent.model.fallbacks) == ("a/one", ())
    assert config("play").settings.agent.model.fallbacks == ("b/two",)
    assert config("work", NACRE_MODEL="d/four").model_name == "d/four"
    assert (own.user_timezone, own.tools.allow, own.tools.deny) == (
        "Asia/Tokyo",
        ("read",),
        ("write", "edit"),
    )
    assert (own.compaction.reserve_tokens, own.compaction.keep_recent_tokens) == (1_000, 3_000)
    assert [agent.model_name for agent in config("play").agents] == ["a/one", "c/three", "a/one"]


@pytest.mark.parametrize("name", ["plya", "wörk", "work/../main", "-work"])
def test_an_agent_that_is_not_listed_cannot_be_opened(tmp_path: Path, name: str) -> None:
    """The sentence names those that there are; no other spelling leads to one of them."""
    _config(tmp_path, [{"id": "main"}, {"id": "work"}])

    with pytest.raises(ConfigError, match=r"There is no agent .*The agents are main, work;"):
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id=name)
    with pytest.raises(ConfigError, match=r"The only one is main;"):
        load_config({"HOME": str(tmp_path), "NACRE_AGENT": name}, state_dir=tmp_path / "empty")
