"""`CHANNEL`: e-mail as a channel of the settings."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel
from nacre.extensions.email.settings import EmailSettings


def _make(home: AccountHome, settings: EmailSettings) -> Bridge:
    from nacre.extensions.email.bridge import EmailBridge

    if not (settings.auth_server or settings.trust_from):
        raise ValueError(
            "authServer is missing: the name of the mailbox's server in its Authentication-Results. "
            "Without it anybody can write as anybody. To accept that, set trustFrom to true"
        )
    return EmailBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="email", settings=EmailSettings, make=_make)
