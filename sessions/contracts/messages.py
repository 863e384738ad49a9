"""Messages of a conversation in the shapes of pi's session format v3.

JSON keys and roles match the `user`, `assistant` and `toolResult` messages that pi writes, so that other
tools can read a transcript. `to_json` returns a block or message as pi stores it. Times are milliseconds
since the epoch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

_MOST = 2**53
"""Larger numbers are not token counts, because JSON integers are exact only up to here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Token counts of one model call as the provider reported them; `input_tokens` excludes cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        """Tokens that were sent, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def context_tokens(self) -> int:
        """Tokens in the context window when the call ended: the prompt and the answer."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The sum of both calls, which is for the cost and not for the fill of the window."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.input_tokens,
            "output": self.output_tokens,
            "cacheRead": self.cache_read_tokens,
            "cacheWrite": self.cache_write_tokens,
            "totalTokens": self.context_tokens,
            "cost": {"total": self.cost_usd},
        }


def usage_from_json(raw: object) -> Usage | None:
    """Reads a usage object with pi's, Anthropic's or OpenAI's key names; `None` if all counts are zero.

    OpenAI's `prompt_tokens` include the cached tokens listed in `prompt_tokens_details`; these are
    subtracted. If the object has only a total, the total counts as input.
    """
    # Checking the exact type first is many times faster, and a transcript has thousands of these.
    if type(raw) is not dict and not isinstance(raw, Mapping):
        return None
    input_tokens = _first_number(raw, "input", "inputTokens", "input_tokens")
    output_tokens = _first_number(
        raw, "output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"
    )
    cache_read_tokens = _first_number(raw, "cacheRead", "cache_read", "cache_read_input_tokens")
    cache_write_tokens = _first_number(raw, "cacheWrite", "cache_write", "cache_creation_input_tokens")
    prompt_tokens = 0 if input_tokens else _first_number(raw, "promptTokens", "prompt_tokens")
    if prompt_tokens:
        details = raw.get("prompt_tokens_details")
        if not cache_read_tokens and isinstance(details, Mapping):
            cache_read_tokens = min(prompt_tokens, _first_number(details, "cached_tokens"))
        input_tokens = max(0, prompt_tokens - cache_read_tokens - cache_write_tokens)
    if not (input_tokens or output_tokens or cache_read_tokens or cache_write_tokens):
        input_tokens = _first_number(raw, "totalTokens", "total", "total_tokens")
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
        cost_usd=_cost_usd(raw.get("cost")),
    )
    return usage if usage.context_tokens > 0 else None


def whole_number(value: object) -> int:
    """Converts a number from a foreign file to an integer of at least zero; anything else gives zero."""
    if type(value) is int and 0 <= value <= _MOST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(max(0, min(value, _MOST)))


def _cost_usd(raw: object) -> float:
    total = raw.get("total") if type(raw) is dict or isinstance(raw, Mapping) else raw
    if type(total) is float and abs(total) < _MOST:
        return total
    if isinstance(total, bool) or not isinstance(total, int | float):
        return 0.0
    return float(total) if abs(total) < _MOST else 0.0


def _first_number(raw: Mapping[str, Any], *keys: str) -> int:
    for key in keys:
        value = raw.get(key)
        if value is not None:
            return value if type(value) is int and 0 <= value <= _MOST else whole_number(value)
    return 0


