"""The channels by name: Nacre's own rows are right, and others come as extensions."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from nacre.bridges.channels.registry import BUILT_IN, channel_named
from nacre.bridges.contracts.channel import AccountSettings, Channel
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.runtime.settings.plugins import PluginsSettings
from tests.house.tree import ROOT


def test_each_row_has_its_folder_its_channel_and_its_extra() -> None:
    """A row's module names a channel of that name, and its extra is one of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folders = {path.parent.name for path in (ROOT / "bridges" / "channels").glob("*/channel.py")}

    assert set(BUILT_IN) == folders
    for name, extra in BUILT_IN.items():
        channel = import_module(f"nacre.bridges.channels.{name}.channel").CHANNEL
        assert isinstance(channel, Channel)
        assert channel.name == name
        assert not extra or extra in project["optional-dependencies"]


def test_a_name_that_nobody_knows_is_told_with_those_there_are() -> None:
    """The owner reads which channels are installed."""
    with pytest.raises(ChannelUnusable, match=r"no channel 'carrier-pigeon'. Installed channels: "):
        channel_named("carrier-pigeon", PluginsSettings())


def test_a_name_that_cannot_stand_in_keys_is_refused() -> None:
    """Names of channels stand in session keys and folders."""
    with pytest.raises(ValueError, match="cannot be named 'Honk:2'"):
        Channel(name="Honk:2", settings=AccountSettings, make=lambda _home, _settings: None)  # type: ignore[arg-type, return-value] # it is never made


def test_importing_the_registry_imports_no_channel() -> None:
    """Rows are names; a library is imported when the settings name its channel."""
    text = Path(ROOT / "bridges" / "channels" / "registry.py").read_text(encoding="utf-8")

    assert "import nacre.bridges.channels." not in text
    assert "from nacre.bridges.channels." not in text
