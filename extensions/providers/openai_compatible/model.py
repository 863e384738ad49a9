"""A model that speaks OpenAI's chat completions, over plain HTTP: its requests and its answers.

An answer is a stream of server-sent events, or one JSON body. Source of the events: "Server-sent events" in
the HTML standard. Lines end at CR, LF or both and nowhere else: JSON may contain other line separators of
Unicode. Only the field `data` is used.
"""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from nacre.closing import stop_tasks
from nacre.extensions.providers.completions.addresses import user_of, without_credentials
from nacre.extensions.providers.completions.errors import CallFacts, ProviderAnswered
from nacre.extensions.providers.completions.http_client import load_client
from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.completions.messages import (
    Family,
    Outgoing,
    add_tail,
    mark_last_user_message,
    outgoing,
    parameter_fields,
    provider_family,
    system_messages,
    takes_cache_marks,
    tool_definition,
    wire_messages,
)
from nacre.extensions.providers.completions.provider_model import ProviderModel
from nacre.extensions.providers.completions.replies import ReplyAssembly
from nacre.extensions.providers.openai_compatible.connection import Connection, hang_up
from nacre.extensions.providers.openai_compatible.listing import bearer, served_model
from nacre.extensions.providers.openai_compatible.providers import Endpoint, resolve_endpoint, wants_responses
from nacre.record import Record
from nacre.runtime.contracts.errors import BadModelReply, ModelAuthError, ModelError
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.runtime.settings.sections.models import SERVED_MODEL
from nacre.sessions.contracts.messages import AssistantMessage, Message, sendable

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
    _asks_again_ms = 0

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
        may_again = self._tries_left > 0 and self._now_ms() >= self._asks_again_ms
        if self._learning is None or (self._learning.done() and may_again):
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
        # On a connection of its own, because a server that closes it must not break the next request.
        async with aclosing(Connection(endpoint.base_url)) as asked:
            served = await served_model(
                asked, endpoint.base_url, endpoint.model, headers, seconds=LEARN_SECONDS
            )
        if served is None and endpoint.model != SERVED_MODEL:  # that one needs the answer for its name
            self._asks_again_ms = self._now_ms() + 60_000
        if served is not None:
            self._known.served_window_tokens = served.window_tokens
            self._reports_progress = served.is_llama_cpp
            if endpoint.model == SERVED_MODEL:
                self._resolved = replace(endpoint, model=served.name)
            # Ollama knows the window only once the model is loaded, which is after the first answer.
            self._tries_left = 0 if served.window_tokens else self._tries_left - 1

    def _is_own_server(self) -> bool:
        return not self._endpoint().is_providers_own

    async def _load(self) -> None:
        """httpx takes a tenth of a second, in the thread that makes the first connection."""
        if self._learning is None:
            await self.learn_window()

    async def _send(self, request: ModelRequest) -> HttpAnswer:
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
        await stop_tasks(self._learning)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _endpoint(self) -> Endpoint:
        # a key may be set in the environment later
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
            raise ModelAuthError(  # httpx's own error would quote the key
                f"The key for the model {self.name!r} has a line break or a character that HTTP cannot send."
            )
        if not endpoint.base_url:
            raise ModelError(
                f"The settings have no address for the model {self.name!r}. Set "
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


MAX_KEPT_BYTES = 64 * 1024 * 1024
"""The limit for all conversations together. Messages beyond it are encoded for each request."""


class _Kept(NamedTuple):
    messages: tuple[weakref.ref[Message], ...]
    call_ids: tuple[str, ...]
    images: tuple[tuple[str, Any], ...]
    text: bytes


class RequestBodies:
    """Writes the requests of one model as bytes, and keeps the JSON of each message.

    Each step of a conversation sends all of it again, and only its end is new. Messages are frozen values,
    so they are compared by identity. The JSON of a message is dropped with the message.
    """

    def __init__(self, dialect: Dialect, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._dialect = dialect
        self._max_kept_bytes = max_kept_bytes
        self._kept: dict[int, _Kept] = {}
        self.kept_bytes = 0
        self._system: tuple[tuple[str, str], list[bytes]] | None = None
        self._tools: tuple[tuple[ToolSpec, ...], bytes] | None = None

    def body(self, request: ModelRequest) -> bytes:
        """The request as JSON in UTF-8."""
        dialect = self._dialect
        fields = [
            b'{"model":' + _json(dialect.model),
            b'"messages":[' + b",".join(self.messages(request)) + b"]",
        ]
        if request.tools:
            fields.append(b'"tools":' + self._tool_bytes(request.tools))
        parameters = parameter_fields(request)
        fields += [
            _field(name, parameters[name]) for name in parameters.keys() - dict(dialect.options).keys()
        ]
        if request.output is not None:
            asked = {"name": request.output.name, "schema": request.output.schema}
            fields.append(_field("response_format", {"type": "json_schema", "json_schema": asked}))
        if request.max_output_tokens is not None:
            fields.append(_field(dialect.max_tokens_field, request.max_output_tokens))
        fields.append(_field("stream", True))
        if not dialect.counts_unasked:
            fields.append(_field("stream_options", {"include_usage": True}))
        fields += [_field(name, value) for name, value in dialect.options]
        return b",".join(fields) + b"}"

    def messages(self, request: ModelRequest) -> list[bytes]:
        """The messages of a request, each as JSON; messages that were sent before are the same objects."""
        items, tail = outgoing(request.messages, self._dialect.family), request.system.tail
        asked = self._rewritten_place(items, tail)
        texts = [text for item in items[:asked] if (text := self._text(item))]
        behind = [text for item in items[asked + 1 :] if (text := self._text(item))]
        ending = wire_messages(items[asked]) if asked < len(items) else []
        if self._dialect.takes_cache_marks:
            mark_last_user_message(ending)
        added: list[dict[str, Any]] = []
        add_tail(added if behind else ending, tail, self._dialect.family)
        rewritten = [_json(self._suited(message)) for message in ending]
        return [*self._system_texts(request.system), *texts, *rewritten, *behind, *map(_json, added)]

    def _text(self, item: Outgoing) -> bytes:
        messages, call_ids, images = (
            item  # once for each message of each request: by position, which is faster
        )
        if not messages:
            return self._encode(item)
        place = id(messages[-1])
        kept = self._kept.get(place)
        if kept is not None:
            references, kept_ids, kept_images, text = kept
            if (
                kept_ids == call_ids
                and kept_images == images
                and len(references) == len(messages)
                and references[-1]() is messages[-1]
                and (len(messages) == 1 or [reference() for reference in references] == list(messages))
            ):
                return text
        text = self._encode(item)
        self._keep(place, item, text)
        return text

    def _encode(self, item: Outgoing) -> bytes:
        messages = wire_messages(item)
        if self._dialect.signs_calls:
            _sign_calls(item, messages)
        return b",".join(_json(self._suited(message)) for message in messages)

    def _keep(self, place: int, item: Outgoing, text: bytes) -> None:
        self._forget(place)
        if self.kept_bytes + len(text) > self._max_kept_bytes:
            return
        *before, last = item.messages
        # A callback for the last message is enough. Without an earlier message, the entry matches nothing.
        references = (*map(weakref.ref, before), weakref.ref(last, lambda _: self._forget(place)))
        self._kept[place] = _Kept(references, item.call_ids, item.images, text)
        self.kept_bytes += len(text)

    def _forget(self, place: int) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self.kept_bytes -= len(kept.text)

    def _rewritten_place(self, items: Sequence[Outgoing], tail: str) -> int:
        """The index of the user's newest message if a mark or a tail goes into it; else the end."""
        if not self._dialect.takes_cache_marks and (not tail or self._dialect.family == "openai"):
            return len(items)
        places = range(len(items) - 1, -1, -1)
        said = (at for at in places if any(message["role"] == "user" for message in wire_messages(items[at])))
        return next(said, len(items))

    def _system_texts(self, system: SystemPrompt) -> list[bytes]:
        asked = (system.stable, system.changing)
        if self._system is None or self._system[0] != asked:
            messages = system_messages(system, marked=self._dialect.takes_cache_marks)
            self._system = (asked, [_json(message) for message in messages])
        return self._system[1]

    def _tool_bytes(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if self._tools is None or (self._tools[0] is not tools and self._tools[0] != tools):
            definitions = [tool_definition(spec) for spec in tools]
            if refused := self._dialect.refused_schema_keys:
                definitions = [_without(definition, refused) for definition in definitions]
            self._tools = (tools, _json(definitions))
        return self._tools[1]

    def _suited(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["content"] is None:  # some providers refuse null beside tool calls
            return {name: value for name, value in message.items() if value is not None}
        if not self._dialect.takes_images and isinstance(message["content"], list):
            texts = [block["text"] for block in message["content"] if block["type"] == "text"]
            return {**message, "content": "\n\n".join(texts) or "(an image, which this model cannot see)"}
        return message


_UNSIGNED = "skip_thought_signature_validator"
"""Google's value for calls without a signature, such as those of another model."""


def _sign_calls(item: Outgoing, messages: list[dict[str, Any]]) -> None:
    """Adds thought signatures to calls. The first call of a message must have one.

    Source: Google's page "Thought signatures", its section on OpenAI's format.
    """
    calls = (call for each in item.messages if isinstance(each, AssistantMessage) for call in each.tool_calls)
    signatures = dict(zip(item.call_ids, (call.thought_signature for call in calls), strict=False))
    for message in messages:
        for place, call in enumerate(message.get("tool_calls", ())):
            signature = signatures.get(call["id"]) or ("" if place else _UNSIGNED)
            if signature:
                call["extra_content"] = {"google": {"thought_signature": signature}}


def _without(value: Any, refused: frozenset[str]) -> Any:
    """A schema without these keywords; properties may have such names."""
    if isinstance(value, list):
        return [_without(item, refused) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: {key: _without(item, refused) for key, item in inner.items()}
        if name == "properties" and isinstance(inner, dict)
        else _without(inner, refused)
        for name, inner in value.items()
        if name not in refused
    }


def _field(name: str, value: Any) -> bytes:
    return _json(name) + b":" + _json(value)


def _json(value: Any) -> bytes:
    return sendable(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


_COUNTS_THINKING = re.compile(r"o\d|gpt-(?:[5-9]|\d\d)(?!-chat)")


class Dialect(Record):
    """The form of a model's requests. `options` are further fields; `Provider` describes the others."""

    model: str
    family: Family
    takes_cache_marks: bool = False
    max_tokens_field: str = "max_tokens"
    counts_unasked: bool = False
    refused_schema_keys: frozenset[str] = frozenset()
    takes_images: bool = True
    signs_calls: bool = False
    options: tuple[tuple[str, Any], ...] = ()


def dialect_of(endpoint: Endpoint, entry: Mapping[str, Any], *, reports_progress: bool = False) -> Dialect:
    """The dialect of a model; `entry` is that of the price map. With `reports_progress` a llama.cpp server
    reports how far it has read a prompt.

    Sources: each provider's API reference, and the requests of litellm 1.106.
    """
    options: list[tuple[str, Any]] = []
    if endpoint.provider_name == "openrouter":
        options.append(("usage", {"include": True}))  # requests the cost from OpenRouter
    if reports_progress:
        options.append(("return_progress", True))
    name = f"{endpoint.provider_name}/{endpoint.model}"
    if wants_responses(name, endpoint.base_url):
        options.append(("reasoning_effort", "none"))  # else tools are refused
    # OpenAI's reasoning models refuse the older name of the limit
    is_thinking = endpoint.provider_name == "openai" and _COUNTS_THINKING.match(endpoint.model)
    return Dialect(
        model=endpoint.model,
        family=provider_family(name),
        takes_cache_marks=takes_cache_marks(name),
        max_tokens_field="max_completion_tokens" if is_thinking else "max_tokens",
        counts_unasked=endpoint.provider.counts_unasked,
        refused_schema_keys=endpoint.provider.refused_schema_keys,
        takes_images=endpoint.provider.takes_images or bool(entry.get("supports_vision")),
        signs_calls=endpoint.provider.signs_calls,
        options=tuple(options),
    )


def own_headers(endpoint: Endpoint, from_environment: Callable[..., str | None]) -> dict[str, str]:
    """The headers of each request. OpenRouter gets a referrer and a title only if the owner has set them."""
    named = {
        "openai": (("openai-organization", "OPENAI_ORGANIZATION"), ("openai-project", "OPENAI_PROJECT_ID"))
    }
    named["openrouter"] = (("http-referer", "OR_SITE_URL"), ("x-title", "OR_APP_NAME"))
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if endpoint.api_key:
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    for header, variable in named.get(endpoint.provider_name, ()):
        if value := from_environment(variable):
            headers[header] = value
    return headers


MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""The limit of a body that is not a stream of events."""
_END_SECONDS = 0.1
"""How long to wait for the end of a stream after its last event; it usually arrives with it."""


class HttpAnswer:
    """The chunks of a response whose body is not read yet. `page_error` makes the error for a web page."""

    def __init__(self, response: httpx.Response, *, page_error: Callable[[bytes], ModelError]) -> None:
        self.is_alive = False
        self.counted: Mapping[str, Any] | None = None
        self._response = response
        self._page_error = page_error
        self._is_done = False
        self._chunks = self._read()

    async def next_chunk(self) -> Mapping[str, Any] | None:
        chunk = await anext(self._chunks, None)
        if chunk is not None:
            self.counted = counted_usage(chunk) or self.counted
        return chunk

    def is_ended(self, assembly: ReplyAssembly) -> bool:
        # some servers send `[DONE]` alone
        return assembly.has_finish_reason or (self._is_done and assembly.has_content)

    async def close(self) -> None:
        await self._chunks.aclose()
        await hang_up(self._response)

    async def _read(self) -> AsyncGenerator[Mapping[str, Any], None]:
        reader, unread, has_events = EventReader(), b"", False
        # httpx has a generator and calls it an iterator
        async with aclosing(cast("AsyncGenerator[bytes, None]", self._response.aiter_bytes())) as pieces:
            async for piece in pieces:
                events = reader.feed(piece)
                self.is_alive, has_events = not events, has_events or bool(events)
                unread = b"" if has_events else (unread + piece)[:MAX_WHOLE_BYTES]
                if not events:
                    yield {}
                for data in events:
                    chunk = chunk_of(data)
                    if chunk is None:
                        self._is_done = True
                        await _read_to_the_end(pieces)
                        return
                    yield chunk
        for data in reader.end():
            has_events = True
            if (chunk := chunk_of(data)) is not None:
                yield chunk
            self._is_done = chunk is None
        if has_events:
            return
        if unread.lstrip()[:1] == b"<":
            raise self._page_error(unread)
        if (answer := whole_answer(unread)) is not None:
            yield answer


async def _read_to_the_end(pieces: AsyncIterator[bytes]) -> None:
    """Reads the empty rest after the last event, so that the connection can serve the next request."""
    with suppress(Exception):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in pieces:
                pass


def chunk_of(data: bytes) -> Mapping[str, Any] | None:
    """The chunk of an event; `None` for the end of the stream.

    Raises:
        ProviderAnswered: the event is an error, after the answer had begun.
        ValueError: the event is not a JSON object.
    """
    if data.strip() == b"[DONE]":
        return None
    chunk = json.loads(data)
    if not isinstance(chunk, dict):
        raise ValueError(f"an event that is no object: {data[:200]!r}")
    if chunk.get("error"):
        raise _failure(chunk["error"])
    return chunk


def whole_answer(body: bytes) -> Mapping[str, Any] | None:
    """A completion from a server that does not stream, as one chunk; `None` if the body is something else.

    Raises:
        ProviderAnswered: the body is an error, despite a status of success.
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
        line = line.removeprefix(b"\xef\xbb\xbf")  # a stream may begin with a byte order mark
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            return None
        if line or not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        return data
