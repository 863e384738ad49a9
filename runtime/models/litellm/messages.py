"""From a `ModelRequest` to the arguments of `litellm.acompletion`. Pure: knows no network and no litellm.

The format is OpenAI's chat completions, which litellm translates for every provider. Thinking blocks
are left out: they belong to the provider that wrote them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.runtime.models.litellm.role_order import Family, in_role_order, provider_family
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolResultMessage,
    UserMessage,
    message_text,
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
    ordered = in_role_order(request.messages, family=family)
    messages = _system_messages(request.system, marked=marked) + _chat_messages(ordered, family)
    if marked:
        _mark_last_user_message(messages)
    arguments: dict[str, Any] = {"messages": messages}
    if request.tools:
        arguments["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_output_tokens is not None:
        arguments["max_tokens"] = request.max_output_tokens
    return arguments


def takes_cache_marks(model_name: str) -> bool:
    """Whether the prompt cache of `provider/model` wants marks: Claude, and where it is resold.

    Other providers cache equal beginnings on their own. Source: Anthropic's "prompt caching" page.
    """
    provider, _, model = model_name.lower().partition("/")
    if not model:
        return provider.startswith("claude")
    return provider in _CACHE_MARK_PROVIDERS and "claude" in model


def _system_messages(system: SystemPrompt, *, marked: bool) -> list[dict[str, Any]]:
    if not marked:
        text = sendable(system.joined())
        return [{"role": "system", "content": text}] if text else []
    blocks: list[dict[str, Any]] = []
    if system.stable:
        blocks.append({"type": "text", "text": sendable(system.stable), "cache_control": _CACHE_MARK})
    if system.changing:
        blocks.append({"type": "text", "text": sendable(system.changing)})
    return [{"role": "system", "content": blocks}] if blocks else []


class _CallIds:
    """Ids of calls as one request has them: fit for the provider, and each used once.

    Some models count their calls from zero in each turn; others refuse a conversation that does.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._sent: dict[str, str] = {}
        self._taken: set[str] = set()

    def of_call(self, call_id: str) -> str:
        again = (call_id, *(f"{call_id}_{number}" for number in range(2, len(self._taken) + 3)))
        fitting = (provider_call_id(candidate, family=self._family) for candidate in again)
        sent = next(candidate for candidate in fitting if candidate not in self._taken)
        self._taken.add(sent)
        self._sent[call_id] = sent
        return sent

    def of_result(self, call_id: str) -> str:
        """The id of the result, that of the newest call it can answer."""
        return self._sent.get(call_id) or provider_call_id(call_id, family=self._family)


def _chat_messages(messages: Sequence[Message], family: Family) -> list[dict[str, Any]]:
    ids = _CallIds(family)
    translated: list[dict[str, Any]] = []
    # of tool results: that role takes text only, so they go into the user message that follows
    images: list[tuple[str, Image]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            translated.append(_tool_result(message, ids))
            images += [(message.tool_name, block) for block in message.content if isinstance(block, Image)]
            continue
        shown, images = _result_images(images), []
        if isinstance(message, UserMessage):
            translated.append({"role": "user", "content": _user_content(message, shown)})
        else:
            translated += [{"role": "user", "content": shown}] if shown else []
            translated += _assistant(message, ids)
    return translated + ([{"role": "user", "content": _result_images(images)}] if images else [])


def _user_content(message: UserMessage, shown: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The message, behind the images that tools returned before it. Blank text is refused by many."""
    blocks = [block for block in message.content if isinstance(block, Image) or block.text.strip()]
    if not blocks and not shown:
        return _EMPTY_MESSAGE
    if not shown and all(isinstance(block, Text) for block in blocks):
        return sendable("\n\n".join(block.text for block in blocks if isinstance(block, Text)))
    return shown + [
        _image(block) if isinstance(block, Image) else {"type": "text", "text": sendable(block.text)}
        for block in blocks
    ]


def _assistant(message: AssistantMessage, ids: _CallIds) -> list[dict[str, Any]]:
    text = sendable(message_text(message))
    calls = [
        {
            "id": ids.of_call(call.id),
            "type": "function",
            # invalid arguments stay out: providers refuse them, and the error result quotes them
            "function": {
                "name": sendable(call.name),
                "arguments": sendable(json.dumps(dict(call.arguments), ensure_ascii=False)),
            },
        }
        for call in message.tool_calls
    ]
    has_text = bool(text.strip())
    if not has_text and not calls:
        return []  # providers refuse an assistant message without content
    translated: dict[str, Any] = {"role": "assistant", "content": text if has_text else None}
    if calls:
        translated["tool_calls"] = calls
    return [translated]


def _tool_result(message: ToolResultMessage, ids: _CallIds) -> dict[str, Any]:
    text = sendable(message_text(message))
    if not text.strip():
        has_image = any(isinstance(block, Image) for block in message.content)
        text = "(an image; it follows)" if has_image else _EMPTY_RESULT
    return {"role": "tool", "tool_call_id": ids.of_result(message.tool_call_id), "content": text}


def _result_images(images: Sequence[tuple[str, Image]]) -> list[dict[str, Any]]:
    if not images:
        return []
    names = sendable(", ".join(dict.fromkeys(name for name, _ in images)))
    note = {"type": "text", "text": f"The image(s) that the tool {names} returned:"}
    return [note, *(_image(image) for _, image in images)]


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    # A copy down to the leaves: litellm rewrites schemas in place for some providers, and they are made once.
    parameters = deepcopy(dict(spec.parameters))
    function = {"name": spec.name, "description": spec.description, "parameters": parameters}
    return {"type": "function", "function": function}


def provider_call_id(call_id: str, *, family: Family) -> str:
    """A tool call's id as the provider accepts it: `[a-zA-Z0-9_-]`, at most 64 characters.

    Mistral takes exactly nine letters and digits. Transcripts may hold ids of another provider.
    Different ids stay different: a changed one ends in a hash of the original.
    """
    if family == "mistral":
        return call_id if _MISTRAL_ID.fullmatch(call_id) else _digest(call_id, chars=9)
    if call_id and len(call_id) <= _MAX_ID_CHARS and not _UNSAFE_IN_ID.search(call_id):
        return call_id
    return f"{_UNSAFE_IN_ID.sub('_', call_id)[: _MAX_ID_CHARS - 13]}_{_digest(call_id, chars=12)}"


def sendable(text: str) -> str:
    """`text` without what has no UTF-8: halves of characters are joined if they meet, else replaced.

    File names and broken tools bring such text in; unmended, no request of the session could be sent.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _digest(text: str, *, chars: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


def _mark_last_user_message(messages: list[dict[str, Any]]) -> None:
    """Marks the newest user message too, so that the conversation before it is read from the cache."""
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if blocks and blocks[-1].get("text") != "":
            message["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": _CACHE_MARK}]
        return
