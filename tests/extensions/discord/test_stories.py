"""The stories and the bridge contract of all channels, told by the real library and a loopback Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.discord.bridge import DiscordBridge
from tests.bridges.channels.contract.served import LoopbackWorld, WorldFarSide, far_side_of
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.discord.loopback import LoopbackDiscord, discord_server, point_library_to
from tests.extensions.discord.people import ANN, GROUP, PRIVATE, STARTED, THREAD, TOKEN

pytestmark = pytest.mark.channels


def discord_bridge(folder: Path, *, token: str = TOKEN, reads_content: bool = True) -> DiscordBridge:
    """A bridge to a loopback server."""
    return DiscordBridge(
        account="default",
        token=token,
        folder=folder,
        now=lambda: STARTED,
        file_bytes=1_000,
        reads_content=reads_content,
    )


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server, in this process or in one of its own; `discord_server` undoes it here."""
    point_library_to(spec["url"])
    return discord_bridge(Path(spec["state"]) / "discord")


class DiscordWorld(LoopbackWorld[LoopbackDiscord]):
    """A `LoopbackDiscord` as the stories see it. Nobody can write to the bot before it was there once."""

    channel = "discord"
    ann = ANN
    keeps_messages = False

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


class DiscordFarSide(WorldFarSide[DiscordWorld]):
    """Ann's private chat."""

    place = Place(channel="discord", account="default", chat_id=PRIVATE)

    async def cut(self) -> None:
        """Hangs up, and knows nothing of the session any more."""
        await self.world.server.until(lambda server: server.is_heard)
        self.world.server.forget()
        self.world.server.cut()


@asynccontextmanager
async def discord_world(folder: Path) -> AsyncIterator[DiscordWorld]:
    """The world on a new server."""
    with discord_server() as server:
        world = DiscordWorld(server, made)
        world.spec |= {"url": server.url, "state": str(folder)}
        yield world


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return discord_world(folder)


class TestBridge(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return far_side_of(discord_world, DiscordFarSide)
