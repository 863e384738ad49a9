"""Converts a `ModelRequest` to OpenAI's chat completions, in an order of roles that the provider accepts.

The format is that of OpenAI's API reference, "Create chat completion"; litellm translates it for every
provider. Thinking blocks are left out, because they belong to the provider that wrote them. OpenAI accepts
any order of roles. All others require that a conversation begins with the user, and most chat templates that
user and assistant alternate. Source: the message rules of Anthropic's and Google's API pages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from nacre.prompts import render
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
    sendable,
    user_message,
)

_CACHE_MARK = {"type": "ephemeral"}
_CACHE_MARK_PROVIDERS = frozenset({"anthropic", "bedrock", "vertex_ai", "openrouter", "databricks"})
_UNSAFE_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_ID_CHARS = 64
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_EMPTY_RESULT = "(no output)"
_EMPTY_MESSAGE = "(no text)"


def completion_arguments(request: ModelRequest, *, model_name: str) -> dict[str, Any]:
    """`messages`, `tools` and `max_tokens` for one call; keys without a value are left out."""
    marked = takes_cache_marks(model_name)
    family = provider_family(model_name)
    messages = system_messages(request.system, marked=marked)
    for item in outgoing(request.messages, family):
        messages += wire_messages(item)
    if marked:
        mark_last_user_message(messages)
    add_tail(messages, request.system.tail, family)
    arguments: dict[str, Any] = {"messages": messages}
    if request.tools:
        arguments["tools"] = [tool_definition(spec) for spec in request.tools]
    arguments |= parameter_fields(request)
    if request.max_output_tokens is not None:
        arguments["max_tokens"] = request.max_output_tokens
    return arguments


def parameter_fields(request: ModelRequest) -> dict[str, Any]:
    """The fields of a request's parameters, without `tool_choice` if there are no tools."""
    return {
        name: value
        for name, value in request.parameters.fields().items()
        if request.tools or name != "tool_choice"
    }


def takes_cache_marks(model_name: str) -> bool:
    """Whether the prompt cache of `provider/model` needs marks: Claude, also at other providers.

    Other models cache equal beginnings by themselves. Source: Anthropic's "prompt caching" page.
    """
    provider, _, model = model_name.lower().partition("/")
    if not model:
        return provider.startswith("claude")
    return provider in _CACHE_MARK_PROVIDERS and "claude" in model


def system_messages(system: SystemPrompt, *, marked: bool) -> list[dict[str, Any]]:
    """The system prompt as a message, or none; only its stable part is marked for the cache."""
    if not marked:
        text = sendable(system.front())
        return [{"role": "system", "content": text}] if text else []
    blocks: list[dict[str, Any]] = []
    if system.stable:
        blocks.append({"type": "text", "text": sendable(system.stable), "cache_control": _CACHE_MARK})
    if system.changing:
        blocks.append({"type": "text", "text": sendable(system.changing)})
    return [{"role": "system", "content": blocks}] if blocks else []


