"""What the settings say of a bot of Discord. The library is imported when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class DiscordSettings(AccountSettings):
    """The keys of `channels.discord`."""

    bot_token: Secret = NO_SECRET
    """What Discord's developer portal gives under Bot."""
    message_content: bool = True
    """Whether messages in servers are read that do not mention the bot: the Message Content Intent."""
    media_max_mb: Annotated[float, Field(gt=0, le=500)] = 20.0
    """The largest file that is fetched."""


def make(home: AccountHome, settings: DiscordSettings) -> Bridge:
    """The bridge of one bot. Raises `ValueError` when it has no token."""
    from nacre.extensions.discord.bridge import DiscordBridge

    token = settings.bot_token.get_secret_value()
    if not token:
        raise ValueError("botToken is missing; https://discord.com/developers gives one, under Bot")
    return DiscordBridge(
        account=home.account,
        token=token,
        folder=home.folder,
        now=home.now,
        file_bytes=int(settings.media_max_mb * 1_000_000),
        reads_content=settings.message_content,
    )


CHANNEL = Channel(name="discord", settings=DiscordSettings, make=make)
