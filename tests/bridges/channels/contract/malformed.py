"""Ten thousand payloads that no server should send, made of good ones; the same ones each time.

`malformed` breaks bytes; `broken` breaks what JSON holds. `fed` has a bridge hear them all.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from nacre.bridges.channels.messages import Ignored
from nacre.bridges.contracts.bridge import Bridge
from nacre.runtime.contracts.inbound import Inbound

T = TypeVar("T")

MALFORMED = 10_000
SAMPLE = 500
"""As many as `make test` has time for."""
_ODD = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x01",
    b" ",
    b":",
    b"",
    b"\n",
    b"<",
    b"&#0;",
    b"\xf0\x9f\x90",
    b"'\"\\",
)


def message_or_reason(read: Callable[..., T], *args: Any) -> T | str:
    """The message that `read` returns, or why it is ignored."""
    try:
        return read(*args)
    except Ignored as why:
        return str(why)


def malformed(good: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Good payloads cut, doubled, with bytes taken out, changed and put in, and plain noise."""
    dice = random.Random(13)
    for _ in range(count):
        raw = bytearray(dice.choice(good))
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(raw) + 1)
            match dice.randrange(6):
                case 0:
                    del raw[at:]
                case 1:
                    del raw[at : at + dice.randint(1, 9)]
                case 2:
                    raw[at:at] = dice.choice(_ODD)
                case 3:
                    raw[at : at + 1] = dice.randbytes(dice.randint(1, 4))
                case 4:
                    raw[at:at] = bytes(raw[at : at + dice.randint(1, 40)])
                case _:
                    raw[at:at] = dice.choice(good)
        yield bytes(raw)


JUNK: tuple[Any, ...] = (
    None, True, -1, 2**70, 1.5, "", "x", "\ud800", "9" * 300, [], [[]], [None], {}, {"id": {}}, {"type": 7},
)  # fmt: skip


def broken(whole: Any, chance: random.Random) -> Any:
    """The same with one to three pieces replaced by junk, or gone."""
    odd = copy.deepcopy(whole)
    for _ in range(chance.randint(1, 3)):
        at = odd
        while True:
            key = chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not (isinstance(at[key], dict | list) and at[key]) or chance.random() < 0.3:
                break
            at = at[key]
        if isinstance(at, dict) and chance.random() < 0.2:
            del at[key]
        else:
            at[key] = copy.deepcopy(chance.choice(JUNK))
        if not odd:
            break
    return odd


class _Door:
    """Takes everything, and knows the words after which nothing comes."""

    cursor = ""

    def __init__(self, last: str) -> None:
        self.taken: list[Inbound] = []
        self.is_connected = asyncio.Event()
        self.done = asyncio.Event()
        self._last = last

    def connected(self) -> None:
        """It is."""
        self.is_connected.set()

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """Keeps it."""
        self.taken.append(inbound)
        if inbound.text == self._last:
            self.done.set()


async def fed(
    bridge: Bridge, feed: Callable[[], Awaitable[None]], last: str, *, seconds: float
) -> list[Inbound]:
    """What a bridge takes of what `feed` has its server send; `last` are the last words.

    Fails when the bridge ends meanwhile, or is not through after so many seconds.
    """
    inbox = _Door(last)
    running = asyncio.create_task(bridge.start(inbox))
    async with asyncio.timeout(seconds):
        await inbox.is_connected.wait()
        await feed()
        done = asyncio.create_task(inbox.done.wait())
        await asyncio.wait({running, done}, return_when=asyncio.FIRST_COMPLETED)
        assert done.done(), "the bridge ended"
        await bridge.stop()
        await running
    return inbox.taken
