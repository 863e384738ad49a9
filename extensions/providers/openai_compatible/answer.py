"""An answer that comes over HTTP: a stream of events, or a body that came whole. Edge: httpx's response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from nacre.extensions.providers.completions.replies import ReplyAssembly
from nacre.extensions.providers.openai_compatible.chunks import chunk_of, counted_usage, is_page, whole_answer
from nacre.extensions.providers.openai_compatible.connection import hang_up
from nacre.extensions.providers.openai_compatible.events import EventReader
from nacre.runtime.contracts.errors import ModelError

if TYPE_CHECKING:
    import httpx

MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Most of a body that is no stream of events."""
_END_SECONDS = 0.1
"""How long the end of a stream is waited for behind its last event; it mostly came along."""


class HttpAnswer:
    """The chunks of a response, whose body has not been read yet. `page_error` is for a page in its place."""

    def __init__(self, response: httpx.Response, *, page_error: Callable[[bytes], ModelError]) -> None:
        self.is_alive = False
        self.counted: Mapping[str, Any] | None = None
        self._response = response
        self._page_error = page_error
        self._chunks = self._read()

    async def next_chunk(self) -> Mapping[str, Any] | None:
        chunk = await anext(self._chunks, None)
        if chunk is not None:
            self.counted = counted_usage(chunk) or self.counted
        return chunk

    def is_ended(self, assembly: ReplyAssembly) -> bool:
        return assembly.has_finish_reason

    async def close(self) -> None:
        await self._chunks.aclose()
        await hang_up(self._response)

    async def _read(self) -> AsyncGenerator[Mapping[str, Any], None]:
        reader, unread, has_events = EventReader(), b"", False
        async with aclosing(_pieces(self._response)) as pieces:
            async for piece in pieces:
                events = reader.feed(piece)
                self.is_alive, has_events = not events, has_events or bool(events)
                unread = b"" if has_events else (unread + piece)[:MAX_WHOLE_BYTES]
                if not events:
                    yield {}
                for data in events:
                    chunk = chunk_of(data)
                    if chunk is None:
                        await _read_to_the_end(pieces)
                        return
                    yield chunk
        for data in reader.end():
            has_events = True
            if (chunk := chunk_of(data)) is not None:
                yield chunk
        if not has_events and (answer := self._whole(unread)) is not None:
            yield answer

    def _whole(self, body: bytes) -> Mapping[str, Any] | None:
        if is_page(body):
            raise self._page_error(body)
        return whole_answer(body)


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for piece in response.aiter_bytes():
        yield piece


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    """Reads the rest behind the last event, which is nothing: then the connection serves the next request."""
    with suppress(Exception):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in pieces:
                pass
