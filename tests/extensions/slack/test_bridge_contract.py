"""The contract's tests, run by the real library against a loopback Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.slack.bridge import SlackBridge
from tests.extensions.slack.loopback import APP_TOKEN, BOT_TOKEN, PRIVATE, LoopbackSlack

pytestmark = pytest.mark.channels


def slack_bridge(url: str, *, bot_token: str = BOT_TOKEN, app_token: str = APP_TOKEN) -> SlackBridge:
    """A bridge to a loopback server."""
    return SlackBridge(
        account="default", bot_token=bot_token, app_token=app_token, server=f"{url}/api/", file_bytes=1_000
    )


class SlackFarSide:
    """A `LoopbackSlack` as the contract's tests see it."""

    place = Place(channel="slack", account="default", chat_id=PRIVATE)

    def __init__(self, server: LoopbackSlack) -> None:
        self.server = server

    def bridge(self) -> Bridge:
        """A new bridge."""
        return slack_bridge(self.server.url)

    async def say(self, text: str) -> None:
        """Ann says it, as her program escapes it."""
        self.server.say(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees."""
        await self.server.until(lambda server: len(server.shown()) >= least)
        return self.server.shown()

    async def cut(self) -> None:
        """Hangs up."""
        await self.server.until(lambda server: server.is_heard)
        self.server.cut()


@asynccontextmanager
async def _far_side() -> AsyncIterator[FarSide]:
    with LoopbackSlack() as server:
        yield SlackFarSide(server)


class TestSlack(BridgeContract):
    """An app."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return _far_side()
