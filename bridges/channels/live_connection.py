"""The connection that a bridge has while it runs, and the requests that go through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from nacre.bridges.contracts.errors import NotDelivered

C = TypeVar("C")


class LiveConnection(Generic[C]):
    """None at first. `service` is the name in the sentence that says so."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._connection: C | None = None
        self._asked: set[asyncio.Future[None]] = set()

    def begins(self, connection: C) -> None:
        """From here on requests may use it."""
        self._connection = connection

    def ends(self) -> None:
        """From here on there is none for new requests."""
        self._connection = None

    async def settled(self) -> None:
        """Waits for requests under way: closed under them, nobody would know whether they arrived."""
        if self._asked:
            await asyncio.wait(self._asked)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[C]:
        """The connection, for one request. Raises `NotDelivered` when there is none."""
        if self._connection is None:
            raise NotDelivered(f"there is no connection to {self._service}")
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.add(asked)
        try:
            yield self._connection
        finally:
            asked.set_result(None)
            self._asked.discard(asked)
