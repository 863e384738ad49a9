"""The stories and the bridge contract of all channels, told by the real library and a loopback Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from nacre.extensions.slack.bridge import SlackBridge
from tests.bridges.channels.contract.served import LoopbackWorld, WorldFarSide, far_side_of
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.slack.loopback import ANN, APP_TOKEN, BOT_TOKEN, GROUP, PRIVATE, LoopbackSlack

pytestmark = pytest.mark.channels


def slack_bridge(url: str, *, bot_token: str = BOT_TOKEN, app_token: str = APP_TOKEN) -> SlackBridge:
    """A bridge to a loopback server."""
    return SlackBridge(
        account="default", bot_token=bot_token, app_token=app_token, server=f"{url}/api/", file_bytes=1_000
    )


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server."""
    return slack_bridge(spec["url"])


class SlackWorld(LoopbackWorld[LoopbackSlack]):
    """A `LoopbackSlack` as the stories see it."""

    channel = "slack"
    ann = ANN

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it, as her program escapes it; a thread is named by what its first message says."""
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        chat, root = self._place(group, thread)
        self.server.say(escaped, chat=chat, thread=root)

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What she sees."""
        return self.server.shown(*self._place(group, thread))

    def _place(self, group: bool, thread: str) -> tuple[str, str]:
        chat = GROUP if group else PRIVATE
        roots = [said["ts"] for said in self.server.said[chat] if thread and said["text"] == thread]
        return chat, roots[0] if roots else ""


class SlackFarSide(WorldFarSide[SlackWorld]):
    """Ann's private chat."""

    place = Place(channel="slack", account="default", chat_id=PRIVATE)

    async def cut(self) -> None:
        """Hangs up."""
        await self.world.server.until(lambda server: server.is_heard)
        self.world.server.cut()


@asynccontextmanager
async def slack_world(folder: Path) -> AsyncIterator[SlackWorld]:
    """The world on a new server."""
    with LoopbackSlack() as server:
        world = SlackWorld(server, made)
        world.spec["url"] = server.url
        yield world


class TestStories(ChannelStories):
    """The stories of every channel."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return slack_world(folder)


class TestBridge(BridgeContract):
    """What every bridge must hold."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return far_side_of(slack_world, SlackFarSide)
