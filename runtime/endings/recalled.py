"""What of an answer only repeats the notes: a note of the conversation leaves it out. Pure.

Else a fact would stand in the daily log, in the note of each session that asked for it, and in the notes of
those that found these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from nacre.runtime.recall.memory_tools import MEMORY_TOOL_NAMES
from nacre.sessions.contracts.messages import AssistantMessage, ToolResultMessage, message_text
from nacre.sessions.entries.entries import CustomMessage, Entry
from nacre.sessions.view.transcript import CHANGES_TYPE, RECALL_TYPE

LEFT_OUT = "[…]"
MIN_CHARS = 12
"""Shorter sentences, such as "All right.", are alike by chance; half of that in scripts of many signs."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。\uff01\uff1f])")
_QUOTED = re.compile(r"“[^”\n]+”|\"[^\"\n]+\"|«[^»\n]+»|„[^“\n]+“|「[^」\n]+」")
_SOURCE = re.compile(r"\n\s*Source: \S[^\n]*\s*\Z")
_QUOTE_LINE = re.compile(r"\s{0,3}>")
_SEVERAL = re.compile(rf"{re.escape(LEFT_OUT)}(?:\s+{re.escape(LEFT_OUT)})+")


class Recalled:
    """What a conversation was shown of the notes, and what it wrote into them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        lines = (line for text in _shown(entries) for line in text.splitlines())
        self._words = "\n".join(f" {_words(line)} " for line in lines)

    def left_out_of(self, answer: str) -> str:
        """The answer without the sentences, quotations and quoted passages that stand in the notes.

        Where notes are cited stays, so that they can be found from there.
        """
        if not self._words:
            return answer
        told = [shorter for line in answer.splitlines() if (shorter := self._line(line)) is not None]
        return "\n".join(told).strip()

    def _line(self, line: str) -> str | None:
        """A line without what is known; `None` when nothing is left of it."""
        if not line.strip():
            return line
        if _QUOTE_LINE.match(line):
            return None if self._has(line) else line
        sentences = [LEFT_OUT if self._has(part) else part for part in _SENTENCE.split(line)]
        shorter = _QUOTED.sub(
            lambda quote: LEFT_OUT if self._has(quote[0]) else quote[0], " ".join(sentences)
        )
        if LEFT_OUT not in shorter:
            return line
        shorter = _SEVERAL.sub(LEFT_OUT, shorter)
        return None if shorter.strip() == LEFT_OUT else shorter

    def _has(self, text: str) -> bool:
        words = _words(text)
        enough = MIN_CHARS if words.isascii() else MIN_CHARS // 2
        return len(words) >= enough and f" {words} " in self._words


def _shown(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        body = entry.body
        if isinstance(body, CustomMessage) and body.custom_type in (RECALL_TYPE, CHANGES_TYPE):
            yield body.content if isinstance(body.content, str) else ""
        elif isinstance(body, ToolResultMessage) and body.tool_name in MEMORY_TOOL_NAMES:
            yield from _passages(message_text(body))
        elif isinstance(body, AssistantMessage):
            yield from (str(call.arguments.get("text")) for call in body.tool_calls if call.name == "append")


def _passages(result: str) -> Iterator[str]:
    """The words of notes in the JSON of a memory tool; of JSON that was cut, all of it."""
    try:
        found = json.loads(result)
        yield str(found.get("text", ""))
        yield from (_SOURCE.sub("", str(hit.get("snippet", ""))) for hit in found.get("results", ()))
    except (ValueError, RecursionError, AttributeError, TypeError):
        yield result.replace("\\n", "\n")


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