ATTACHMENT = "attachment"
"""The value of `Text.said_by` for a file that a user sent."""

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
STOP_REASONS: tuple[StopReason, ...] = ("stop", "length", "toolUse", "error", "aborted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A run of text.

    `said_by` names the author of words in a user's message that the user did not write: `ATTACHMENT` for a
    file that they sent, otherwise the person whom a forward or quote names. It is empty for the user's own
    words.
    """

    text: str
    said_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """The block as pi stores it, plus `saidBy` if the words are not the user's own."""
        block = {"type": "text", "text": self.text}
        return {**block, "saidBy": self.said_by} if self.said_by else block


@dataclass(frozen=True, kw_only=True, slots=True)
class Thinking:
    """A model's reasoning, which is stored but never sent to another provider."""

    thinking: str
    signature: str | None = None

    def to_json(self) -> dict[str, Any]:
        block = {"type": "thinking", "thinking": self.thinking}
        return block if self.signature is None else {**block, "thinkingSignature": self.signature}


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image; `data` is base64."""

    data: str
    mime_type: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "image", "data": self.data, "mimeType": self.mime_type}


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One tool call that the model requests.

    `invalid_arguments` is the provider's text if it is not a JSON object. `arguments` is then empty, and the
    result is an error. `thought_signature` is Google's, whose models need it back.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    invalid_arguments: str | None = None
    thought_signature: str = ""

    def to_json(self) -> dict[str, Any]:
        """The block as pi stores it, plus `invalidArguments` if there are any."""
        block = {"type": "toolCall", "id": self.id, "name": self.name, "arguments": dict(self.arguments)}
        if self.thought_signature:
            block["thoughtSignature"] = self.thought_signature
        if self.invalid_arguments is not None:
            block["invalidArguments"] = self.invalid_arguments
        return block


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True)
class UserMessage:
    """A message from a person, or from the runtime on a person's behalf.

    `inbound_id` is the message's id in its chat, and `sender` is the id of its sender there. Both are empty
    if the chat has no such id and in the owner's private chat. `speaker` is set in a group: the name of the
    sender for a model, see `speaker_label`.
    """

    content: tuple[Text | Image, ...]
    timestamp_ms: int
    inbound_id: str = ""
    sender: str = ""
    speaker: str = ""

    @property
    def foreign_speakers(self) -> tuple[str, ...]:
        """The authors (`Text.said_by`) of the words in this message that the sender did not write."""
        named = [block.said_by for block in self.content if isinstance(block, Text) and block.said_by]
        return tuple(dict.fromkeys(named)) if named else ()

    @property
    def own_text(self) -> str:
        """The sender's own words, without quoted, forwarded or attached text."""
        return "\n".join([part.text for part in self.content if isinstance(part, Text) and not part.said_by])

    def with_speaker(self) -> UserMessage:
        """The message as a model reads it in a group: a line that names the speaker, then the words.

        A line of the words that looks like such a line begins with a backslash. Returns the same object if
        the message has no `speaker`.
        """
        if not self.speaker:
            return self
        blocks = (
            replace(block, text=_SPEAKER_LINE.sub(r"\1\\\2", block.text))
            if isinstance(block, Text)
            else block
            for block in self.content
        )
        return replace(self, content=(Text(text=f"[{self.speaker}]"), *blocks))

    def to_json(self) -> dict[str, Any]:
        """The message as pi stores it, plus `inboundId`, `sender` and `speaker` if it has them."""
        message: dict[str, Any] = {
            "role": "user",
            "content": [block.to_json() for block in self.content],
            "timestamp": self.timestamp_ms,
        }
        if self.inbound_id:
            message["inboundId"] = self.inbound_id
        if self.sender:
            message["sender"] = self.sender
        if self.speaker:
            message["speaker"] = self.speaker
        return message


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True)
class AssistantMessage:
    """A model's answer: text, thinking and tool calls in the order in which they arrived.

    `took_ms` is the time from the request to the end of the answer, and `first_token_ms` to its first token;
    0 is unknown.
    """

    content: tuple[Text | Thinking | ToolCall, ...]
    api: str
    provider: str
    model: str
    usage: Usage | None
    stop_reason: StopReason
    timestamp_ms: int
    error_message: str | None = None
    took_ms: int = 0
    first_token_ms: int = 0

    def timed(self, took_ms: int, first_token_ms: int) -> AssistantMessage:
        """The same message with its times. (`replace` would make three times the calls.)"""
        return AssistantMessage(
            content=self.content,
            api=self.api,
            provider=self.provider,
            model=self.model,
            usage=self.usage,
            stop_reason=self.stop_reason,
            timestamp_ms=self.timestamp_ms,
            error_message=self.error_message,
            took_ms=took_ms,
            first_token_ms=first_token_ms,
        )

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the order in which the model made them."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    @property
    def is_broken_off(self) -> bool:
        return self.stop_reason in ("error", "aborted")

    def to_json(self) -> dict[str, Any]:
        """The message as pi stores it, plus `tookMs` and `firstTokenMs` if they are known."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": [block.to_json() for block in self.content],
            "api": self.api,
            "provider": self.provider,
            "model": self.model,
            "stopReason": self.stop_reason,
            "timestamp": self.timestamp_ms,
        }
        if self.usage is not None:
            message["usage"] = self.usage.to_json()
        if self.error_message is not None:
            message["errorMessage"] = self.error_message
        if self.took_ms:
            message["tookMs"] = self.took_ms
        if self.first_token_ms:
            message["firstTokenMs"] = self.first_token_ms
        return message


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True)
class ToolResultMessage:
    """The result of one tool call."""

    tool_call_id: str
    tool_name: str
    content: tuple[Text | Image, ...]
    is_error: bool
    timestamp_ms: int
    details: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "content": [block.to_json() for block in self.content],
            "isError": self.is_error,
            "timestamp": self.timestamp_ms,
        }
        if self.details is not None:
            message["details"] = dict(self.details)
        return message


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


def message_text(message: Message) -> str:
    """The message's text blocks joined by line feeds, without thinking and tool calls."""
    content = message.content
    if len(content) == 1 and isinstance(only := content[0], Text):  # as nearly all have
        return only.text
    return "\n".join([block.text for block in content if isinstance(block, Text)])


