"""The stories of all channels, told by the real library and a loopback Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Bridge
from tests.bridges.channels.contract.stories import ChannelStories
from tests.bridges.channels.contract.world import World
from tests.extensions.slack.loopback import ANN, GROUP, PRIVATE, LoopbackSlack
from tests.extensions.slack.test_bridge_contract import slack_bridge

pytestmark = pytest.mark.channels


def made(spec: dict[str, Any]) -> Bridge:
    """The bridge to a server."""
    return slack_bridge(spec["url"])


class SlackWorld:
    """A `LoopbackSlack` as the stories see it."""

    channel = "slack"
    maker = "tests.extensions.slack.test_stories:made"
    ann = ANN
    keeps_messages = True
    has_threads = True

    def __init__(self, server: LoopbackSlack) -> None:
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
        """Ann says it; a thread is named by what its first message says."""
        chat = GROUP if group else PRIVATE
        root = next((said["ts"] for said in self.server.said[chat] if said["text"] == thread), "")
        self.server.say(text, chat=chat, thread=root if thread else "")

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What she sees."""
        chat = GROUP if group else PRIVATE
        root = next((said["ts"] for said in self.server.said[chat] if said["text"] == thread), "")
        return self.server.shown(chat, root if thread else "")

    async def server_stops(self) -> None:
        """Nobody answers there any more."""
        self.server.stop()

    async def server_starts(self) -> None:
        """There again."""
        self.server.start()


@asynccontextmanager
async def _world() -> AsyncIterator[World]:
    with LoopbackSlack() as server:
        yield SlackWorld(server)


class TestSlackStories(ChannelStories):
    """An app."""

    def world(self, folder: Path) -> AbstractAsyncContextManager[World]:
        """A server on loopback."""
        return _world()
