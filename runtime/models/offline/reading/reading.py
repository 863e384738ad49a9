"""Reads a request the way the offline responder understands it: who said what, and what is only quoted.

Everything is read off the request, so that the responder keeps no state. Summaries, recalled logs
and tool results are data here: nothing in them counts as something that was just asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from nacre.prompts import render
from nacre.runtime.contracts.model import ModelRequest, ToolSpec
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)

Speaker: TypeAlias = Literal["user", "assistant", "calls", "result", "other"]

TYPED_CHARS = 16_000

DAILY_LOG = re.compile(r"memory/(\d{4}-\d{2}-\d{2})\.md")
_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_TODAY = re.compile(r"\btoday\b[^\n]{0,80}?(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)", re.IGNORECASE)

_NOTES_BLOCK = re.compile(
    r"^BEGIN NOTES FROM [^\n]*\n.*?(?:^END NOTES FROM [^\n]*$|\Z)", re.DOTALL | re.MULTILINE
)
_QUOTING_TAG = (
    r"(?:previous-)?summary|relevant-memories|recalled?(?:-[a-z]+)?|memory-context|memories|notes"
    r"|read-files|modified-files"
)
_TAGGED_BLOCK = re.compile(rf"<({_QUOTING_TAG})\b[^>\n]*>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTE_LINE = re.compile(r"^\s{0,3}>[^\n]*$", re.MULTILINE)
_SUMMARY_START = re.compile(r"(?:[^\n<]{0,300}\n{1,3})?<(?:previous-)?summary\b", re.IGNORECASE)
_SUMMARY_HEADINGS = ("## Goal", "## Key Decisions")


@dataclass(frozen=True, kw_only=True)
class Said:
    """One contribution to a conversation; `text` still holds quotes and code."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A call of this turn with its result, or without one when none came back."""

    call: ToolCall
    result: ToolResultMessage | None

    @property
    def text(self) -> str:
        """The result's text; empty when there is none."""
        return "" if self.result is None else message_text(self.result).strip()

    @property
    def failed(self) -> bool:
        """Whether the tool said that it could not do its work, or said nothing at all."""
        return self.result is None or self.result.is_error


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A request as the responder reads it.

    `ask` is the last message of a person, `before` what was said until then, oldest first, and
    `finished` the calls that were made since, in order.
    """

    ask: str
    has_image: bool
    before: tuple[Message, ...]
    finished: tuple[Finished, ...]

    def finished_call(self, tool_name: str) -> Finished | None:
        """The last call of this turn of one tool."""
        return next((done for done in reversed(self.finished) if done.call.name == tool_name), None)


def read_request(request: ModelRequest) -> Reading:
    """Finds the last thing that a person said and what happened since."""
    at = next(
        (
            index
            for index in range(len(request.messages) - 1, -1, -1)
            if isinstance(request.messages[index], UserMessage) and not is_background(request.messages[index])
        ),
        None,
    )
    if at is None:
        return Reading(ask="", has_image=False, before=request.messages, finished=())
    message = request.messages[at]
    return Reading(
        ask=without_recalled(message_text(message)).strip(),
        has_image=any(isinstance(block, Image) for block in message.content),
        before=request.messages[:at],
        finished=_finished(request.messages[at + 1 :]),
    )


def conversation(messages: Sequence[Message]) -> list[Said]:
    """Messages as contributions; what the runtime put there in a person's place is `other`."""
    said: list[Said] = []
    for message in messages:
        text = message_text(message)
        if isinstance(message, UserMessage):
            said.append(Said(speaker="other" if is_background(message) else "user", text=text))
        elif isinstance(message, AssistantMessage):
            if text:
                said.append(Said(speaker="assistant", text=text))
            said.extend(Said(speaker="calls", text=_call_text(call)) for call in message.tool_calls)
        else:
            said.append(Said(speaker="result", text=text))
    return said


def is_background(message: Message) -> bool:
    """Whether a message is recalled notes or the summary of an earlier part, and nobody's words."""
    return is_summary(message_text(message)) or is_recall(message_text(message))


def is_summary(text: str) -> bool:
    """Whether a text is a summary that stands for earlier messages."""
    return bool(_SUMMARY_START.match(text.lstrip())) or all(heading in text for heading in _SUMMARY_HEADINGS)


def is_recall(text: str) -> bool:
    """Whether a text is daily logs that the runtime loaded."""
    start = text.lstrip()
    return start.startswith(("BEGIN NOTES FROM ", render("recall", files="").strip()))


def without_recalled(text: str) -> str:
    """A text without recalled notes and summaries: only what its writer said."""
    return _TAGGED_BLOCK.sub("\n", _NOTES_BLOCK.sub("\n", text))


def own_words(text: str) -> str:
    """A text without anything quoted in it either: no recalled notes, quotations or code blocks.

    Of a text too long to be typed only the beginning and the end are looked at.
    """
    return _QUOTE_LINE.sub("", _FENCE.sub("\n", without_recalled(ends_of(text))))


def ends_of(text: str) -> str:
    """The text, or its beginning and its end when it is longer than anybody types."""
    if len(text) <= TYPED_CHARS:
        return text
    return f"{text[: TYPED_CHARS * 3 // 4]}\n{text[-TYPED_CHARS // 4 :]}"


def today(request: ModelRequest, *, fallback: date) -> str:
    """Today's date as the request states it, `YYYY-MM-DD`; `fallback` when it states none."""
    changing = request.system.changing
    tools = "\n".join(tool.description for tool in request.tools)
    stated = [
        *_TODAY.findall(changing),
        *_TODAY.findall(request.system.stable),
        *DAILY_LOG.findall(changing),
        *DAILY_LOG.findall(tools),
        *_DATE.findall(changing),
    ]
    return next(filter(_is_date, stated), fallback.isoformat())


def tool_named(request: ModelRequest, name: str) -> ToolSpec | None:
    """The tool of that name when the request offers it."""
    return next((tool for tool in request.tools if tool.name == name), None)


def appended_texts(messages: Sequence[Message]) -> list[str]:
    """What `append` calls of this conversation wrote, failed ones left out."""
    return [
        str(value)
        for done in _finished(messages)
        if done.call.name == "append" and (done.result is None or not done.result.is_error)
        for name, value in done.call.arguments.items()
        if name != "path"
    ]


def _finished(messages: Sequence[Message]) -> tuple[Finished, ...]:
    """Calls with the results that follow them; ids are unique within a message, but not further."""
    finished: list[Finished] = []
    calls: tuple[ToolCall, ...] = ()
    results: dict[str, ToolResultMessage] = {}
    for message in messages:
        if isinstance(message, ToolResultMessage):
            results.setdefault(message.tool_call_id, message)
        elif isinstance(message, AssistantMessage):
            finished.extend(Finished(call=call, result=results.get(call.id)) for call in calls)
            calls, results = message.tool_calls, {}
    finished.extend(Finished(call=call, result=results.get(call.id)) for call in calls)
    return tuple(finished)


def _call_text(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
