"""`CHANNEL`: e-mail, as the settings name it."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel
from nacre.extensions.email.settings import EmailSettings


def _make(home: AccountHome, settings: EmailSettings) -> Bridge:
    from nacre.extensions.email.bridge import EmailBridge

    if not (settings.auth_server or settings.trust_from):
        raise ValueError(
            "authServer is missing: what the mailbox's server calls itself in its Authentication-Results. "
            "Without it anybody can write as anybody; trustFrom: true takes that into account"
        )
    return EmailBridge(settings, account=home.account, now=home.now)


CHANNEL = Channel(name="email", settings=EmailSettings, make=_make)
