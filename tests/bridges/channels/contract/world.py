"""A channel with a real server and a person, as the stories of `stories.py` see it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nacre.bridges.contracts.bridge import Bridge

PATIENCE_SECONDS = 60.0
GROUP = {"groupPolicy": "open", "groups": {"*": {"requireMention": False}}}
"""Settings with which everybody in every group is answered."""


class World(Protocol):
    """A server that runs, and Ann, who has a private chat with the assistant and shares a group with it."""

    channel: str
    maker: str
    """Where the function stands that makes a bridge of `spec`, as `module:name`; `state` is added to it."""
    spec: dict[str, Any]
    ann: str
    """What the bridge says that Ann's id is."""
    keeps_messages: bool
    """Whether the server keeps what is said while the assistant is away."""
    has_threads: bool

    def bridge(self) -> Bridge:
        """A new bridge to the server."""
        ...

    async def meet(self) -> None:
        """Waits until Ann can say something to the assistant that she sees there."""
        ...

    async def part(self) -> None:
        """Waits until Ann sees that the assistant is gone, where people see that."""
        ...

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says something."""
        ...

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What Ann sees of the assistant, the oldest first."""
        ...

    async def server_stops(self) -> None:
        """The server is gone."""
        ...

    async def server_starts(self) -> None:
        """It is there again, and so is Ann."""
        ...


async def until(holds: Callable[[], object], what: Callable[[], object] = str) -> None:
    """Waits until something holds."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in itertools.count():
                if holds():
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it never came to that: {what()}") from None
