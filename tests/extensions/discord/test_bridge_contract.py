"""The contract's tests, run by the real library against a loopback Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.discord.bridge import DiscordBridge
from tests.extensions.discord.loopback import LoopbackDiscord, discord_server
from tests.extensions.discord.people import PRIVATE, STARTED, TOKEN

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


class DiscordFarSide:
    """A `LoopbackDiscord` as the contract's tests see it."""

    place = Place(channel="discord", account="default", chat_id=PRIVATE)

    def __init__(self, server: LoopbackDiscord, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def bridge(self) -> Bridge:
        """A new bridge of the same account."""
        return discord_bridge(self.folder)

    async def say(self, text: str) -> None:
        """Ann says it."""
        self.server.say(text)

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees."""
        await self.server.until(lambda server: len(server.shown()) >= least)
        return self.server.shown()

    async def cut(self) -> None:
        """Hangs up, and knows nothing of the session any more."""
        await self.server.until(lambda server: server.is_heard)
        self.server.forget()
        self.server.cut()


@asynccontextmanager
async def _far_side() -> AsyncIterator[FarSide]:
    with TemporaryDirectory() as folder, discord_server() as server:
        yield DiscordFarSide(server, Path(folder))


class TestDiscord(BridgeContract):
    """A bot."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return _far_side()
