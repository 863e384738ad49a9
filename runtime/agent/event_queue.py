"""The events of a turn for one reader, who may be slower than the model: text that waits is read at once."""

from __future__ import annotations

import asyncio
from collections import deque

from nacre.runtime.contracts.events import Event, TextStreamed


class EventQueue:
    """Events in order; `None` says that there are no more."""

    def __init__(self) -> None:
        self._waiting = deque[Event | None]()
        self._is_there = asyncio.Event()

    def put(self, event: Event | None) -> None:
        """Puts an event behind the others."""
        self._waiting.append(event)
        self._is_there.set()

    async def get(self) -> Event | None:
        """The next event; text that has piled up is one, so that a reader who is late catches up."""
        while not self._waiting:
            self._is_there.clear()
            await self._is_there.wait()
        event = self._waiting.popleft()
        if not isinstance(event, TextStreamed):
            return event
        text = [event.text]
        while self._waiting and isinstance(self._waiting[0], TextStreamed):
            text.append(self._waiting[0].text)
            self._waiting.popleft()
        return event if len(text) == 1 else TextStreamed(text="".join(text))
