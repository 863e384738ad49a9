"""`CHANNEL`: IRC as a channel of the settings."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel
from nacre.extensions.irc.settings import IrcSettings


def _make(home: AccountHome, settings: IrcSettings) -> Bridge:
    from nacre.extensions.irc.bridge import IrcBridge

    return IrcBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="irc", settings=IrcSettings, make=_make)
