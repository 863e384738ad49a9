"""`CHANNEL`: IRC, as the settings name it."""

from __future__ import annotations

from nacre.bridges.channels.irc.settings import IrcSettings
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel


def _make(home: AccountHome, settings: IrcSettings) -> Bridge:
    from nacre.bridges.channels.irc.bridge import IrcBridge

    return IrcBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="irc", settings=IrcSettings, make=_make)
