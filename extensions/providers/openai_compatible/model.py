"""A model that speaks OpenAI's chat completions, over plain HTTP.

Its answer is a stream of server-sent events, or a body that comes whole. Source of the events: "Server-sent
events" in the HTML standard. Lines end at CR, LF or both and nowhere else: JSON may contain other line
separators of Unicode. Only the field `data` has a meaning here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from nacre.extensions.providers.completions.addresses import user_of, without_credentials
from nacre.extensions.providers.completions.errors import CallFacts, ProviderAnswered
from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.completions.provider_model import ProviderModel
from nacre.extensions.providers.completions.replies import ReplyAssembly
from nacre.extensions.providers.openai_compatible.body import RequestBodies, dialect_of, own_headers
from nacre.extensions.providers.openai_compatible.connection import Connection, hang_up, load_client
from nacre.extensions.providers.openai_compatible.listing import bearer, served_model
from nacre.extensions.providers.openai_compatible.providers import Endpoint, resolve_endpoint
from nacre.runtime.contracts.errors import BadModelReply, ModelAuthError, ModelError
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.settings.sections.models import SERVED_MODEL

if TYPE_CHECKING:
    import httpx

LEARN_SECONDS = 3.0
"""How long a server may take to report its window."""


class OpenAICompatibleModel(ProviderModel):
    """A model of a provider in `providers.py`, or at any address with the protocol."""

    api = "openai-completions"
    _bodies: RequestBodies | None = None
    _connection: Connection | None = None
    _resolved: Endpoint | None = None
    _learning: asyncio.Task[None] | None = None
    _reports_progress = False
    _tries_left = 3

    def load_ahead(self) -> None:
        Thread(target=load_client, name="httpx", daemon=True).start()

    @property
    def takes_output_schema(self) -> bool:
        """Whether it answers with JSON that fits a schema, also beside tools."""
        endpoint = self._endpoint()
        is_known = endpoint.provider.takes_output_schema and endpoint.is_providers_own
        return is_known and bool(self._known.entry.get("supports_response_schema"))

    async def learn_window(self) -> None:
        """Asks the owner's server, and a provider's server only if the price map lacks the model."""
        if self._learning is None or (self._learning.done() and self._tries_left > 0):
            if self._closed or self._unusable or not self._can_tell_more():
                return
            self._learning = asyncio.create_task(self._learn())
        await asyncio.shield(self._learning)

    def _can_tell_more(self) -> bool:
        endpoint = self._endpoint()
        if not endpoint.base_url or not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
            return False
        return self._is_own_server() or (bool(endpoint.api_key) and not self._known.context_window_tokens)

    async def _learn(self) -> None:
        endpoint = self._endpoint()
        headers = bearer(endpoint.api_key)
        # its own: a server that closes behind each answer must not break the request that follows
        async with aclosing(Connection(endpoint.base_url)) as asked:
            served = await served_model(
                asked, endpoint.base_url, endpoint.model, headers, seconds=LEARN_SECONDS
            )
        if served is not None:
            self._known.served_window_tokens = served.window_tokens
            self._reports_progress = served.is_llama_cpp
            if endpoint.model == SERVED_MODEL:
                self._resolved = replace(endpoint, model=served.name)
            # Ollama knows the window of a model that is loaded, which it is behind the first answer
            self._tries_left = 0 if served.window_tokens else self._tries_left - 1

    def _is_own_server(self) -> bool:
        return not self._endpoint().is_providers_own

    async def _load(self) -> None:
        """httpx takes a tenth of a second, in the thread that makes the first connection."""
        if self._learning is None:
            await self.learn_window()

    async def _asked(self, request: ModelRequest) -> HttpAnswer:
        endpoint = self._endpoint()
        self._check(endpoint)
        if self._bodies is None:
            dialect = dialect_of(endpoint, self._known.entry, reports_progress=self._reports_progress)
            self._bodies = RequestBodies(dialect)
        body = self._bodies.body(request)
        headers = own_headers(endpoint, from_environment)
        if self._connection is None:
            self._connection = Connection(endpoint.base_url)
        response = await self._connection.open(endpoint.url, body, headers)
        return HttpAnswer(response, page_error=self._page_error)

    async def _release(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _endpoint(self) -> Endpoint:
        # a key that comes into the environment later counts too
        if self._resolved is None or (self._resolved.needs_key and not self._resolved.api_key):
            self._resolved = resolve_endpoint(
                self.name,
                base_url=self._base_url,
                api_key=self._api_key,
                from_environment=from_environment,
            )
        return self._resolved

    def _check(self, endpoint: Endpoint) -> None:
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

    def _page_error(self, page: bytes) -> BadModelReply:
        endpoint = self._endpoint()
        return BadModelReply(
            f"{without_credentials(endpoint.url)} answered with a web page when the model {self.name!r} "
            "was asked. Check the address, which often ends in /v1, in "
            f"models.providers.{endpoint.provider_name}.baseUrl.",
            detail=page[:500].decode("utf-8", "replace"),
        )

    def _facts(self) -> CallFacts:
        endpoint = self._endpoint()
        _, password = user_of(endpoint.base_url) or ("", "")
        return CallFacts(
            model_name=self.name,
            api_base=without_credentials(endpoint.base_url),
            key_is_configured=bool(self._api_key),
            key_place=self._key_place,
            secrets=(endpoint.api_key, password),
            now_seconds=self._now_ms() / 1000,
        )


MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Most of a body that is no stream of events."""
_END_SECONDS = 0.1
"""How long to wait for the end of a stream after its last event; it usually arrives with it."""


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
    """Reads the empty rest after the last event, so that the connection can serve the next request."""
    with suppress(Exception):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in pieces:
                pass