_SPEAKER_LINE = re.compile(
    r"^([^\S\n]*)([\[［][^\S\n]*(?:[\"“”„«»＂'‘’].*?)?\b(?:id|owner)\b)", re.MULTILINE | re.IGNORECASE
)
"""A line that looks like one that names a speaker, and the blanks before it."""
MOST_SPEAKER_CHARS = 60


def speaker_label(name: str, sender: str, *, is_owner: bool) -> str:
    """Names a speaker to a model: `"Ann", id 12345, owner`. Empty if neither a name nor an id is known.

    People choose their names, so a name is in quotation marks and contains none. It is one line of at most 60
    visible characters without brackets.
    """
    if not (name or sender):
        return ""  # as of most messages of a private chat
    name, sender = _one_line(name), _one_line(sender.replace(",", " "))
    parts = (f'"{name}"' if name else "", f"id {sender}" if sender else "", "owner" if is_owner else "")
    return ", ".join(filter(None, parts)) if name or sender else ""


def _one_line(text: str) -> str:
    visible = "".join(" " if character.isspace() else character for character in text)
    kept = (
        character for character in visible if character.isprintable() and character not in '[]［］"“”„«»＂'
    )
    return " ".join("".join(kept).split())[:MOST_SPEAKER_CHARS].strip()


