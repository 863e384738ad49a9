"""The settings of `channels.telegram`, and `CHANNEL`. The library is imported only when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class TelegramSettings(AccountSettings):
    """A Telegram bot."""

    bot_token: Secret = NO_SECRET
    """The bot's token, from @BotFather."""
    api_root: str = "https://api.telegram.org"
    """The URL of the Bot API. Change it for a self-hosted server."""
    media_max_mb: Annotated[float, Field(gt=0, le=2_000)] = 20.0
    """The largest file to fetch, in megabytes. Telegram's own server sends at most 20 MB."""


def make(home: AccountHome, settings: TelegramSettings) -> Bridge:
    """Makes a bot's bridge. Raises `ValueError` if there is no token or the URL is invalid."""
    from nacre.extensions.telegram.bridge import TelegramBridge

    token = settings.bot_token.get_secret_value()
    if not token:
        raise ValueError("botToken is missing; @BotFather in Telegram gives one")
    if not settings.api_root.startswith(("https://", "http://")):
        raise ValueError(f"apiRoot is {settings.api_root!r}; write a URL that begins with https://")
    return TelegramBridge(
        account=home.account,
        token=token,
        server=settings.api_root,
        file_bytes=int(settings.media_max_mb * 1_000_000),
    )


CHANNEL = Channel(name="telegram", settings=TelegramSettings, make=make)
