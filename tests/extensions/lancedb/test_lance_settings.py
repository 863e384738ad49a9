"""What the manifest says, which settings it takes, and what the engine makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.lancedb.plugin import ENGINE_ID, LanceMemory, lance_settings, register
from nacre.runtime.contracts.clock import system_clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.host import ExtensionHost
from nacre.runtime.extensions.installed.discovery import Installed, installed_extensions
from nacre.runtime.extensions.loading import problem_of
from nacre.runtime.providers.opening import new_for_each
from nacre.runtime.recall.open_memory import memory_home
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.sections.plugins import PluginsSettings
from tests.runtime.agents import write_settings


def installed() -> Installed:
    return next(item for item in installed_extensions() if item.id == ENGINE_ID)


def problem(config: dict[str, Any]) -> str:
    plugins = {"slots": {"memory": ENGINE_ID}, "entries": {ENGINE_ID: {"config": config}}}
    return problem_of(installed(), PluginsSettings.model_validate(plugins))


@pytest.mark.covers("LDB-1")
def test_the_manifest_describes_an_engine_of_the_slot() -> None:
    """Its id, its kind, its schema, and an entry point whose `register` hands the engine in."""
    item = installed()
    host = ExtensionHost(extension_id=item.id, settings={}, may_be_memory=True)
    register(host)

    assert item.problem == ""
    assert item.manifest is not None
    assert item.manifest.kind == "memory"
    assert item.manifest.settings_schema["type"] == "object"
    assert isinstance(host.engine, LanceMemory)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {
            "embedding": {"apiKey": "sk-1", "model": "text-embedding-3-small"},
            "dbPath": "~/m",
            "autoRecall": False,
        },
        {"embedding": {"provider": "ollama", "model": "nomic-embed-text"}},
        {"embedding": {"model": "of-my-own", "baseUrl": "http://127.0.0.1:9/v1", "dimensions": 7}},
        {"captureMaxChars": 1_800, "recallMaxChars": 100, "customTriggers": ["note:"]},
        {"dbPath": "s3://bucket/m", "storageOptions": {"aws_region": "eu-west-1"}},
    ],
)
@pytest.mark.covers("LDB-2", "LDB-5", "LDB-12")
def test_settings_of_the_first_descriptions_are_taken(config: dict[str, Any]) -> None:
    """No key is needed: without `embedding` the agent's own embedder is asked."""
    assert problem(config) == ""


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"captureMaxChars": 99}, "captureMaxChars does not fit its rule minimum: 100."),
        ({"captureMaxChars": 10_001}, "captureMaxChars does not fit its rule maximum: 10000."),
        ({"autocapture": True}, "has unknown keys: autocapture."),
        ({"embedding": {"key": "x"}}, "config.embedding has unknown keys: key."),
        ({"embedding": {"provider": "ollama"}}, "config.embedding needs model."),
        ({"customTriggers": ["x"] * 51}, "customTriggers does not fit its rule maxItems: 50."),
        ({"storageOptions": {"timeout": 3}}, "storageOptions.timeout must be of the type string."),
    ],
)
@pytest.mark.covers("LDB-5", "LDB-12")
def test_other_settings_are_refused_with_the_key(config: dict[str, Any], told: str) -> None:
    """The sentence names the key and the rule."""
    assert told in problem(config)


@pytest.mark.covers("LDB-5", "LDB-6")
def test_defaults_are_those_of_the_descriptions(tmp_path: Path) -> None:
    """Recall on, capture off, 500 characters, and a folder of the agent's own."""
    settings = lance_settings({}, folder=tmp_path / "own", agent_id="main", place=tmp_path.joinpath)

    assert (settings.auto_recall, settings.auto_capture) == (True, False)
    assert (settings.capture_max_chars, settings.recall_max_chars) == (500, 1_000)
    assert settings.place == str(tmp_path / "own")
    assert settings.embedding == {"fallback": "none"}


@pytest.mark.parametrize(
    ("named", "place"),
    [("~/m", "HOME/m"), ("m/{agentId}", "STATE/m/main"), ("s3://b/{agentId}", "s3://b/main")],
)
@pytest.mark.covers("LDB-2")
def test_a_place_is_a_folder_or_an_address(tmp_path: Path, named: str, place: str) -> None:
    """`~` and `{agentId}` are filled in, relative folders lie in the state folder."""
    write_settings(tmp_path / "state", {"plugins": {"entries": {ENGINE_ID: {"config": {"dbPath": named}}}}})
    config = load_config({"HOME": str(tmp_path / "home"), "NACRE_STATE_DIR": str(tmp_path / "state")})
    home = memory_home(config, ENGINE_ID, system_clock(None), lent=new_for_each)
    found = lance_settings(home.settings, folder=home.folder(), agent_id="main", place=home.place)

    filled = place.replace("HOME", str(tmp_path / "home")).replace("STATE", str(tmp_path / "state"))
    assert found.place == filled


@pytest.mark.covers("LDB-3", "LDB-4", "LDB-12")
async def test_the_embedder_is_the_agents_unless_another_is_named(tmp_path: Path) -> None:
    """Without settings the one that ships; a key in `${NAME}` is read; one that cannot be is refused."""
    entry = {"config": {"embedding": {"apiKey": "${MY_KEY}", "dimensions": 256}}}
    write_settings(tmp_path / "state", {"plugins": {"entries": {ENGINE_ID: entry}}})
    environment = {"HOME": str(tmp_path), "NACRE_STATE_DIR": str(tmp_path / "state")}
    config = load_config({**environment, "MY_KEY": "sk-of-mine"})
    home = memory_home(config, ENGINE_ID, system_clock(None), lent=new_for_each)
    settings = lance_settings(home.settings, folder=tmp_path, agent_id="main", place=home.place)

    shipped, named = home.embedder({"fallback": "none"}), home.embedder(settings.embedding)

    assert settings.embedding["remote"] == {"apiKey": "sk-of-mine"}
    assert shipped is not None
    assert shipped.facts.model == "multilingual-e5-small"
    assert named is not None
    assert (named.facts.provider, named.facts.model) == ("openai", "text-embedding-3-small")
    assert "sk-of-mine" not in repr(home) + repr(settings) + named.facts.fingerprint
    await shipped.close()
    await named.close()
    with pytest.raises(ConfigError, match="nobody"):
        home.embedder({"provider": "nobody", "fallback": "none"})
    assert any("MY_KEY" in notice for notice in load_config(environment).notices)
