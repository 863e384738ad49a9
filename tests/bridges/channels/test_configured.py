"""From `channels` in the settings to accounts: their channels by name, secrets, and what is wrong."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.channels.configured import Configured, channel_named, configured_accounts
from nacre.bridges.contracts.channel import AccountSettings, Channel
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.settings import Settings
from tests.bridges.channels.contract.line_extension import install_line
from tests.house.tree import ROOT


@pytest.fixture(autouse=True)
def line(tmp_path: Path) -> Iterator[None]:
    """The line channel is installed."""
    site = tmp_path / "site"
    install_line(site)
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))
        sys.modules.pop("nacre_line", None)


def found(tmp_path: Path, channels: Mapping[str, Any], **more: Any) -> Configured:
    settings = Settings.model_validate({"channels": channels, **more})
    return configured_accounts(settings, state_dir=tmp_path, home=tmp_path / "home")


def now() -> datetime:
    return datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


def test_a_channel_without_accounts_is_one_account(tmp_path: Path) -> None:
    """It is called `default`, and its bridge says so."""
    [account] = found(tmp_path, {"Line": {"port": 7, "dmPolicy": "open"}}).accounts

    bridge = account.bridge(tmp_path, now)

    assert (bridge.channel, bridge.account) == ("line", "default")


def test_accounts_have_the_channels_keys_and_their_own_over_them(tmp_path: Path) -> None:
    """Each is a bridge of its own; one that is switched off is none."""
    here = found(
        tmp_path,
        {"line": {"port": 7, "accounts": {"home": {}, "work": {"port": 8}, "old": {"enabled": False}}}},
    )

    assert [(each.name, each.settings.model_dump()["port"]) for each in here.accounts] == [
        ("home", 7),
        ("work", 8),
    ]
    assert here.problems == here.notices == ()


def test_a_channel_that_is_switched_off_is_not_looked_for(tmp_path: Path) -> None:
    """Neither is what OpenClaw keeps below `channels` beside channels."""
    here = found(tmp_path, {"pigeon": {"enabled": False}, "defaults": {"groupPolicy": "open"}})

    assert here == Configured()


def test_keys_that_nobody_reads_are_told(tmp_path: Path) -> None:
    """The access rules and the channel's own keys are read; the rest is told with its place."""
    here = found(tmp_path, {"line": {"port": 7, "allowFrom": ["x"], "streaming": {"mode": "block"}}})

    assert here.notices == ("The channel 'line' ignores these settings of channels.line: streaming.",)


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    """Relative to the state folder, or below `~`; it never shows."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("hunter2\n")
    (tmp_path / "key").write_text("hunter3\n")

    here = found(
        tmp_path,
        {
            "line": {
                "port": 7,
                "accounts": {
                    "a": {"password": {"file": "~/key"}},
                    "b": {"password": {"file": "key"}},
                },
            }
        },
    )

    one, two = here.accounts
    assert here.secrets == ("hunter2", "hunter3")
    assert one.settings.model_dump()["password"].get_secret_value() == "hunter2"
    assert two.settings.model_dump()["password"].get_secret_value() == "hunter3"
    assert "hunter" not in repr(one)


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({}, "The settings of channels.line are invalid: port: Field required"),
        ({"port": "s3cret"}, "port: Input should be a valid integer"),
        ({"port": 7, "password": {"file": "none"}}, "the key file .*none cannot be read: No such file"),
        ({"port": 7, "password": {"env": "X"}}, 'a secret is a string, "..NAME."'),
        ({"port": 7, "accounts": {"../up": {}}}, "channels.line.accounts.../up: an account's name"),
    ],
)
def test_what_does_not_fit_is_told_without_its_value(
    tmp_path: Path, own: dict[str, Any], problem: str
) -> None:
    """One sentence for each account; a value may be a secret."""
    here = found(tmp_path, {"line": own})

    [told] = here.problems
    assert here.accounts == ()
    assert re.search(problem, told), told
    assert "s3cret" not in told


def test_an_extension_that_plugins_denies_is_no_channel(tmp_path: Path) -> None:
    """`plugins` has the last word about code of others."""
    here = found(tmp_path, {"line": {"port": 7}}, plugins={"deny": ["line"]})

    assert here.problems == ("The channel 'line' is an extension that plugins switches off.",)


def test_a_missing_library_is_told_with_what_to_install(tmp_path: Path) -> None:
    """And what a channel refuses, with where it stands in the settings."""
    [missing, below] = found(
        tmp_path,
        {"line": {"port": 7, "accounts": {"a": {"needs": "no_such_library"}, "b": {"port": -1}}}},
    ).accounts

    with pytest.raises(ChannelUnusable, match=r"needs the library no_such_library.*install .*nacre-line"):
        missing.bridge(tmp_path, now)
    with pytest.raises(ChannelUnusable, match=r"^channels.line.accounts.b: port is below zero$"):
        below.bridge(tmp_path, now)


def test_an_account_whose_settings_changed_is_another_one(tmp_path: Path) -> None:
    """A changed settings file starts again what differs, and nothing else."""
    settings = {"line": {"port": 7, "accounts": {"a": {}, "b": {}}}}
    before = found(tmp_path, settings).accounts
    settings["line"]["accounts"] = {"a": {}, "b": {"port": 9}}
    after = found(tmp_path, settings).accounts

    assert [one == two for one, two in zip(before, after, strict=True)] == [True, False]


def test_each_built_in_channel_has_an_extra_that_brings_its_library() -> None:
    """A folder of `extensions/` with a `channel.py` is found by its name; pyproject.toml has its extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = sorted(path.parent.name for path in (ROOT / "extensions").glob("*/channel.py"))

    assert len(names) == 7
    for name in names:
        channel, package = channel_named(name, PluginsSettings())
        assert (channel.name, package) == (name, f"nacre[{name}]")
        assert name in extras


def test_a_name_that_nobody_knows_is_told_with_those_there_are() -> None:
    """The owner reads which channels are installed."""
    with pytest.raises(ChannelUnusable, match=r"no channel 'carrier-pigeon'. Installed channels: "):
        channel_named("carrier-pigeon", PluginsSettings())


def test_a_name_that_cannot_stand_in_keys_is_refused() -> None:
    """Names of channels stand in session keys and folders."""
    with pytest.raises(ValueError, match="name cannot be 'Honk:2'"):
        Channel(name="Honk:2", settings=AccountSettings, make=lambda _home, _settings: None)  # type: ignore[arg-type, return-value] # it is never made
