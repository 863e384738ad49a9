"""The settings of `channels.discord`, and `CHANNEL`. The library is imported only when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class DiscordSettings(AccountSettings):
    """A Discord bot."""

    bot_token: Secret = NO_SECRET
    """The bot's token, from the Discord developer portal under Bot."""
    message_content: bool = True
    """Whether to read server messages that do not mention the bot. This needs the Message Content Intent."""
    media_max_mb: Annotated[float, Field(gt=0, le=500)] = 20.0
    """The largest file to fetch, in megabytes."""


def make(home: AccountHome, settings: DiscordSettings) -> Bridge:
    """Makes a bot's bridge. Raises `ValueError` if there is no token."""
    from nacre.extensions.discord.bridge import DiscordBridge

    token = settings.bot_token.get_secret_value()
    if not token:
        raise ValueError("botToken is missing; you find it at https://discord.com/developers under Bot")
    return DiscordBridge(
        account=home.account,
        token=token,
        folder=home.folder,
        now=home.now,
        file_bytes=int(settings.media_max_mb * 1_000_000),
        reads_content=settings.message_content,
    )


CHANNEL = Channel(name="discord", settings=DiscordSettings, make=make)
