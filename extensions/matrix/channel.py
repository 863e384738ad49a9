"""`CHANNEL`: Matrix as a channel of the settings."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, Channel
from nacre.extensions.matrix.settings import MatrixSettings


def _make(home: AccountHome, settings: MatrixSettings) -> Bridge:
    from nacre.extensions.matrix.bridge import MatrixBridge

    if not (settings.password.get_secret_value() or settings.access_token.get_secret_value()):
        raise ValueError("password or accessToken is missing")
    return MatrixBridge(settings, account=home.account, folder=home.folder, now=home.now)


CHANNEL = Channel(name="matrix", settings=MatrixSettings, make=_make)
