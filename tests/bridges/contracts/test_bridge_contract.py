"""The contract's tests, run over real TCP by a bridge that can do everything and one that can nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Part, Place
from nacre.bridges.contracts.bridge_contract import BridgeContract, FarSide
from tests.bridges.line_channel import ALL, NONE, LineBridge, LineServer


class LineFarSide:
    """A `LineServer` as the contract's tests see it."""

    place = Place(channel="line", account="default", chat_id="chat")

    def __init__(self, server: LineServer, capabilities: Capabilities) -> None:
        self.server = server
        self.capabilities = capabilities

    def bridge(self) -> Bridge:
        """A new bridge."""
        return LineBridge(self.server.port, capabilities=self.capabilities)

    async def say(self, text: str) -> None:
        """Ann says it."""
        self.server.say(text)

    async def shown(self, least: int) -> Sequence[str]:
        """What Ann sees."""
        await self.server.until(lambda server: len(server.sent) >= least)
        return self.server.shown()

    async def cut(self) -> None:
        """Hangs up."""
        self.server.cut()


@asynccontextmanager
async def _far_side(capabilities: Capabilities) -> AsyncIterator[FarSide]:
    with LineServer() as server:
        yield LineFarSide(server, capabilities)


class TestAble(BridgeContract):
    """A channel with everything."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return _far_side(ALL)


class TestPlain(BridgeContract):
    """A channel with nothing but messages, whose length counts bytes."""

    def far_side(self) -> AbstractAsyncContextManager[FarSide]:
        """A server on loopback."""
        return _far_side(NONE)


class _Stammering(LineBridge):
    async def deliver(self, part: Part) -> str:
        await super().deliver(part)
        return await super().deliver(part)


def test_the_contract_catches_a_bridge_that_says_things_twice() -> None:
    """A bridge that does not hold the contract fails its tests."""

    class Stammers(BridgeContract):
        def far_side(self) -> AbstractAsyncContextManager[FarSide]:
            @asynccontextmanager
            async def far() -> AsyncIterator[FarSide]:
                with LineServer() as server:
                    side = LineFarSide(server, NONE)
                    side.bridge = lambda: _Stammering(server.port, capabilities=NONE)  # type: ignore[method-assign]
                    yield side

            return far()

    with pytest.raises(AssertionError, match="instead of"):
        Stammers().test_what_is_delivered_is_shown()


def test_capabilities_that_no_channel_has_are_refused() -> None:
    """A length in which no code block fits, and no time between edits."""
    with pytest.raises(ValueError, match="at least 64"):
        Capabilities(greatest_length=20)
    with pytest.raises(ValueError, match="greater than 0"):
        Capabilities(edit_seconds=0)
