"""`CHANNEL`: XMPP, as the settings name it."""

from __future__ import annotations

from nacre.bridges.channels.xmpp.settings import XmppSettings
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel


def _make(home: AccountHome, settings: XmppSettings) -> Bridge:
    from nacre.bridges.channels.xmpp.bridge import XmppBridge

    return XmppBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="xmpp", settings=XmppSettings, make=_make)
