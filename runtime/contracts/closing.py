"""Closes what was opened for a block: a store of sessions, the tables of a ledger, a memory engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Closable(Protocol):
    """Anything with a coroutine method `close`."""

    async def close(self) -> None:
        """Releases what it holds."""


C = TypeVar("C", bound=Closable)


@asynccontextmanager
async def using(opened: C) -> AsyncIterator[C]:
    """Yields `opened` and closes it after the block. `contextlib.aclosing` does so for a method `aclose`."""
    try:
        yield opened
    finally:
        await opened.close()
