"""The stories of all channels, told by the real library and a loopback Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.discord.loopback import LoopbackDiscord, discord_server, point_library_to
from tests.extensions.discord.people import ANN, GROUP, PRIVATE, THREAD
from tests.extensions.discord.test_bridge_contract import discord_bridge

pytestmark = pytest.mark.channels


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server, in a process of its own."""
    point_library_to(spec["url"])
    return discord_bridge(Path(spec["state"]) / "discord")


class DiscordWorld:
    """A `LoopbackDiscord` as the stories see it. Nobody can write to the bot before it was there once."""

    channel = "discord"
    maker = "tests.extensions.discord.test_stories:made"
    ann = ANN
    keeps_messages = False
    has_threads = True

    def __init__(self, server: LoopbackDiscord, folder: Path) -> None:
        self.server = server
        self.spec = {"url": server.url}
        self._folder = folder

    def bridge(self) -> Bridge:
        """A new bridge."""
        return discord_bridge(self._folder)

    async def meet(self) -> None:
        """The bot shows as online."""
        await self.server.until(lambda server: server.is_heard)

    async def part(self) -> None:
        """It does not any more, for so long that only the history tells what arrived."""
        await self.server.until(lambda server: not server.is_heard)
        self.server.minutes_pass()

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it."""
        self.server.say(text, chat=THREAD if thread else GROUP if group else PRIVATE)

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What she sees."""
        return self.server.shown(THREAD if thread else GROUP if group else PRIVATE)

    async def server_stops(self) -> None:
        """Nobody answers there any more."""
        self.server.stop()

    async def server_starts(self) -> None:
        """There again."""
        self.server.start()


@asynccontextmanager
async def _world(folder: Path) -> AsyncIterator[World]:
    with discord_server() as server:
        yield DiscordWorld(server, folder / "discord")


class TestDiscordStories(ChannelStories):
    """A bot."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return _world(folder)
