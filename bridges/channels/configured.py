"""Turns `channels` in the settings into accounts, and accounts into bridges."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, AccountSettings, Channel, secrets_of
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.installation import install_command
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.extensions.installed.discovery import Installed, built_in_extension, installed_extensions
from nacre.runtime.settings.sections.channels import AccountRules, ChannelSettings, laid_over
from nacre.runtime.settings.sections.plugins import PluginsSettings
from nacre.runtime.settings.sections.section import unread_keys
from nacre.runtime.settings.settings import Settings

log = logging.getLogger(__name__)

DEFAULT_ACCOUNT = "default"
_NO_CHANNELS = ("defaults", "modelByChannel")  # keys that OpenClaw has beside the channels
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it also names a folder


def channel_named(name: str, plugins: PluginsSettings) -> tuple[Channel[Any], str]:
    """The channel with a name, and the package to install if its library is missing.

    Raises:
        ChannelUnusable: the channel does not exist, is switched off, or is broken.
    """
    item = built_in_extension(name)
    if item is not None and _is_channel(item):
        return _load(item), f"nacre[{name}]"
    found = {item.id: item for item in installed_extensions() if _is_channel(item)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ChannelUnusable(f"There is no channel {name!r}. Installed channels: {known}.")
    if not plugins.enabled or name in plugins.deny:
        raise ChannelUnusable(f"The channel {name!r} is an extension that plugins switches off.")
    return _load(found[name]), found[name].package


def _is_channel(item: Installed) -> bool:
    return item.manifest is not None and item.manifest.kind == "channel"


def _load(item: Installed) -> Channel[Any]:
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
            f"The entry point of the channel {item.id!r} is not a nacre.bridges.contracts.channel.Channel "
            "with this name."
        )
    return channel


class Account(Record):
    """An account in the settings. Two accounts are equal if their bridges would be."""

    channel: Channel[Any]
    name: str
    settings: AccountSettings
    package: str

    @property
    def id(self) -> tuple[str, str]:
        """The channel and the account, as in `Inbound`."""
        return self.channel.name, self.name

    def bridge(self, state_dir: Path, now: Clock) -> Bridge:
        """Creates the bridge without starting it.

        Raises:
            ChannelUnusable: the library is missing, or the settings are refused.
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
            name, _, extra = self.package.rstrip("]").partition("[")
            raise ChannelUnusable(
                f"The channel {self.channel.name!r} needs the library {error.name}, which is not installed. "
                f"Install it with: {install_command(extra, package=name)}"
            ) from error
        except ValueError as error:
            raise ChannelUnusable(f"{place}: {error}") from error
        if (bridge.channel, bridge.account) != self.id:
            raise ChannelUnusable(
                f"{place} made a bridge that calls itself {bridge.channel}/{bridge.account}."
            )
        return bridge


class Configured(Record):
    """The accounts in the settings, and sentences about unusable ones (`problems`) and ignored settings
    (`notices`).
    """

    accounts: tuple[Account, ...] = ()
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The passwords and tokens of all accounts, including those from key files."""
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
                problems.append(f"{place}: an account's name consists of letters, digits, '.', '_' and '-'.")
                continue
            try:
                read = channel.read(rules.model_extra or {}, folders)
            except ChannelUnusable as error:
                problems.append(f"The settings of {place} are invalid: {error}.")
                continue
            accounts.append(Account(channel=channel, name=account, settings=read, package=package))
            if unread := ", ".join(unread_keys(read)):
                notices.append(f"The channel {name!r} ignores these settings of {place}: {unread}.")
    return Configured(accounts=tuple(accounts), problems=tuple(problems), notices=tuple(notices))


def _accounts(section: ChannelSettings) -> Iterator[tuple[str, AccountRules]]:
    if not section.accounts:
        yield DEFAULT_ACCOUNT, section
    for name, own in section.accounts.items():
        rules = laid_over(section, own)
        if rules.enabled:
            yield name, rules


def _place(channel: str, account: str) -> str:
    return f"channels.{channel}" if account == DEFAULT_ACCOUNT else f"channels.{channel}.accounts.{account}"
