"""The settings of `channels.slack`, and `CHANNEL`. The library is imported only when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class SlackSettings(AccountSettings):
    """A Slack app."""

    bot_token: Secret = NO_SECRET
    """The token under OAuth & Permissions. It begins with `xoxb-`."""
    app_token: Secret = NO_SECRET
    """The token under Basic Information with the scope `connections:write`. It begins with `xapp-`."""
    api_root: str = "https://slack.com/api/"
    """The URL of the Web API."""
    media_max_mb: Annotated[float, Field(gt=0, le=1_000)] = 20.0
    """The largest file to fetch, in megabytes."""


def make(home: AccountHome, settings: SlackSettings) -> Bridge:
    """Makes an app's bridge. Raises `ValueError` if a token is missing or the URL is invalid."""
    from nacre.extensions.slack.bridge import SlackBridge

    bot_token, app_token = settings.bot_token.get_secret_value(), settings.app_token.get_secret_value()
    if not (bot_token and app_token):
        raise ValueError(
            "botToken (xoxb-…) or appToken (xapp-…) is missing; you find both at https://api.slack.com/apps"
        )
    if not settings.api_root.startswith(("https://", "http://")):
        raise ValueError(f"apiRoot is {settings.api_root!r}; write a URL that begins with https://")
    return SlackBridge(
        account=home.account,
        bot_token=bot_token,
        app_token=app_token,
        server=settings.api_root,
        file_bytes=int(settings.media_max_mb * 1_000_000),
    )


CHANNEL = Channel(name="slack", settings=SlackSettings, make=make)
