"""Reads a request the way the offline responder understands it: who said what, and what is only quoted.

Summaries, recalled logs and tool results are data: nothing in them counts as something just asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, cached_property, lru_cache
from typing import Literal, TypeAlias

from nacre.memory.text.evidence import fold
from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline.intent import is_question, may_decide
from nacre.runtime.models.offline.sentences import RECALLED, own_words, plain, sentences
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    call_text,
    message_text,
)

Speaker: TypeAlias = Literal["user", "assistant", "calls", "other"]

DAILY_LOG = re.compile(r"memory/\d{4}-\d{2}-\d{2}\.md")
_TODAY = re.compile(r"\btoday\b[^\n]{0,80}?(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)", re.IGNORECASE)
_SUMMARY_START = re.compile(r"\s*(?:[^\n<]{0,300}\n{1,3})?<summary\b", re.IGNORECASE)
_COMMAND = re.compile(r"\s*/[a-zA-Z]")
_LABEL = re.compile(r"^\[(User|Assistant(?: thinking| tool calls)?|Tool result)\]: ", re.MULTILINE)
_SPEAKER_LINE = re.compile(r'\A\[(?:"[^"\n]*"|id )[^\n]*\]\n')
_SPEAKERS: Mapping[str, Speaker] = {"User": "user", "Assistant": "assistant", "Assistant tool calls": "calls"}


class Said(Record):
    """One contribution to a conversation; `text` still holds quotes and code, `sentences` do not."""

    speaker: Speaker
    text: str

    @cached_property
    def sentences(self) -> list[str]:
        """What its writer said in own words, nothing of a chat command or a prompt of the runtime."""
        return [*self._each_sentence()]

    @property
    def first_sentence(self) -> str:
        """The first of them, without looking for the others; empty when there is none."""
        return next(self._each_sentence(), "")

    @cached_property
    def questions(self) -> Collection[str]:
        """Those of the sentences that ask something."""
        return {sentence for sentence in self.sentences if is_question(sentence)}

    @cached_property
    def kinds(self) -> dict[tuple[str, Collection[str]], str]:
        """What was found out about its sentences: their kinds, by the sentence and the kinds looked for."""
        return {}

    @cached_property
    def may_decide(self) -> bool:
        """Whether there can be a decision in it."""
        return may_decide(self.text)

    @cached_property
    def folded_text(self) -> str:
        """All of it as a `Finder` compares words."""
        return fold(plain(self.text))

    def _each_sentence(self) -> Iterator[str]:
        if _COMMAND.match(self.text) or SILENT_TOKEN in self.text:
            return iter(())
        return sentences(own_words(self.text))


class Finished(Record):
    """A call with its result's text; `failed` when the tool could not do it."""

    call: ToolCall
    text: str
    failed: bool


class Reading(Record):
    """A request: the last message of a person, the messages until then, and the calls made since."""

    before: Sequence[Message]
    ask: str = ""
    has_image: bool = False
    finished: Sequence[Finished] = ()

    @cached_property
    def said(self) -> Sequence[Said]:
        """What was said until then; many steps do not ask for it."""
        return conversation(self.before)

    def said_newest_first(self) -> Iterator[Said]:
        """The same from its end, read as far as it is asked for."""
        return (part for message in reversed(self.before) for part in reversed(conversation([message])))

    def finished_call(self, tool_name: str) -> Finished | None:
        """The last call of this turn of one tool."""
        return next((done for done in reversed(self.finished) if done.call.name == tool_name), None)


def read_request(request: ModelRequest) -> Reading:
    """Finds the last thing that a person said and what happened since."""
    messages = request.messages
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and not is_background(message_text(message)):
            return Reading(
                ask=RECALLED.sub("\n", _SPEAKER_LINE.sub("", message_text(message))).strip(),
                has_image=any(isinstance(block, Image) for block in message.content),
                before=messages[:at],
                finished=finished_calls(messages[at + 1 :]),
            )
    return Reading(before=messages)


def conversation(messages: Sequence[Message]) -> list[Said]:
    """What people and models said and called; what the runtime put in a person's place is `other`."""
    said: list[Said] = []
    for message in messages:
        if isinstance(message, UserMessage):
            said.append(heard("user", message_text(message)))
        elif isinstance(message, AssistantMessage):
            said.append(heard("assistant", message_text(message)))
            said.extend(heard("calls", call_text(call)) for call in message.tool_calls)
    return [contribution for contribution in said if contribution.text]


def is_background(text: str) -> bool:
    """Whether a text is a summary of earlier messages, or something that the runtime says of notes."""
    return ("<" in text and bool(_SUMMARY_START.match(text))) or text.lstrip().startswith(_loaded())


@cache
def _loaded() -> tuple[str, ...]:
    return "BEGIN NOTES FROM ", render("recall/notes", files="").strip(), _changes_begin()


@cache
def _changes_begin() -> str:
    return render("tail/changes", text="").strip()


def todays_log(request: ModelRequest, *, clock_date: date) -> str:
    """The path of the log of the day that was stated last, or else of `clock_date`."""
    told = (
        message_text(message) for message in reversed(request.messages) if isinstance(message, UserMessage)
    )
    changes = (text for text in told if text.startswith(_changes_begin()))
    stated = next(filter(None, map(_TODAY.search, (*changes, request.system.changing))), None)
    return f"memory/{stated[1] if stated else clock_date}.md"


def finished_calls(messages: Sequence[Message]) -> list[Finished]:
    """Calls that have their results; ids are unique within a message, but not further."""
    finished: list[Finished] = []
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage) and (call := calls.pop(message.tool_call_id, None)):
            text = message_text(message).strip()
            finished.append(Finished(call=call, text=text, failed=message.is_error))
    return finished


def read_labelled(text: str) -> list[Said]:
    """A serialised conversation as contributions; reasoning and results are left out."""
    _, *labelled = _LABEL.split(text)
    pairs = zip(labelled[::2], labelled[1::2], strict=True)
    said = [heard(_SPEAKERS[label], words.strip()) for label, words in pairs if label in _SPEAKERS]
    return [contribution for contribution in said if contribution.text]


@lru_cache(maxsize=200_000)  # a summary reads what the flush before it read; the next answer clears it
def heard(speaker: Speaker, text: str) -> Said:
    """A contribution, the same object for the same words, so that nothing is classified twice in a turn."""
    text = (_SPEAKER_LINE.sub("", text) if speaker == "user" else text).strip()
    return Said(speaker="other" if speaker == "user" and is_background(text) else speaker, text=text)
