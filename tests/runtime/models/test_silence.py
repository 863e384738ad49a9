"""Whose silence is told, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import pytest

from nacre.runtime.contracts.errors import ModelTimedOut
from nacre.runtime.contracts.model import ModelAlive, StreamItem, TextDelta
from nacre.runtime.models.failover import Patience, watched


class Silent:
    """Gives items; after each it is silent until that silence was told."""

    def __init__(self, *items: StreamItem) -> None:
        self.items = items
        self.told: list[bool] = []
        self.closed = False
        self._was_told = asyncio.Event()

    def tell(self, last: StreamItem | None) -> None:
        self.told.append(last is not None)
        self._was_told.set()

    async def stream(self) -> AsyncGenerator[StreamItem, None]:
        try:
            await self._silence()
            for item in self.items:
                yield item
                await self._silence()
        finally:
            self.closed = True

    async def _silence(self) -> None:
        await self._was_told.wait()
        self._was_told.clear()


async def heard(silent: Silent, patience: Patience) -> list[StreamItem]:
    """What comes through."""
    items = watched(silent.stream(), model_name="a/one", patience=patience, on_silence=silent.tell)
    async with aclosing(items):
        return [item async for item in items]


async def test_each_silence_is_told_once_and_signs_of_life_stay_inside() -> None:
    """Before the first sign nothing has begun; each sign begins another silence."""
    silent = Silent(ModelAlive(), TextDelta(text="Hm"), ModelAlive())
    assert await heard(silent, Patience(slow_seconds=0.01)) == [TextDelta(text="Hm")]
    assert silent.told == [False, True, True, True]
    assert silent.closed


async def test_a_server_that_reads_for_long_is_told_of_once() -> None:
    """Its progress comes in pieces, with a silence behind each."""
    told = list[StreamItem | None]()

    async def stream() -> AsyncGenerator[StreamItem, None]:
        for tokens in (1, 2, 3):
            yield ModelAlive(is_reading=True, read_tokens=tokens, prompt_tokens=9)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.04):
                    await asyncio.Event().wait()
        yield TextDelta(text="There.")

    patience = Patience(slow_seconds=0.01)
    items = watched(stream(), model_name="a/one", patience=patience, on_silence=told.append)
    assert [item async for item in items] == [TextDelta(text="There.")]
    assert len(told) == 1


async def test_one_that_sends_nothing_is_given_up_and_its_request_ended() -> None:
    """The error names the model and the time, a very long one too in plain figures."""
    silent = Silent()
    with pytest.raises(ModelTimedOut, match=r"'a/one' sent nothing for 0\.05 seconds\."):
        await heard(silent, Patience(first_byte_seconds=0.05))
    assert silent.closed


async def test_a_sign_of_life_ends_the_wait_for_the_first_byte() -> None:
    """However long it is silent afterwards."""

    async def stream() -> AsyncGenerator[StreamItem, None]:
        yield ModelAlive()
        await was_told.wait()
        yield TextDelta(text="There.")

    was_told = asyncio.Event()
    items = watched(
        stream(),
        model_name="a/one",
        patience=Patience(slow_seconds=0.01, first_byte_seconds=0),
        on_silence=lambda _has_begun: was_told.set(),
    )
    assert [item async for item in items] == [TextDelta(text="There.")]
