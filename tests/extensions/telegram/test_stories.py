"""The stories of all channels, told by the real library and a loopback Bot API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge
from nacre.extensions.telegram.bridge import TelegramBridge
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.telegram.bot_api import GROUP, PRIVATE, TOKEN, BotApi

pytestmark = pytest.mark.channels

TOPIC = 3


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server."""
    return TelegramBridge(account="default", token=TOKEN, server=spec["url"], file_bytes=1_000)


class TelegramWorld:
    """A `BotApi` as the stories see it."""

    channel = "telegram"
    maker = "tests.extensions.telegram.test_stories:made"
    ann = "7"
    keeps_messages = True
    has_threads = True

    def __init__(self, server: BotApi) -> None:
        self.server = server
        self.spec = {"url": server.url}

    def bridge(self) -> Bridge:
        """A new bridge."""
        return made(self.spec)

    async def meet(self) -> None:
        """The server keeps what is said."""

    async def part(self) -> None:
        """It keeps it."""

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

    async def server_stops(self) -> None:
        """Nobody answers there any more."""
        self.server.stop()

    async def server_starts(self) -> None:
        """There again."""
        self.server.start()


@asynccontextmanager
async def _world() -> AsyncIterator[World]:
    with BotApi() as server:
        yield TelegramWorld(server)


class TestTelegramStories(ChannelStories):
    """A bot."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return _world()
