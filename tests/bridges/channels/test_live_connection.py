"""A bridge's connection: none before it begins, and requests under way are waited for when it ends."""

from __future__ import annotations

import asyncio

import pytest

from nacre.bridges.channels.connection import LiveConnection
from nacre.bridges.contracts.errors import NotDelivered


async def test_without_a_connection_a_request_says_so() -> None:
    """The sentence names the service, and the message is kept for later."""
    live: LiveConnection[str] = LiveConnection("Slack")
    with pytest.raises(NotDelivered, match="there is no connection to Slack"):
        async with live.use():
            raise AssertionError("nothing may be asked")


async def test_the_end_waits_for_requests_under_way() -> None:
    """A request that has begun ends on its connection; a new one finds none."""
    live: LiveConnection[str] = LiveConnection("Slack")
    live.open("line")
    answered = asyncio.Event()

    async def ask() -> str:
        async with live.use() as connection:
            await answered.wait()
            return connection

    asked = asyncio.create_task(ask())
    await asyncio.sleep(0)
    settled = asyncio.create_task(live.close())
    await asyncio.sleep(0)
    assert not settled.done()
    with pytest.raises(NotDelivered):
        async with live.use():
            pass

    answered.set()
    await settled
    assert await asked == "line"


async def test_a_request_that_failed_is_not_waited_for() -> None:
    """An error leaves nothing behind that the end would wait for."""
    live: LiveConnection[str] = LiveConnection("Slack")
    live.open("line")
    with pytest.raises(OSError, match="gone"):
        async with live.use():
            raise OSError("gone")
    await asyncio.wait_for(live.close(), 5)
