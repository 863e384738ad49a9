"""Reads a request the way the offline responder understands it: who said what, and what is only quoted.

Everything is read off the request, so that the responder keeps no state. Summaries, recalled logs
and tool results are data here: nothing in them counts as something that was just asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Literal, TypeAlias

from nacre.prompts import render
from nacre.runtime.contracts.model import ModelRequest, ToolSpec
from nacre.runtime.models.offline.sentences import sentences
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.contracts.serialise import call_text

Speaker: TypeAlias = Literal["user", "assistant", "calls", "result", "other"]

TYPED_CHARS = 16_000

DAILY_LOG = re.compile(r"memory/\d{4}-\d{2}-\d{2}\.md")
_TODAY = re.compile(r"\btoday\b[^\n]{0,80}?(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)", re.IGNORECASE)
_RECALLED = re.compile(
    r"^BEGIN NOTES FROM [^\n]*\n.*?(?:^END NOTES FROM [^\n]*$|\Z)"
    r"|<((?:previous-)?summary|relevant-memories|recalled?(?:-[a-z]+)?|memory-context|memories|notes|read-files"
    r"|modified-files)\b[^>\n]*>.*?(?:</\1>|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTE_LINE = re.compile(r"^\s{0,3}>[^\n]*$", re.MULTILINE)
_SUMMARY_START = re.compile(r"\s*(?:[^\n<]{0,300}\n{1,3})?<(?:previous-)?summary\b", re.IGNORECASE)
_SUMMARY_HEADINGS = ("## Goal", "## Key Decisions")
_COMMAND = re.compile(r"\s*/[a-zA-Z]|.*(?:NO_REPLY|HEARTBEAT_OK)", re.DOTALL)

_LABEL = re.compile(r"^\[(User|Assistant(?: thinking| tool calls)?|Tool result)\]: ", re.MULTILINE)
_SPEAKERS: dict[str, Speaker] = {
    "User": "user",
    "Assistant": "assistant",
    "Assistant tool calls": "calls",
    "Tool result": "result",
}
_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus\b[^:\n]{0,60}:[ \t]*([^\n]+)", re.MULTILINE | re.IGNORECASE)
_TURN_PREFIX_HEADING = re.compile(r"^#{0,6} ?\**Original Request\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Said:
    """One contribution to a conversation; `text` still holds quotes and code, `sentences` do not."""

    speaker: Speaker
    text: str

    @property
    def is_command(self) -> bool:
        """Whether it is a chat command or a prompt of the runtime, and no conversation."""
        return bool(_COMMAND.match(self.text))

    @cached_property
    def sentences(self) -> list[str]:
        """What its writer said in own words, nothing of a command."""
        return [] if self.is_command else sentences(own_words(self.text))


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A call of this turn with its result's text; `failed` when the tool could not do it or said nothing."""

    call: ToolCall
    text: str
    failed: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A request: the last message of a person, what was said until then, and the calls made since."""

    ask: str
    has_image: bool
    before: tuple[Message, ...]
    finished: tuple[Finished, ...]

    @cached_property
    def said(self) -> list[Said]:
        """What was said before, as contributions."""
        return conversation(self.before)

    def finished_call(self, tool_name: str) -> Finished | None:
        """The last call of this turn of one tool."""
        return next((done for done in reversed(self.finished) if done.call.name == tool_name), None)


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """What is to be summarised; `of_turn_prefix` when it is the beginning of a turn that was cut."""

    said: Sequence[Said]
    previous_summary: str
    focus: str
    of_turn_prefix: bool


def read_request(request: ModelRequest) -> Reading:
    """Finds the last thing that a person said and what happened since."""
    for at in range(len(request.messages) - 1, -1, -1):
        message = request.messages[at]
        if isinstance(message, UserMessage) and not is_background(message_text(message)):
            return Reading(
                ask=_RECALLED.sub("\n", message_text(message)).strip(),
                has_image=any(isinstance(block, Image) for block in message.content),
                before=request.messages[:at],
                finished=finished_calls(request.messages[at + 1 :]),
            )
    return Reading(ask="", has_image=False, before=request.messages, finished=())


def read_summary_request(request: ModelRequest) -> SummaryRequest:
    """Reads the last message; without tags in it the messages before it are the conversation."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    tagged = _CONVERSATION.search(prompt)
    instructions = _CONVERSATION.sub("", prompt)
    previous = _PREVIOUS.search(instructions)
    instructions = _PREVIOUS.sub("", instructions)
    focus = _FOCUS.search(instructions)
    return SummaryRequest(
        said=_labelled(tagged[1]) if tagged else conversation(request.messages[:-1]),
        previous_summary=previous[1].strip() if previous else "",
        focus=focus[1].strip() if focus else "",
        of_turn_prefix=bool(_TURN_PREFIX_HEADING.search(instructions)),
    )


