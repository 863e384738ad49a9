"""What a model is shown of a message that is too large for its window: its beginning and end. Pure.

What is left out stands in the transcript as ever. The record holds the sentence that the model reads in its
place, so that a later version of this program shows the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
    message_text,
)
from nacre.values.frozen import dataclass

ARGUMENTS_SPARE_CHARS = 1_000
"""What the names of a call's arguments may take besides; with more of them only their text is shown."""


@dataclass(frozen=True, kw_only=True)
class Shortened:
    """Of each text only so many characters at its beginning and its end, with `note` between them.

    `images` is how many images are shown, from the first on.
    """

    head_chars: int
    tail_chars: int
    images: int
    note: str

    def text(self, text: str) -> str:
        """A text as it is shown; the text itself when it is no longer than what is shown of it."""
        if self.head_chars + self.tail_chars >= len(text):
            return text
        tail = text[len(text) - self.tail_chars :]
        return "\n\n".join(part for part in (text[: self.head_chars], self.note, tail) if part)

    def to_json(self) -> dict[str, Any]:
        """What a record says of it."""
        return {
            "headChars": self.head_chars,
            "tailChars": self.tail_chars,
            "images": self.images,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, raw: Mapping[Any, Any]) -> Shortened | None:
        """What a record says; `None` for anything else."""
        numbers = (raw.get(key) for key in ("headChars", "tailChars", "images"))
        head, tail, images = (number if isinstance(number, int) else -1 for number in numbers)
        note = raw.get("note")
        if not isinstance(note, str) or min(head, tail, images) < 0:
            return None
        return cls(head_chars=head, tail_chars=tail, images=images, note=note)


def shortened(message: Message, how: Shortened) -> Message:
    """A message as it is shown: texts as one, then images or calls; without reasoning that is too long."""
    text = how.text(message_text(message))
    texts = (Text(text=text),) if text else ()
    if isinstance(message, AssistantMessage):
        limit_chars = how.head_chars + how.tail_chars
        thought = tuple(
            block
            for block in message.content
            if isinstance(block, Thinking) and len(block.thinking) <= limit_chars
        )
        calls = tuple(_call(call, how) for call in message.tool_calls)
        return replace(message, content=(*thought, *texts, *calls))
    images = [block for block in message.content if isinstance(block, Image)]
    content = (*texts, *images[: how.images])
    if len(images) > how.images:
        content = (*content, Text(text=f"[{len(images) - how.images} more images are not shown]"))
    if isinstance(message, UserMessage):
        return replace(message, content=content)
    return replace(message, content=content)


def whole_text(message: Message) -> str:
    """All that a shortened message leaves out, as one text: the words, and behind them a model's calls."""
    if not isinstance(message, AssistantMessage):
        return message_text(message)
    calls = (f"{call.name}({_arguments_text(call)})" for call in message.tool_calls)
    return "\n\n".join(part for part in (message_text(message), *calls) if part)


def _call(call: ToolCall, how: Shortened) -> ToolCall:
    limit_chars = how.head_chars + how.tail_chars
    if call.invalid_arguments is not None:
        return replace(call, invalid_arguments=how.text(call.invalid_arguments))
    if len(_arguments_text(call)) <= limit_chars:
        return call
    arguments = {name: _value(value, how) for name, value in call.arguments.items()}
    shown = replace(call, arguments=arguments)
    if len(_arguments_text(shown)) > 2 * (limit_chars + len(how.note)) + ARGUMENTS_SPARE_CHARS:
        shown = replace(call, arguments={"arguments": how.text(_arguments_text(call))})
    return shown


def _value(value: object, how: Shortened) -> object:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    short = how.text(text)
    return value if short is text else short


def _arguments_text(call: ToolCall) -> str:
    if call.invalid_arguments is not None:
        return call.invalid_arguments
    return json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
