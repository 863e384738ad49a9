"""A model that speaks OpenAI's chat completions, over plain HTTP: no library between it and the wire.

It keeps the contract of `nacre.runtime.contracts.model`. It never retries, never logs a request, and
never touches the network before the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from nacre.runtime.contracts.errors import BadModelReply, ModelAuthError, ModelError
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.completions.addresses import user_of, without_credentials
from nacre.runtime.models.completions.errors import CallFacts, classify
from nacre.runtime.models.completions.keys import from_environment
from nacre.runtime.models.completions.known_model import KnownModel
from nacre.runtime.models.completions.replies import ReplyAssembly
from nacre.runtime.models.openai_compatible.body import RequestBodies
from nacre.runtime.models.openai_compatible.chunks import chunk_of, counted_usage, is_page, whole_answer
from nacre.runtime.models.openai_compatible.connection import Connection, hang_up
from nacre.runtime.models.openai_compatible.dialect import dialect_of, own_headers
from nacre.runtime.models.openai_compatible.events import EventReader
from nacre.runtime.models.openai_compatible.providers import Endpoint, resolve_endpoint
from nacre.sessions.contracts.messages import AssistantMessage

if TYPE_CHECKING:
    import httpx

API = "openai-completions"
"""What transcripts say of such answers; pi's name for the protocol."""
MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Most of a body that is no stream of events."""
_END_SECONDS = 0.1
"""How long the end of a stream is waited for behind its last event; it mostly came along."""


class OpenAICompatibleModel:
    """A model by its name, `provider/model`, e.g. `openai/gpt-4o` or `ollama/llama3`.

    `context_window_tokens` `None` takes the window from litellm's price map. `base_url` is the address of
    an own or compatible server, `None` the provider's; `api_key` `None` looks for the provider's variable in
    the environment, `key_place` says where it stands if not in the settings. `request_timeout_seconds` bounds
    the wait for an answer to begin. A stream that is silent for `stall_timeout_seconds` is given up; models
    that think before they speak may be silent until the request time-out before the first word. `now_ms`
    stamps the answers.
    """

    def __init__(
        self,
        name: str,
        *,
        context_window_tokens: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        key_place: str = "",
        request_timeout_seconds: float = 600,
        stall_timeout_seconds: float = 60,
        now_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self._known = KnownModel(name, configured_window_tokens=context_window_tokens)
        self._given_base_url = base_url
        self._given_key = api_key
        self._key_place = key_place
        self._request_timeout_seconds = request_timeout_seconds
        self._stall_timeout_seconds = stall_timeout_seconds
        self._now_ms = now_ms
        self._bodies: RequestBodies | None = None
        self._connection: Connection | None = None
        self._resolved: Endpoint | None = None
        self._closed = False

    @property
    def context_window_tokens(self) -> int | None:
        """The configured window, else what litellm's price map says, else `None`."""
        return self._known.context_window_tokens

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answers one request; raises `ModelError` itself after `aclose`."""
        if self._closed:
            raise ModelError(f"The model {self.name!r} was closed; open the agent again to use it.")
        endpoint = self._endpoint()
        assembly = ReplyAssembly(model_name=self.name, api=API)
        counted: Mapping[str, Any] | None = None
        response: httpx.Response | None = None
        try:
            response = await self._opened(endpoint, request)
            async with aclosing(self._chunks(response, endpoint, assembly)) as chunks:
                async for chunk in chunks:
                    counted = counted_usage(chunk) or counted
                    if text := assembly.add(chunk):
                        yield TextDelta(text=text)
            yield assembly.message(
                ended=assembly.has_finish_reason,
                usage=self._known.usage(counted),
                timestamp_ms=self._now_ms(),
                request_size=len(request.messages),
            )
        except Exception as error:
            raise classify(error, self._facts(endpoint)) from error
        finally:
            if response is not None:
                await hang_up(response)

    async def aclose(self) -> None:
        """Closes the connections."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _endpoint(self) -> Endpoint:
        # a key that comes into the environment later counts too
        if self._resolved is None or not self._resolved.api_key:
            self._resolved = resolve_endpoint(
                self.name,
                base_url=self._given_base_url,
                api_key=self._given_key,
                from_environment=from_environment,
            )
        return self._resolved

    async def _opened(self, endpoint: Endpoint, request: ModelRequest) -> httpx.Response:
        if endpoint.needs_key and not endpoint.api_key:
            raise ModelAuthError(
                f"The key for the model {self.name!r} is missing. Set the environment variable "
                f"{endpoint.key_variables[-1]} to a valid key."
            )
        if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
            raise ModelAuthError(  # the library's own error would quote it
                f"The key for the model {self.name!r} has a line break or a character that HTTP cannot send."
            )
        if not endpoint.base_url:
            raise ModelError(
                f"The settings do not say where the model {self.name!r} is asked. Set "
                f"models.providers.{endpoint.provider_name}.baseUrl to its address."
            )
        if self._connection is None:
            self._connection = Connection(endpoint.base_url)
        if self._bodies is None:
            self._bodies = RequestBodies(dialect_of(endpoint, self._known.entry))
        body = self._bodies.body(request)
        headers = own_headers(endpoint, from_environment)
        async with asyncio.timeout(self._request_timeout_seconds):
            return await self._connection.open(endpoint.url, body, headers)

    async def _chunks(
        self, response: httpx.Response, endpoint: Endpoint, assembly: ReplyAssembly
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """The chunks of an answer as they come."""
        reader, unread, has_events, is_alive = EventReader(), b"", False, False
        async with aclosing(_pieces(response)) as pieces:
            while (piece := await self._next(pieces, assembly, is_alive=is_alive)) is not None:
                events = reader.feed(piece)
                is_alive, has_events = not events, has_events or bool(events)
                unread = b"" if has_events else (unread + piece)[:MAX_WHOLE_BYTES]
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
        if not has_events and (answer := self._whole(unread, endpoint)) is not None:
            yield answer

    async def _next(
        self, pieces: AsyncIterator[bytes], assembly: ReplyAssembly, *, is_alive: bool
    ) -> bytes | None:
        seconds = self._known.silence_seconds(
            has_content=assembly.has_content,
            is_alive=is_alive,
            stall_seconds=self._stall_timeout_seconds,
            request_seconds=self._request_timeout_seconds,
        )
        try:
            async with asyncio.timeout(seconds):
                return await anext(pieces, None)
        except TimeoutError as error:
            raise self._known.fell_silent(seconds) from error

    def _whole(self, body: bytes, endpoint: Endpoint) -> Mapping[str, Any] | None:
        if is_page(body):
            raise BadModelReply(
                f"{without_credentials(endpoint.url)} answered with a web page when the model {self.name!r} "
                "was asked. Check the address, which often ends in /v1, in "
                f"models.providers.{endpoint.provider_name}.baseUrl.",
                detail=body[:500].decode("utf-8", "replace"),
            )
        return whole_answer(body)

    def _facts(self, endpoint: Endpoint) -> CallFacts:
        _, password = user_of(endpoint.base_url) or ("", "")
        return CallFacts(
            model_name=self.name,
            api_base=without_credentials(endpoint.base_url),
            key_is_configured=bool(self._given_key),
            key_place=self._key_place,
            secrets=(endpoint.api_key, password),
            now_seconds=self._now_ms() / 1000,
        )


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for piece in response.aiter_bytes():
        yield piece


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    """Reads the rest behind the last event, which is nothing: then the connection serves the next request."""
    with suppress(Exception):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in pieces:
                pass
