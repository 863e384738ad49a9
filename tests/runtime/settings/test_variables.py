"""Environment variables in the settings file."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.disk.variables import filled_in, hide_values, unset_in
from tests.runtime.agents import write_settings


def test_a_key_can_stay_in_the_environment(tmp_path: Path) -> None:
    """`${NAME}` is filled in wherever a text stands, also inside it."""
    (tmp_path / "nacre.json5").write_text(
        '{models: {providers: {openai: {apiKey: "${BEES_KEY}", baseUrl: "https://${BEES_HOST}/v1"}}}}'
    )
    environment = {"HOME": str(tmp_path), "BEES_KEY": "sk-bees", "BEES_HOST": "bees.example"}
    openai = load_config(environment, state_dir=tmp_path).settings.models.providers["openai"]

    assert (openai.api_key, openai.base_url) == ("sk-bees", "https://bees.example/v1")


@pytest.mark.parametrize("environment", [{}, {"BEES_KEY": " "}])
@pytest.mark.parametrize(
    ("written", "effect"),
    [
        ({"models": {"providers": {"desk": {"apiKey": "${BEES_KEY}"}}}}, "provider is not asked"),
        ({"models": {"providers": {"desk": {"api": "${BEES_KEY}", "apiKey": "k"}}}}, "provider is not asked"),
        ({"channels": {"irc": {"port": "${BEES_KEY}", "password": "${BEES_KEY}"}}}, "channel is off"),
        ({"channels": {"irc": {"accounts": {"a": {"nick": "${BEES_KEY}"}}}}}, "account is off"),
        ({"mcp": {"servers": {"clock": {"url": "${BEES_KEY}"}}}}, "left out"),
        ({"plugins": {"entries": {"honey": {"config": {"key": "${BEES_KEY}"}}}}}, "extension is off"),
        ({"agents": {"defaults": {"memorySearch": {"remote": {"apiKey": "${BEES_KEY}"}}}}}, "by words"),
        (
            {"agents": {"defaults": {"memorySearch": {"query": {"rerank": {"apiKey": "${BEES_KEY}"}}}}}},
            "again",
        ),
        ({"agents": {"defaults": {"model": {"primary": "${BEES_KEY}"}}}}, "model is not asked"),
        ({"agents": {"defaults": {"userTimezone": "${BEES_KEY}"}}}, "default applies"),
        ({"agents": {"list": [{"id": "a", "name": "${BEES_KEY}"}, {"id": "b"}]}}, "default applies"),
        ({"skills": {"load": {"extraDirs": ["${BEES_KEY}", "~/x", "${BEES_KEY}/y"]}}}, "default applies"),
        ({"http": {"port": "${BEES_KEY}"}}, "no HTTP server"),
    ],
)
def test_a_variable_that_is_not_set_takes_away_what_needs_it(
    tmp_path: Path, written: dict[str, Any], effect: str, environment: dict[str, str]
) -> None:
    """The other settings can be used, and one sentence names the setting, the variable and the effect."""
    write_settings(tmp_path, written | {"messages": {"queue": {"mode": "steer"}}})

    config = load_config({"HOME": str(tmp_path), **environment}, state_dir=tmp_path)

    told = [notice for notice in config.notices if "BEES_KEY" in notice]
    assert told
    assert all(effect in notice and "not set" in notice for notice in told)
    assert config.settings.messages.queue.mode == "steer"
    assert config.settings.http.port is None
    for channel in config.settings.channels.values():
        assert not any(account.enabled for account in channel.accounts.values() or [channel])
    assert unset_in(config.settings.channels, config.settings.mcp, config.settings.plugins) == ""


@pytest.mark.parametrize(
    "written",
    [
        {"storage": {"driver": "postgres", "url": "postgresql://u:${BEES_KEY}@db/n"}},
        {"agents": {"defaults": {"workspace": "~/${BEES_KEY}"}}},
        {"tools": {"deny": ["${BEES_KEY}"]}},
        {"usage": {"dailyCapUsd": "${BEES_KEY}"}},
        {"bindings": [{"agentId": "main", "match": {"channel": "${BEES_KEY}"}}]},
    ],
)
def test_a_variable_on_which_everything_depends_is_named_in_the_refusal(
    tmp_path: Path, written: dict[str, Any]
) -> None:
    """Where the data lies, who may do what and what it may cost have no default that would be safe."""
    write_settings(tmp_path, written)
    with pytest.raises(ConfigError, match=r"BEES_KEY, which is not set"):
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)


def test_letters_that_look_like_a_variable_are_not_one(tmp_path: Path) -> None:
    """`$${NAME}` reaches a tool server as `${NAME}`, and nothing is left out."""
    write_settings(tmp_path, {"mcp": {"servers": {"clock": {"command": "clock", "args": ["$${BEES_KEY}"]}}}})

    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)

    assert config.settings.mcp.servers["clock"].args == ("${BEES_KEY}",)
    assert config.notices == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$${BEES_KEY}", "${BEES_KEY}"),
        ("${bees}", "${bees}"),
        ("$BEES_KEY", "$BEES_KEY"),
        (12, 12),
        (None, None),
    ],
)
def test_other_texts_stay_as_they_are(written: object, meant: object) -> None:
    """Two dollars mean one; names not in capitals and other values are no variables."""
    assert filled_in({"a": [written]}, {"BEES_KEY": "k"}) == ({"a": [meant]}, ())


@pytest.mark.parametrize(
    "settings",
    [
        "session: {mainKey: '${BEES_KEY}'}",
        "agents: {defaults: {workspace: '~${BEES_KEY}'}}",
    ],
)
@pytest.mark.covers("ATT-17")
def test_what_a_variable_holds_is_never_told(tmp_path: Path, settings: str) -> None:
    """A refusal names the variable; its value, which may be a key, stands neither there nor in the trace."""
    (tmp_path / "nacre.json5").write_text(f"{{{settings}}}")
    environment = {"HOME": str(tmp_path), "BEES_KEY": "sk secret"}
    with pytest.raises(ConfigError, match=r"\$\{BEES_KEY\}") as refused:
        load_config(environment, state_dir=tmp_path)
    assert "sk secret" not in "".join(traceback.format_exception(refused.value))


def test_of_a_value_that_begins_as_another_nothing_is_left(tmp_path: Path) -> None:
    """The longer one is replaced first."""
    file = tmp_path / "nacre.json5"
    file.write_text('{a: "${BEES_KEY}", b: "${WASPS_KEY}"}')
    keys = {"BEES_KEY": "sk-1", "WASPS_KEY": "sk-123"}
    assert hide_values("Not sk-123, but sk-1.", file, keys) == "Not ${WASPS_KEY}, but ${BEES_KEY}."
