"""What the settings say of a bot of Telegram. The library is imported when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class TelegramSettings(AccountSettings):
    """The keys of `channels.telegram`."""

    bot_token: Secret = NO_SECRET
    """What @BotFather gave."""
    api_root: str = "https://api.telegram.org"
    """The Bot API's address; another one for a server of one's own."""
    media_max_mb: Annotated[float, Field(gt=0, le=2_000)] = 20.0
    """The largest file that is fetched; Telegram's own server gives 20 MB at most."""


def make(home: AccountHome, settings: TelegramSettings) -> Bridge:
    """The bridge of one bot. Raises `ValueError` when it has no token, or no address to go to."""
    from nacre.extensions.telegram.bridge import TelegramBridge

    token = settings.bot_token.get_secret_value()
    if not token:
        raise ValueError("botToken is missing; @BotFather in Telegram gives one")
    if not settings.api_root.startswith(("https://", "http://")):
        raise ValueError(f"apiRoot is {settings.api_root!r}; an address begins with https://")
    return TelegramBridge(
        account=home.account,
        token=token,
        server=settings.api_root,
        file_bytes=int(settings.media_max_mb * 1_000_000),
    )


CHANNEL = Channel(name="telegram", settings=TelegramSettings, make=make)