_DONE = b"[DONE]"


def chunk_of(data: bytes) -> Mapping[str, Any] | None:
    """The chunk of an event; `None` for the one after the last.

    Raises:
        ProviderAnswered: it holds an error, which came after the answer had begun.
        ValueError: it holds something else.
    """
    if data.strip() == _DONE:
        return None
    chunk = json.loads(data)
    if not isinstance(chunk, dict):
        raise ValueError(f"an event that is no object: {data[:200]!r}")
    if chunk.get("error"):
        raise _failure(chunk["error"])
    return chunk


def whole_answer(body: bytes) -> Mapping[str, Any] | None:
    """A completion that came whole, from a server that does not stream, as one chunk; `None` for no such.

    Raises:
        ProviderAnswered: the body is an error, though the status said success.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    if answer.get("error"):
        raise _failure(answer["error"])
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        return None
    return {**answer, "choices": [{**choice, "delta": choice.get("message")} for choice in choices]}


def counted_usage(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The usage in a chunk; Groq has a field of its own."""
    own = chunk.get("x_groq")
    usage = chunk.get("usage") or (own.get("usage") if isinstance(own, dict) else None)
    return usage if isinstance(usage, dict) else None


def is_page(body: bytes) -> bool:
    """Whether a body is a web page, so that not a model's API answered."""
    return body.lstrip()[:1] == b"<"


def _failure(error: Any) -> ProviderAnswered:
    fields = error if isinstance(error, dict) else {}
    said = [fields.get(name) for name in ("status_code", "status", "code")]
    status = next((value for value in said if isinstance(value, int) and not isinstance(value, bool)), None)
    if status is None and any("rate_limit" in str(fields.get(name)) for name in ("code", "type")):
        status = 429
    return ProviderAnswered(
        status, {}, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    )


_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Splits a stream of bytes into events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that this piece completes; comments give none."""
        text = self._rest + piece
        # a CR at the end may be the first half of a line end
        held = len(text) - 1 if text.endswith(b"\r") else len(text)
        lines = _LINE_END.split(text[:held])
        self._rest = lines.pop() + text[held:]
        return [data for line in lines if (data := self._line(line)) is not None]

    def end(self) -> list[bytes]:
        """The data of an event without its empty line at the end of the stream."""
        found = self.feed(b"\n\n") if self._rest or self._data else []
        self._rest = b""
        return found

    def _line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            return None
        if line or not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        return data
