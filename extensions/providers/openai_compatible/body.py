"""A request as bytes in the dialect of its provider. Encoded messages are kept.

Each step of a conversation sends all of it again, and only its end is new. Encoding it anew costs more with
each message; joining the kept parts does not. Sources of the dialects: each provider's API reference, and the
requests of litellm 1.106.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nacre.extensions.providers.completions.messages import (
    Family,
    Outgoing,
    add_tail,
    mark_last_user_message,
    outgoing,
    parameter_fields,
    provider_family,
    sendable,
    system_messages,
    takes_cache_marks,
    tool_definition,
    written,
)
from nacre.extensions.providers.openai_compatible.providers import Endpoint
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.sessions.contracts.messages import Message

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Most that is kept of all conversations together; what comes then is written for each request."""


class _Kept(NamedTuple):
    messages: tuple[weakref.ref[Message], ...]
    call_ids: tuple[str, ...]
    images: tuple[tuple[str, Any], ...]
    text: bytes


class RequestBodies:
    """Writes the requests of one model. Messages are told by identity: they are frozen values.

    What is kept of a message goes when the message does.
    """

    def __init__(self, dialect: Dialect, *, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._dialect = dialect
        self._max_kept_bytes = max_kept_bytes
        self._kept: dict[int, _Kept] = {}
        self._kept_bytes = 0
        self._system: tuple[tuple[str, str], list[bytes]] | None = None
        self._tools: tuple[tuple[ToolSpec, ...], bytes] | None = None

    @property
    def kept_bytes(self) -> int:
        """How much is kept."""
        return self._kept_bytes

    def body(self, request: ModelRequest) -> bytes:
        """The request as JSON in UTF-8."""
        dialect = self._dialect
        fields = [
            b'{"model":' + _json(dialect.model),
            b'"messages":[' + b",".join(self.messages(request)) + b"]",
        ]
        if request.tools:
            fields.append(b'"tools":' + self._tool_bytes(request.tools))
        fields += [_field(name, value) for name, value in parameter_fields(request).items()]
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
        """The messages of a request, each as JSON; those that were sent before are the same objects."""
        items, tail = outgoing(request.messages, self._dialect.family), request.system.tail
        asked = self._rewritten_place(items, tail)
        texts = [text for item in items[:asked] if (text := self._text(item))]
        behind = [text for item in items[asked + 1 :] if (text := self._text(item))]
        ending = written(items[asked]) if asked < len(items) else []
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
            return self._written(item)
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
        text = self._written(item)
        self._keep(place, item, text)
        return text

    def _written(self, item: Outgoing) -> bytes:
        return b",".join(_json(self._suited(message)) for message in written(item))

    def _keep(self, place: int, item: Outgoing, text: bytes) -> None:
        self._forget(place)
        if self._kept_bytes + len(text) > self._max_kept_bytes:
            return
        *before, last = item.messages
        # the last one's end is told; a message that is gone before it only makes the entry unfit
        references = (*map(weakref.ref, before), weakref.ref(last, lambda _: self._forget(place)))
        self._kept[place] = _Kept(references, item.call_ids, item.images, text)
        self._kept_bytes += len(text)

    def _forget(self, place: int) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._kept_bytes -= len(kept.text)

    def _rewritten_place(self, items: Sequence[Outgoing], tail: str) -> int:
        """Where the newest words of the user stand if a mark or a tail goes into them; else the end."""
        if not self._dialect.takes_cache_marks and (not tail or self._dialect.family == "openai"):
            return len(items)
        places = range(len(items) - 1, -1, -1)
        said = (at for at in places if any(message["role"] == "user" for message in written(items[at])))
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
        if message["content"] is None:  # beside calls; some refuse what OpenAI's format allows
            return {name: value for name, value in message.items() if value is not None}
        if not self._dialect.takes_images and isinstance(message["content"], list):
            texts = [block["text"] for block in message["content"] if block["type"] == "text"]
            return {**message, "content": "\n\n".join(texts) or "(an image, which this model cannot see)"}
        return message


def _without(value: Any, refused: frozenset[str]) -> Any:
    """A schema without these words; properties may have such names."""
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
    """`options` are further fields of each request; the others are those of `Provider` and what they say."""

    model: str
    family: Family
    takes_cache_marks: bool = False
    max_tokens_field: str = "max_tokens"
    counts_unasked: bool = False
    refused_schema_keys: frozenset[str] = frozenset()
    takes_images: bool = True
    options: tuple[tuple[str, Any], ...] = ()


def dialect_of(endpoint: Endpoint, entry: Mapping[str, Any], *, reports_progress: bool = False) -> Dialect:
    """The dialect of a model; `entry` is the price map's. `reports_progress` has a llama.cpp server say how
    far it has read a prompt.
    """
    options: list[tuple[str, Any]] = []
    if endpoint.provider_name == "openrouter":
        options.append(("usage", {"include": True}))  # asks OpenRouter for what it charged
    if reports_progress:
        options.append(("return_progress", True))
    name = f"{endpoint.provider_name}/{endpoint.model}"
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
        options=tuple(options),
    )


def own_headers(endpoint: Endpoint, from_environment: Callable[..., str | None]) -> dict[str, str]:
    """The headers of each request. Who asks is told to OpenRouter only where the owner has set it."""
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
