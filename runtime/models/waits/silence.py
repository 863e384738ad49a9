"""A model that is asked and says nothing: the owner is told, and one that sent nothing at all may be left.

Which sign of life ends a silence is the model's affair: it yields `ModelAlive` for what is not yet text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from nacre.records.record import Record
from nacre.runtime.contracts.errors import ModelTimedOut
from nacre.runtime.contracts.model import ModelAlive, StreamItem, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage


class Patience(Record):
    """How long a model may send nothing.

    After `slow_seconds` it is told, in each silence once. A model that was asked `first_byte_seconds` ago and
    has not sent one byte is given up. `None` is as long as the model itself waits.
    """

    slow_seconds: float | None = None
    first_byte_seconds: float | None = None


AS_LONG_AS_IT_TAKES = Patience()


async def watched(
    items: AsyncGenerator[StreamItem, None],
    *,
    model_name: str,
    patience: Patience,
    on_silence: Callable[[bool], None],
) -> AsyncGenerator[TextDelta | AssistantMessage, None]:
    """A model's answer without its signs of life, watched for silence; `items` are closed behind it.

    `on_silence` is told when `patience` ends, and whether anything had come before.

    Raises:
        ModelTimedOut: not one byte came within `patience`'s `first_byte_seconds`.
        ModelError: the model's own.
    """
    watch = _Watch(patience.slow_seconds, on_silence)
    try:
        item = await _first(items, model_name, patience.first_byte_seconds)
        while item is not None:
            watch.heard()
            if not isinstance(item, ModelAlive):
                yield item
            item = await anext(items, None)
    finally:
        watch.end()
        await items.aclose()


async def _first(
    items: AsyncGenerator[StreamItem, None], model_name: str, seconds: float | None
) -> StreamItem | None:
    if seconds is None:
        return await anext(items, None)
    try:
        async with asyncio.timeout(seconds):
            return await anext(items, None)
    except TimeoutError as error:
        raise ModelTimedOut(
            f"The model {model_name!r} sent nothing at all for {seconds:.15g} seconds."
        ) from error


class _Watch:
    """One timer for a whole answer: what comes only moves a number, which costs a token nothing."""

    def __init__(self, seconds: float | None, on_silence: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_silence = on_silence
        self._heard_at = self._loop.time()
        self._told_at: float | None = None
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._look_after(seconds, seconds)

    def heard(self) -> None:
        self._heard_at = self._loop.time()
        self._has_begun = True

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_after(self, wait_seconds: float, silent_seconds: float) -> None:
        self._timer = self._loop.call_later(wait_seconds, self._look, silent_seconds)

    def _look(self, silent_seconds: float) -> None:
        left_seconds = self._heard_at + silent_seconds - self._loop.time()
        if left_seconds <= 0:
            if self._told_at != self._heard_at:
                self._told_at = self._heard_at
                self._on_silence(self._has_begun)
            left_seconds = silent_seconds
        self._look_after(left_seconds, silent_seconds)
