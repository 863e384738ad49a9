"""The contract's tests, run by the real library against a loopback Bot API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.telegram.bridge import TelegramBridge
from tests.extensions.telegram.bot_api import TOKEN, BotApi

pytestmark = pytest.mark.channels


def telegram(server: BotApi, *, token: str = TOKEN, file_bytes: int = 1_000) -> TelegramBridge:
    """A bridge to a loopback server."""
    return TelegramBridge(account="default", token=token, server=server.url, file_bytes=file_bytes)


class TelegramFarSide:
    """A `BotApi` as the contract's tests see it."""

    place = Place(channel="telegram", account="default", chat_id="7")

    def __init__(self, server: BotApi) -> None:
        self.server = server

    def bridge(self) -> Bridge:
        """A new bridge."""
        return telegram(self.server)

    async def say(self, text: str) -> None:
        """Ann says it."""
        self.server.say(text)

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees."""
        await self.server.until(lambda server: len(server.shown) >= least)
        return self.server.texts()

    async def cut(self) -> None:
        """Hangs up on who waits for news."""
        await self.server.until(lambda server: server.is_polled)
        self.server.cut()


@asynccontextmanager
async def _far_side() -> AsyncIterator[FarSide]:
    with BotApi() as server:
        yield TelegramFarSide(server)


class TestTelegram(BridgeContract):
    """A bot."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return _far_side()
