"""`CHANNEL`: XMPP as a channel of the settings."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel
from nacre.extensions.xmpp.settings import XmppSettings


def _make(home: AccountHome, settings: XmppSettings) -> Bridge:
    from nacre.extensions.xmpp.bridge import XmppBridge

    return XmppBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="xmpp", settings=XmppSettings, make=_make)