def conversation(messages: Sequence[Message]) -> list[Said]:
    """Messages as contributions; what the runtime put there in a person's place is `other`."""
    said: list[Said] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            said.append(Said(speaker="assistant", text=message_text(message)))
            said.extend(Said(speaker="calls", text=call_text(call)) for call in message.tool_calls)
        else:
            speaker: Speaker = "user" if isinstance(message, UserMessage) else "result"
            said.append(_said(speaker, message_text(message)))
    return [contribution for contribution in said if contribution.text]


def is_background(text: str) -> bool:
    """Whether a text is a summary that stands for earlier messages, or daily logs that the runtime loaded."""
    if _SUMMARY_START.match(text) or all(heading in text for heading in _SUMMARY_HEADINGS):
        return True
    return text.lstrip().startswith(("BEGIN NOTES FROM ", render("recall/notes", files="").strip()))


def own_words(text: str) -> str:
    """A text without what its writer did not say: recalled notes, summaries, quotations, code blocks.

    Of a text too long to be typed only the beginning and the end are looked at.
    """
    if len(text) > TYPED_CHARS:
        text = f"{text[: TYPED_CHARS * 3 // 4]}\n{text[-TYPED_CHARS // 4 :]}"
    return _QUOTE_LINE.sub("", _FENCE.sub("\n", _RECALLED.sub("\n", text)))


def todays_log(request: ModelRequest, *, clock_date: date) -> str:
    """The path of the log of the day that the prompt states, or else of `clock_date`."""
    for stated in _TODAY.findall(request.system.changing):
        try:
            return f"memory/{date.fromisoformat(stated)}.md"
        except ValueError:
            continue
    return f"memory/{clock_date}.md"


def tool_named(request: ModelRequest, name: str) -> ToolSpec | None:
    """The tool of that name when the request offers it."""
    return next((tool for tool in request.tools if tool.name == name), None)


def finished_calls(messages: Sequence[Message]) -> tuple[Finished, ...]:
    """Calls with the results that follow them; ids are unique within a message, but not further."""
    finished: list[Finished] = []
    calls: tuple[ToolCall, ...] = ()
    results: dict[str, ToolResultMessage] = {}
    for message in (*messages, None):
        if isinstance(message, ToolResultMessage):
            results.setdefault(message.tool_call_id, message)
        elif message is None or isinstance(message, AssistantMessage):
            for call in calls:
                result = results.get(call.id)
                text = "" if result is None else message_text(result).strip()
                finished.append(Finished(call=call, text=text, failed=result is None or result.is_error))
            calls, results = () if message is None else message.tool_calls, {}
    return tuple(finished)


def _labelled(text: str) -> list[Said]:
    """A serialised conversation as contributions; reasoning is left out, an unlabelled start is a result."""
    start, *labelled = _LABEL.split(text)
    said = [_said("result", start)]
    for label, words in zip(labelled[::2], labelled[1::2], strict=True):
        if label in _SPEAKERS:
            said.append(_said(_SPEAKERS[label], words))
    return [contribution for contribution in said if contribution.text]


def _said(speaker: Speaker, text: str) -> Said:
    text = text.strip()
    return Said(speaker="other" if speaker == "user" and is_background(text) else speaker, text=text)