def sendable(text: str) -> str:
    """`text` as valid Unicode: surrogates are joined if they form a pair, and replaced otherwise.

    File names and broken tools may contain surrogates, which can be neither stored nor sent.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def user_message(text: str, *, timestamp_ms: int) -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp_ms=timestamp_ms)


def last_results(messages: Sequence[Message]) -> dict[int, int]:
    """Maps the index of each message with calls to the index of its last result.

    Results without a preceding call and second results of a call are left out. Some providers reuse a call id
    in a later turn, so a result belongs to the nearest preceding message that made the call.
    """
    callers: dict[str, int] = {}
    last: dict[int, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall) and block.id:
                    callers[block.id] = index
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in callers:
            last[callers.pop(message.tool_call_id)] = index
    return last


def message_from_json(raw: Mapping[str, Any]) -> Message | None:
    """Reads one stored message. Returns `None` for an unknown role; such a message stays in the file.

    Accepts what old or foreign writers produce: string content, snake_case usage keys, unknown blocks
    (skipped) and missing numbers (zero).

    Raises:
        ValueError: the role is known but the message's shape cannot be read.
    """
    role = raw.get("role")
    timestamp_ms = whole_number(raw.get("timestamp"))
    if role == "user":
        inbound_id, sender, speaker = raw.get("inboundId"), raw.get("sender"), raw.get("speaker")
        # A transcript of another program may have any text here, not only one line without brackets.
        is_label = (
            isinstance(speaker, str)
            and speaker.isprintable()
            and not any(each in speaker for each in "[]［］")
        )
        return UserMessage(
            content=_text_and_images(raw.get("content")),
            timestamp_ms=timestamp_ms,
            inbound_id=inbound_id if isinstance(inbound_id, str) else "",
            sender=sender if isinstance(sender, str) else "",
            speaker=str(speaker) if is_label else "",
        )
    if role == "assistant":
        return _assistant_from_json(raw, timestamp_ms)
    if role == "toolResult":
        details = raw.get("details")
        return ToolResultMessage(
            tool_call_id=str(raw.get("toolCallId") or raw.get("toolUseId") or ""),
            tool_name=str(raw.get("toolName") or "unknown"),
            content=_text_and_images(raw.get("content")),
            is_error=bool(raw.get("isError")),
            timestamp_ms=timestamp_ms,
            details=details if isinstance(details, dict) else None,
        )
    return None


def _assistant_from_json(raw: Mapping[str, Any], timestamp_ms: int) -> AssistantMessage:
    content = raw.get("content")
    blocks: list[Text | Thinking | ToolCall] = []
    if isinstance(content, str):
        blocks.append(Text(text=content))
    elif isinstance(content, list | tuple):
        blocks = [block for block in map(_assistant_block, content) if block is not None]
    elif content is not None:
        raise ValueError(f"an assistant message's content is {_kind(content)}, not text or blocks")
    stop_reason = raw.get("stopReason")
    error_message = raw.get("errorMessage")
    return AssistantMessage(
        content=tuple(blocks),
        api=str(raw.get("api") or ""),
        provider=str(raw.get("provider") or ""),
        model=str(raw.get("model") or ""),
        usage=usage_from_json(raw.get("usage")),
        stop_reason=stop_reason if stop_reason in STOP_REASONS else "stop",
        timestamp_ms=timestamp_ms,
        error_message=None if error_message is None else str(error_message),
        took_ms=whole_number(raw.get("tookMs")),
        first_token_ms=whole_number(raw.get("firstTokenMs")),
    )


def _assistant_block(raw: object) -> Text | Thinking | ToolCall | None:
    if not isinstance(raw, dict):
        return None
    kind = raw.get("type")
    if kind == "text":
        return Text(text=str(raw.get("text") or ""))
    if kind == "thinking":
        signature = raw.get("thinkingSignature")
        return Thinking(
            thinking=str(raw.get("thinking") or ""), signature=None if signature is None else str(signature)
        )
    if kind == "toolCall":
        arguments = raw.get("arguments")
        invalid = raw.get("invalidArguments")
        return ToolCall(
            id=str(raw.get("id") or ""),
            name=str(raw.get("name") or ""),
            arguments=arguments if isinstance(arguments, dict) else {},
            invalid_arguments=None if invalid is None else str(invalid),
            thought_signature=str(raw.get("thoughtSignature") or ""),
        )
    return None


def _text_and_images(content: object) -> tuple[Text | Image, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    if not isinstance(content, list | tuple):
        raise ValueError(f"a message's content is {_kind(content)}, not text or blocks")
    blocks: list[Text | Image] = []
    for raw in content:
        if isinstance(raw, dict) and raw.get("type") == "text":
            said_by = raw.get("saidBy")
            said_by = said_by if isinstance(said_by, str) else ""
            blocks.append(Text(text=str(raw.get("text") or ""), said_by=said_by))
        elif isinstance(raw, dict) and raw.get("type") == "image":
            blocks.append(Image(data=str(raw.get("data") or ""), mime_type=str(raw.get("mimeType") or "")))
    return tuple(blocks)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


_CLOSING_TAGS = re.compile(r"</(?=\s*(?:conversation|previous-summary)\b)", re.IGNORECASE)


RESULT_CHARS = 2_000
"""The most characters of a tool result in a text to summarize."""


def serialize_for_summary(messages: Sequence[Message]) -> str:
    """Formats a conversation as labeled paragraphs: `[User]:`, `[Assistant]:`, `[Tool result]:` and so on.

    Tool results are cut with a note, words of people and models are not. The text cannot close the tags that
    surround it in a prompt.
    """
    text = "\n\n".join(paragraph for message in messages for paragraph in _paragraphs(message))
    return _CLOSING_TAGS.sub("&lt;/", text) if "</" in text else text


def _paragraphs(message: Message) -> list[str]:
    content = message.content
    if (
        len(content) == 1
        and isinstance(only := content[0], Text)
        and not isinstance(message, ToolResultMessage)
    ):
        if isinstance(message, UserMessage):  # as nearly all are
            return [f"[User]: {only.text}"] if only.text else []
        return [f"[Assistant]: {only.text}"] if only.text.strip() else []
    if isinstance(message, AssistantMessage):
        return _answer(message)
    images = sum(isinstance(block, Image) for block in message.content)
    shown = "\n".join([*filter(None, [message_text(message)]), *["[image]"] * images])
    if isinstance(message, UserMessage):
        return [f"[User]: {shown}"] if shown else []
    left_out = len(shown) - RESULT_CHARS
    if left_out > 0:
        shown = f"{shown[:RESULT_CHARS]}\n[... {left_out} more characters truncated]"
    return [f"[Tool result]: {shown or '(empty)'}"]


def _answer(message: AssistantMessage) -> list[str]:
    thinking = "\n".join(block.thinking for block in message.content if isinstance(block, Thinking))
    calls = "; ".join(map(call_text, message.tool_calls))
    parts = (
        ("Assistant thinking", thinking),
        ("Assistant", message_text(message)),
        ("Assistant tool calls", calls),
    )
    return [f"[{label}]: {text}" for label, text in parts if text.strip()]


def call_text(call: ToolCall) -> str:
    """Formats a call as `name(argument=json, …)`."""
    if call.invalid_arguments is not None:
        return f"{call.name}({call.invalid_arguments})"
    arguments = (
        f"{name}={json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in call.arguments.items()
    )
    return f"{call.name}({', '.join(arguments)})"


MAX_KEPT_CHARS = 5_000_000
"""Longer results are cut, so that one command cannot fill the store."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class WholeResults(Protocol):
    """The full tool results of one session. They never change, and they move with their transcript."""

    async def keep(self, name: str, text: str) -> None:
        """Stores a result on disk under a new name, cut at `MAX_KEPT_CHARS`.

        Raises:
            SessionWriteFailed: the store refused; nothing was written.
            ValueError: `name` is not a valid result name.
        """

    async def read(self, name: str) -> str | None:
        """Returns a stored result, or `None` if there is none with that name.

        Raises:
            SessionError: it cannot be read.
        """


def is_result_name(name: str) -> bool:
    """Whether a text is a valid result name: letters, digits, `-` and `_`."""
    return _NAME.fullmatch(name) is not None