class _CallIds:
    """The ids of calls in one request: valid for the provider, and each used once.

    Some models number their calls from zero in each turn; other providers refuse such a conversation.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._sent: dict[str, str] = {}
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def of_call(self, call_id: str) -> str:
        sent = provider_call_id(call_id, family=self._family)
        number = self._next_number.get(call_id, 2)
        while sent in self._taken:
            sent = provider_call_id(f"{call_id}_{number}", family=self._family)
            number += 1
        self._next_number[call_id] = number
        self._taken.add(sent)
        self._sent[call_id] = sent
        return sent

    def of_result(self, call_id: str) -> str:
        """The id of the result, that of the newest call it can answer."""
        return self._sent.get(call_id) or provider_call_id(call_id, family=self._family)


class Outgoing(NamedTuple):
    """Messages that are sent as one, with what the request adds to them. Equal values have equal JSON.

    `call_ids` has the ids of its calls, or of the call that it answers. `images` came from tools before it,
    each with the tool's name, because tool results contain text only. `messages` is empty if images follow
    the last message.
    """

    messages: tuple[Message, ...]
    call_ids: tuple[str, ...]
    images: tuple[tuple[str, Image], ...]


def outgoing(messages: Sequence[Message], family: Family) -> list[Outgoing]:
    """A conversation in the order and with the ids that the family accepts."""
    ids = _CallIds(family)
    planned: list[Outgoing] = []
    images: tuple[tuple[str, Image], ...] = ()
    for group in role_groups(messages, family=family):
        first = group[0]
        if type(first) is UserMessage:
            planned.append(Outgoing(group, (), images))
            images = ()
            continue
        if isinstance(first, ToolResultMessage):
            planned.append(Outgoing(group, (ids.of_result(first.tool_call_id),), ()))
            images += tuple((first.tool_name, block) for block in first.content if isinstance(block, Image))
            continue
        call_ids: tuple[str, ...] = ()
        if isinstance(first, AssistantMessage):
            call_ids = tuple(
                ids.of_call(block.id)
                for message in group
                for block in message.content
                if isinstance(block, ToolCall)
            )
        planned.append(Outgoing(group, call_ids, images))
        images = ()
    return [*planned, Outgoing((), (), images)] if images else planned


def wire_messages(item: Outgoing) -> list[dict[str, Any]]:
    """The messages to send: usually one, none for an answer without content."""
    shown: list[dict[str, Any]] = []
    if item.images:
        names = sendable(", ".join(dict.fromkeys(name for name, _ in item.images)))
        note = {"type": "text", "text": f"The image(s) that the tool {names} returned:"}
        shown = [note, *(_image(image) for _, image in item.images)]
    if not item.messages:
        return [{"role": "user", "content": shown}]
    message = item.messages[0] if len(item.messages) == 1 else merge(item.messages)
    if isinstance(message, ToolResultMessage):
        text = sendable(message_text(message))
        if not text.strip():
            has_image = any(isinstance(block, Image) for block in message.content)
            text = "(an image; it follows)" if has_image else _EMPTY_RESULT
        return [{"role": "tool", "tool_call_id": item.call_ids[0], "content": text}]
    if isinstance(message, UserMessage):
        return [{"role": "user", "content": _user_content(message, shown)}]
    before = [{"role": "user", "content": shown}] if shown else []
    return before + _assistant(message, item.call_ids)


def _user_content(message: UserMessage, shown: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The message, after the images that tools returned before it. Many providers refuse blank text."""
    blocks = [block for block in message.content if isinstance(block, Image) or block.text.strip()]
    if not blocks and not shown:
        return _EMPTY_MESSAGE
    if not shown and all(isinstance(block, Text) for block in blocks):
        return sendable("\n\n".join(block.text for block in blocks if isinstance(block, Text)))
    return shown + [
        _image(block) if isinstance(block, Image) else {"type": "text", "text": sendable(block.text)}
        for block in blocks
    ]


def _assistant(message: AssistantMessage, call_ids: Sequence[str]) -> list[dict[str, Any]]:
    text = sendable(message_text(message))
    calls = [
        {
            "id": call_id,
            "type": "function",
            # invalid arguments stay out: providers refuse them, and the error result quotes them
            "function": {
                "name": sendable(call.name),
                "arguments": sendable(json.dumps(dict(call.arguments), ensure_ascii=False)),
            },
        }
        for call, call_id in zip(message.tool_calls, call_ids, strict=True)
    ]
    has_text = bool(text.strip())
    if not has_text and not calls:
        return []  # providers refuse an assistant message without content
    translated: dict[str, Any] = {"role": "assistant", "content": text if has_text else None}
    if calls:
        translated["tool_calls"] = calls
    return [translated]


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def tool_definition(spec: ToolSpec) -> dict[str, Any]:
    # A copy down to the leaves: litellm rewrites schemas in place for some providers, and they are made once.
    parameters = deepcopy(dict(spec.parameters))
    function = {"name": spec.name, "description": spec.description, "parameters": parameters}
    return {"type": "function", "function": function}


