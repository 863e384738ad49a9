"""The stories and the bridge contract of all channels, told by the real library and a loopback Bot API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.telegram.bridge import TelegramBridge
from tests.bridges.channels.contract.served import LoopbackWorld, WorldFarSide, far_side_of
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.telegram.bot_api import GROUP, PRIVATE, TOKEN, BotApi

pytestmark = pytest.mark.channels

TOPIC = 3


def telegram(url: str, *, token: str = TOKEN, file_bytes: int = 1_000) -> TelegramBridge:
    """A bridge to a loopback server."""
    return TelegramBridge(account="default", token=token, server=url, file_bytes=file_bytes)


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server."""
    return telegram(spec["url"])


class TelegramWorld(LoopbackWorld[BotApi]):
    """A `BotApi` as the stories see it."""

    channel = "telegram"
    ann = "7"

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it."""
        topic = {"is_topic_message": True, "message_thread_id": TOPIC} if thread else {}
        self.server.say(text, chat=GROUP if group else PRIVATE, **topic)

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What she sees."""
        chat = str((GROUP if group else PRIVATE)["id"])
        topic = str(TOPIC) if thread else None
        here = [message for message in self.server.shown if message.chat == chat]
        return [message.text for message in here if message.asked.get("message_thread_id") == topic]


class TelegramFarSide(WorldFarSide[TelegramWorld]):
    """Ann's private chat."""

    async def cut(self) -> None:
        """Hangs up on who waits for news."""
        await self.world.server.until(lambda server: server.is_polled)
        self.world.server.cut()


@asynccontextmanager
async def telegram_world(folder: Path) -> AsyncIterator[TelegramWorld]:
    """The world on a new server."""
    with BotApi() as server:
        world = TelegramWorld(server, made)
        world.spec["url"] = server.url
        yield world


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return telegram_world(folder)


class TestBridge(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return far_side_of(telegram_world, TelegramFarSide)
