"""From `channels` in the settings to accounts, and from an account to its bridge."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, AccountSettings, Channel, secrets_of
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.extensions.installed.discovery import Installed, built_in_extensions, installed_extensions
from nacre.runtime.settings.sections.channels import AccountRules, ChannelSettings, laid_over
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.sections.section import unread_keys
from nacre.runtime.settings.settings import Settings

log = logging.getLogger(__name__)


def channel_named(name: str, plugins: PluginsSettings) -> tuple[Channel[Any], str]:
    """The channel of this name, and what an owner installs when its library is missing.

    Raises:
        ChannelUnusable: there is no such channel, it is switched off, or it is broken.
    """
    item = built_in_extensions().get(name)
    if item is not None and _brings_a_channel(item):
        return _loaded(item), f"nacre[{name}]"
    found = {item.id: item for item in installed_extensions() if _brings_a_channel(item)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ChannelUnusable(f"There is no channel {name!r}. Installed channels: {known}.")
    if not plugins.enabled or name in plugins.deny:
        raise ChannelUnusable(f"The channel {name!r} is an extension, and plugins switches it off.")
    return _loaded(found[name]), found[name].package


def _brings_a_channel(item: Installed) -> bool:
    return item.manifest is not None and item.manifest.kind == "channel"


def _loaded(item: Installed) -> Channel[Any]:
    if item.problem:
        raise ChannelUnusable(f"The channel {item.id!r} cannot be used. {item.problem}")
    try:
        channel = item.entry_point.load()
    except (Exception, SystemExit) as error:
        log.exception("the channel %s failed to load", item.id)
        raise ChannelUnusable(
            f"The channel {item.id!r} could not be loaded: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(channel, Channel) or channel.name != item.id:
        raise ChannelUnusable(
            f"The entry point of the channel {item.id!r} names no Channel of this name "
            "(nacre.bridges.contracts.channel)."
        )
    return channel


DEFAULT_ACCOUNT = "default"
_NO_CHANNELS = ("defaults", "modelByChannel")
"""Keys of OpenClaw below `channels` that name none."""
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""It names a folder."""


class Account(Record):
    """One account that the settings name. Two are equal when nothing about their bridge differs."""

    channel: Channel[Any]
    name: str
    settings: AccountSettings
    package: str

    @property
    def id(self) -> tuple[str, str]:
        """Channel and account, as `Inbound` has them."""
        return self.channel.name, self.name

    def bridge(self, state_dir: Path, now: Clock) -> Bridge:
        """The bridge, not started.

        Raises:
            ChannelUnusable: its library is missing, or it refuses its settings.
        """
        place = _place(self.channel.name, self.name)
        home = AccountHome(
            account=self.name, folder=state_dir / "bridges" / self.channel.name / self.name, now=now
        )
        try:
            bridge = self.channel.make(home, self.settings)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "nacre":
                raise
            raise ChannelUnusable(
                f"The channel {self.channel.name!r} needs the library {error.name}, which is not installed. "
                f"Install it: pip install '{self.package}'"
            ) from error
        except ValueError as error:
            raise ChannelUnusable(f"{place}: {error}") from error
        if (bridge.channel, bridge.account) != self.id:
            raise ChannelUnusable(
                f"{place} made a bridge that calls itself {bridge.channel}/{bridge.account}."
            )
        return bridge


class Configured(Record):
    """What the settings name: accounts, and sentences about what cannot be used and what nobody reads."""

    accounts: tuple[Account, ...] = ()
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The passwords and tokens of all accounts, also those of key files."""
        return tuple(secret for account in self.accounts for secret in secrets_of(account.settings))


def configured_accounts(settings: Settings, *, state_dir: Path, home: Path) -> Configured:
    """The accounts of all channels that are switched on, in the order of the settings."""
    accounts: list[Account] = []
    problems: list[str] = []
    notices: list[str] = []
    folders = {"home": home, "state": state_dir}
    for written, section in settings.channels.items():
        name = written.strip().lower()
        if not section.enabled or written in _NO_CHANNELS:
            continue
        try:
            channel, package = channel_named(name, settings.plugins)
        except ChannelUnusable as error:
            problems.append(str(error))
            continue
        for account, rules in _accounts(section):
            place = _place(name, account)
            if not _ACCOUNT.fullmatch(account):
                problems.append(f"{place}: an account is named with letters, digits, '.', '_' and '-'.")
                continue
            try:
                read = channel.read(rules.model_extra or {}, folders)
            except ChannelUnusable as error:
                problems.append(f"The settings of {place} do not fit: {error}.")
                continue
            accounts.append(Account(channel=channel, name=account, settings=read, package=package))
            if unread := ", ".join(unread_keys(read)):
                notices.append(f"The channel {name!r} does not read these settings of {place}: {unread}.")
    return Configured(accounts=tuple(accounts), problems=tuple(problems), notices=tuple(notices))


def _accounts(section: ChannelSettings) -> Iterator[tuple[str, AccountRules]]:
    if not section.accounts:
        yield DEFAULT_ACCOUNT, section
    for name, own in section.accounts.items():
        rules = laid_over(section, own)
        if rules.enabled:
            yield name, rules


def _place(channel: str, account: str) -> str:
    """Where an account stands in the settings, for sentences."""
    return f"channels.{channel}" if account == DEFAULT_ACCOUNT else f"channels.{channel}.accounts.{account}"