def provider_call_id(call_id: str, *, family: Family) -> str:
    """A tool call's id as the provider accepts it: `[a-zA-Z0-9_-]`, at most 64 characters.

    Mistral accepts exactly nine letters and digits. Transcripts may contain ids of another provider.
    Different ids stay different: a changed one ends in a hash of the original.
    """
    if family == "mistral":
        return call_id if _MISTRAL_ID.fullmatch(call_id) else _digest(call_id, chars=9)
    if call_id and len(call_id) <= _MAX_ID_CHARS and not _UNSAFE_IN_ID.search(call_id):
        return call_id
    return f"{_UNSAFE_IN_ID.sub('_', call_id)[: _MAX_ID_CHARS - 13]}_{_digest(call_id, chars=12)}"


def _digest(text: str, *, chars: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


def add_tail(messages: list[dict[str, Any]], tail: str, family: Family) -> None:
    """Appends the part of the prompt that is valid for this request only, after the mark for the cache.

    It has the user's role, which every provider accepts there. Except for OpenAI, it is added to a preceding
    message of the user.
    """
    if not tail:
        return
    text = sendable(render("tail/request", text=tail))
    if family == "openai" or not messages or messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": text})
        return
    content = messages[-1]["content"]
    block = {"type": "text", "text": text}
    added = f"{content}\n\n{text}" if isinstance(content, str) else [*content, block]
    messages[-1] = {**messages[-1], "content": added}


def mark_last_user_message(messages: list[dict[str, Any]]) -> None:
    """Also marks the newest user message, so that the conversation before it is read from the cache."""
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if blocks and blocks[-1].get("text") != "":
            message["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": _CACHE_MARK}]
        return


Family: TypeAlias = Literal["openai", "anthropic", "google", "mistral", "other"]

_PROVIDERS: dict[str, Family] = {
    "openai": "openai",
    "azure": "openai",
    "azure_ai": "openai",
    "text-completion-openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "mistral": "mistral",
    "codestral": "mistral",
}
_MODELS: tuple[tuple[str, Family], ...] = (
    ("claude", "anthropic"),
    ("gemini", "google"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("codestral", "mistral"),
    ("gpt-", "openai"),
)


def provider_family(model_name: str) -> Family:
    """Whose rules `provider/model` follows: those of the model's maker, also at other providers."""
    provider, _, model = model_name.lower().rpartition("/")
    made = next((family for word, family in _MODELS if word in model), None)
    return made or _PROVIDERS.get(provider.split("/")[0], "other")


def role_groups(messages: Sequence[Message], *, family: Family) -> list[tuple[Message, ...]]:
    """The messages in an order that the family accepts, grouped if they are sent as one.

    A conversation that begins with an answer gets a user message in front. Consecutive user messages are
    grouped, for Google also consecutive answers.
    """
    if family == "openai" or not messages:
        return [(message,) for message in messages]
    groups: list[tuple[Message, ...]] = []
    if not isinstance(messages[0], UserMessage):
        bootstrap = user_message(render("session/bootstrap"), timestamp_ms=messages[0].timestamp_ms)
        groups.append((bootstrap,))
    merging = (UserMessage, AssistantMessage) if family == "google" else (UserMessage,)
    for message in messages:
        if groups and isinstance(message, merging) and type(groups[-1][0]) is type(message):
            groups[-1] = (*groups[-1], message)
        else:
            groups.append((message,))
    return groups


def merge(group: Sequence[Message]) -> Message:
    """Messages of one role as one, with all blocks in order and the latest time."""
    blocks: Any = tuple(block for message in group for block in message.content)
    return replace(group[-1], content=blocks)
