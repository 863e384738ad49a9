"""What the settings say of an app of Slack. The library is imported when a bridge is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import NO_SECRET, AccountHome, AccountSettings, Channel, Secret


class SlackSettings(AccountSettings):
    """The keys of `channels.slack`."""

    bot_token: Secret = NO_SECRET
    """What Slack gives under OAuth & Permissions; it begins with `xoxb-`."""
    app_token: Secret = NO_SECRET
    """What Slack gives under Basic Information, with `connections:write`; it begins with `xapp-`."""
    api_root: str = "https://slack.com/api/"
    """The Web API's address."""
    media_max_mb: Annotated[float, Field(gt=0, le=1_000)] = 20.0
    """The largest file that is fetched."""


def make(home: AccountHome, settings: SlackSettings) -> Bridge:
    """The bridge of one app. Raises `ValueError` when a token is missing, or there is no address."""
    from nacre.extensions.slack.bridge import SlackBridge

    bot_token, app_token = settings.bot_token.get_secret_value(), settings.app_token.get_secret_value()
    if not (bot_token and app_token):
        raise ValueError(
            "botToken (xoxb-…) and appToken (xapp-…) are both needed; https://api.slack.com/apps"
        )
    if not settings.api_root.startswith(("https://", "http://")):
        raise ValueError(f"apiRoot is {settings.api_root!r}; an address begins with https://")
    return SlackBridge(
        account=home.account,
        bot_token=bot_token,
        app_token=app_token,
        server=settings.api_root,
        file_bytes=int(settings.media_max_mb * 1_000_000),
    )


CHANNEL = Channel(name="slack", settings=SlackSettings, make=make)
