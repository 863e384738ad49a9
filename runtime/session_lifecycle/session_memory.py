"""The session-memory hook: saves the decisions of an ended session, and its last messages, as a note.

Only private sessions are saved, because words of others in a group do not belong in the owner's notes. The
note is written once for each ended session, even if a crash makes the hook run twice, and no file is
overwritten.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from itertools import chain, islice

from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.secrets import without_secrets
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import workspace_gone
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.inbound import was_command
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.hooks.events import SessionEnded
from nacre.runtime.models.failover import whole_answer
from nacre.runtime.recall.memory_core import MEMORY_TOOL_NAMES
from nacre.runtime.tools.session_sources import SessionSources, SpeakerLog
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    ToolResultMessage,
    UserMessage,
    message_text,
    user_message,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import CustomMessage, Entry
from nacre.sessions.view.transcript import CHANGES_TYPE, RECALL_TYPE

log = logging.getLogger(__name__)

SLUG_SECONDS = 15.0
SLUG_CHARS = 2_000
"""The number of characters of the conversation that the model reads to name it."""
SLUG_TOKENS = 1_000
"""Includes room for the reasoning of models that think before they answer."""

MOST_NAMES = 100
"""The most notes of one day with the same name."""

_NOTE_BYTES = 1 << 20
_NOTE_NAME = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")


class _NameTaken(Exception):
    """A file with this name exists already."""


async def _written(workspace: Workspace, path: str, data: bytes) -> bool:
    """Creates the file, or proposes it to the owner; `False` if a file, folder or link exists already."""

    def created(old: bytes | None) -> bytes:
        if old is not None:
            raise _NameTaken
        return data

    try:
        await workspace.change(path, created)
    except (_NameTaken, IsADirectoryError, PathOutsideRoot):
        return False
    except WaitsForReview as waiting:
        log.info("%s", waiting)
    return True


class SessionMemory(Record):
    """A handler for `session_end`. A note has the decisions in the last `messages` messages, then these.

    `decisions` finds decisions, word for word, in the speakers and texts of these messages. `model` names the
    conversation within `slug_seconds`. `on_notes` is called with the path of the note. `sources` are the
    sources of the workspace's lines. `may_write` says whether a session of this key may write a note. An
    answer that `says_nothing` is left out.
    """

    workspace: Workspace
    messages: int
    model: ChatModel
    on_notes: Callable[[str], None]
    sources: Sources | None = None
    may_write: Callable[[str], bool] = lambda _key: True
    decisions: Callable[[Sequence[tuple[str, str]]], Sequence[str]] = lambda _said: ()
    says_nothing: Callable[[AssistantMessage], bool] = lambda _answer: False
    slug_seconds: float = SLUG_SECONDS

    async def __call__(self, event: SessionEnded) -> None:
        """Writes the note, unless there is nothing to save.

        Raises:
            OSError: the workspace is missing or the disk refused; nothing was written.
            PathOutsideRoot: the folder of notes is outside the workspace.
            FileBusy: another process holds the file.
        """
        entries = [
            entry
            for entry in event.entries
            if not (isinstance(entry.body, AssistantMessage) and self.says_nothing(entry.body))
        ]
        quotes = last_quotes(entries, self.messages) if event.is_private else ()
        if not quotes or not self.may_write(event.session_key):
            log.info("session %s leaves no note", event.session_id)
            return
        if not self.workspace.is_there:
            raise FileNotFoundError(workspace_gone(self.workspace))
        moment = last_moment(quotes, otherwise=event.ended_at)
        if not self.workspace.may_change(note_start(moment)):
            raise PermissionError(errno.EACCES, "is not writable", note_start(moment))
        for note in await self._notes_since(quotes[0], event.ended_at):
            if note_mark(event) in note:
                return
            quotes = new_quotes(note, quotes, key=event.session_key, zone=event.ended_at.tzinfo)
        if not any(quote.speaker == "User" for quote in quotes):
            log.info("the notes already contain everything in session %s", event.session_id)
            return
        slug = await self._slug(conversation_text(quotes), event)
        decided = self.decisions([(quote.speaker.lower(), quote.text) for quote in quotes])
        data = note_text(event, quotes, decided, moment=moment).encode("utf-8", "replace")
        names = [note_name(moment, slug, number=number) for number in range(1, MOST_NAMES + 1)]
        workspace = self._attributed_workspace(event)
        for name in names:
            if await _written(workspace, name, data):
                self.on_notes(name)
                return
        raise FileExistsError(f"{names[0]} and {MOST_NAMES - 1} other names for the note are in use")

    async def _notes_since(self, first: Quote, ended_at: datetime) -> list[str]:
        """The notes since the day of `first`, which may contain it already."""
        folder, _, day = note_start(last_moment([first], otherwise=ended_at)).rpartition("/")
        try:
            entries = await self.workspace.list_folder(folder)
        except FileNotFoundError:
            return []
        names = [entry.name for entry in entries if _NOTE_NAME.fullmatch(entry.name) and not entry.is_folder]
        notes: list[str] = []
        for name in names:
            # An unreadable file, such as a link out of the workspace, is not a note of this hook.
            with suppress(OSError, PathOutsideRoot):
                if name >= day:
                    found = await self.workspace.read(f"{folder}/{name}", max_bytes=_NOTE_BYTES)
                    notes.append(found.text)
        return notes

    def _attributed_workspace(self, event: SessionEnded) -> Workspace:
        speakers = SpeakerLog()
        speakers.follow(event.entries)
        said = SessionSources(
            sources=self.sources or Sources(self.workspace),
            speakers=lambda: speakers,
            policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
            session_key=event.session_key,
            session_id=event.session_id,
            chat=f"{event.channel} direct chat",
            now=lambda: event.ended_at,
        )
        return said.workspace(self.workspace, "hook", words_of=without_speaker)

    async def _slug(self, conversation: str, event: SessionEnded) -> str:
        """A name from the model; empty if there is none in time."""
        request = ModelRequest(
            system=SystemPrompt(stable=render("session/slug_system")),
            messages=(
                user_message(
                    render("session/slug", conversation=conversation[:SLUG_CHARS]),
                    timestamp_ms=int(event.ended_at.timestamp() * 1000),
                ),
            ),
            max_output_tokens=SLUG_TOKENS,
            purpose="slug",
        )
        try:
            async with asyncio.timeout(self.slug_seconds):
                return slug_of(message_text(await whole_answer(self.model, request)))
        except (ModelError, TimeoutError) as error:
            log.info("session %s is named by its time: %s", event.session_id, error or "no name in time")
        return ""


LEFT_OUT = "[…]"
MIN_CHARS = 12
"""Shorter sentences, such as "All right.", match by chance. Not in ASCII, half of this is enough."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。\uff01\uff1f])")
_QUOTED = re.compile(r"“[^”\n]+”|\"[^\"\n]+\"|«[^»\n]+»|„[^“\n]+“|「[^」\n]+」")
_SOURCE = re.compile(r"\n\s*Source: \S[^\n]*\s*\Z")
_QUOTE_LINE = re.compile(r"\s{0,3}>")
_SEVERAL = re.compile(rf"{re.escape(LEFT_OUT)}(?:\s+{re.escape(LEFT_OUT)})+")


class KnownNotes:
    """The text of notes that a conversation was shown or wrote."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        lines = (line for entry in entries for text in _note_texts(entry) for line in text.splitlines())
        self._words = "\n".join(f" {_words(line)} " for line in lines)

    def remove_from(self, answer: str) -> str:
        """Removes from an answer the sentences, quotations and quoted passages that the notes contain.

        Citations of notes stay, so that the notes can be found.
        """
        if not self._words:
            return answer
        lines = [shorter for line in answer.splitlines() if (shorter := self._line(line)) is not None]
        return "\n".join(lines).strip()

    def _line(self, line: str) -> str | None:
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


def _note_texts(entry: Entry) -> Iterator[str]:
    body = entry.body
    if isinstance(body, CustomMessage) and body.custom_type in (RECALL_TYPE, CHANGES_TYPE):
        yield body.content if isinstance(body.content, str) else ""
    elif isinstance(body, ToolResultMessage) and body.tool_name in MEMORY_TOOL_NAMES:
        try:
            found = json.loads(message_text(body))
            yield str(found.get("text", ""))
            yield from (_SOURCE.sub("", str(hit.get("snippet", ""))) for hit in found.get("results", ()))
        except (ValueError, RecursionError, AttributeError, TypeError):  # the JSON was cut
            yield message_text(body).replace("\\n", "\n")
    elif isinstance(body, AssistantMessage):
        yield from (str(call.arguments.get("text")) for call in body.tool_calls if call.name == "append")


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


MAX_MESSAGE_CHARS = 2_000
"""A longer message keeps its beginning; the transcript has the rest."""
MAX_SLUG_CHARS = 30
MAX_SLUG_WORDS = 4
"""A longer answer of the model is not a name."""

_SECONDS = "%Y-%m-%d %H:%M:%S"
_TIME = f"{_SECONDS} %Z"
_NOTE_HEAD = re.compile(
    r"# Session: (?P<moment>[\d-]{10} [\d:]{8})[^\n]*\n\n- \*\*Session Key\*\*: (?P<key>[^\n]*)\n"
)
_SPEAKER = re.compile(r">\s*(?:User: |Assistant: |- )")


class Quote(Record):
    """One message: its speaker, text and time."""

    speaker: str
    text: str
    at_ms: int


def last_quotes(entries: Sequence[Entry], count: int) -> tuple[Quote, ...]:
    """The last `count` messages on a branch, without commands, tools and silent answers.

    Passages of an answer that repeat the notes are left out. The result is empty if no person spoke.
    """
    recalled = KnownNotes(entries)
    newest_first = filter(None, (_quote(entry, recalled) for entry in reversed(entries)))
    quotes = list(islice(newest_first, count))
    # After the last messages, reads only until a person is found.
    has_user = any(quote.speaker == "User" for quote in chain(quotes, newest_first))
    return tuple(reversed(quotes)) if has_user else ()


def new_quotes(note: str, quotes: Sequence[Quote], *, key: str, zone: tzinfo | None) -> tuple[Quote, ...]:
    """The quotes that are not in `note`, if it is a note of a session with this key; else all of them.

    The same words after the note's last message count as new.
    """
    head = _NOTE_HEAD.match(note)
    if head is None or head["key"] != key:
        return tuple(quotes)

    def is_new(quote: Quote) -> bool:
        said_at = stored_moment(quote.at_ms, zone)
        if said_at is None or f"{said_at:{_SECONDS}}" > head["moment"]:
            return True
        return f"\n{_block(quote)}\n" not in note

    return tuple(filter(is_new, quotes))


def conversation_text(quotes: Sequence[Quote]) -> str:
    """The quotes as a model reads them, one paragraph each."""
    return "\n\n".join(f"{quote.speaker}: {quote.text}" for quote in quotes)


def last_moment(quotes: Sequence[Quote], *, otherwise: datetime) -> datetime:
    """The time of the last message in the zone of `otherwise`, which is returned if the time is unknown."""
    return stored_moment(quotes[-1].at_ms if quotes else 0, otherwise.tzinfo) or otherwise


def slug_of(answer: str) -> str:
    """A model's answer as a part of a file name: `a-z`, `0-9` and `-`; empty if it is not a name."""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) != 1 or is_silent(answer):
        return ""
    plain = unicodedata.normalize("NFKD", lines[0].lower()).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain)
    if len(words) > MAX_SLUG_WORDS:
        return ""
    slug = "-".join(words)
    return slug if len(slug) <= MAX_SLUG_CHARS else slug[: MAX_SLUG_CHARS + 1].rpartition("-")[0]


def note_start(moment: datetime) -> str:
    return f"memory/{moment:%Y-%m-%d}-"


def note_name(moment: datetime, slug: str, *, number: int = 1) -> str:
    """The note's path in the workspace; a `number` above 1 distinguishes notes with the same name.

    Without a slug, the note is named after the time of day.
    """
    tail = "" if number == 1 else f"-{number}"
    return f"{note_start(moment)}{slug or moment.strftime('%H%M')}{tail}.md"


def note_mark(event: SessionEnded) -> str:
    ended = f"{event.ended_at.strftime(_TIME)} ({event.reason})"
    return f"- **Session ID**: {event.session_id}\n- **Ended**: {ended}"


def note_text(
    event: SessionEnded, quotes: Sequence[Quote], decided: Sequence[str], *, moment: datetime
) -> str:
    """The note as Markdown, decisions first; `moment` is the time of the last message."""
    counted = "the last words" if len(quotes) == 1 else f"the last {len(quotes)} messages"
    counted = f"What was decided, and then {counted}" if decided else counted.capitalize()
    return "\n".join(
        [
            f"# Session: {moment.strftime(_TIME)}",
            "",
            f"- **Session Key**: {event.session_key}",
            note_mark(event),
            f"- **Source**: {event.channel or 'unknown'}",
            "",
            "## Conversation Summary",
            "",
            f"{counted} of a conversation that is over. History, quoted: nothing in it is to be done now.",
            "",
            *([*(quoted(f"- {sentence}") for sentence in decided), ""] if decided else []),
            "\n>\n".join(map(_block, quotes)),
            "",
        ]
    )


def without_speaker(line: str) -> str:
    return _SPEAKER.sub("", line, count=1)


def _block(quote: Quote) -> str:
    return quoted(f"{quote.speaker}: {quote.text}")


def _quote(entry: Entry, recalled: KnownNotes) -> Quote | None:
    if not isinstance(entry.body, UserMessage | AssistantMessage):
        return None
    text = message_text(entry.body)
    speaker = "User" if isinstance(entry.body, UserMessage) else "Assistant"
    text = recalled.remove_from(without_token(text)) if speaker == "Assistant" else text
    text = without_secrets(text).strip()
    if not text or (speaker == "User" and was_command(text)):
        return None
    if len(text) > MAX_MESSAGE_CHARS:
        text = f"{text[:MAX_MESSAGE_CHARS].rstrip()} […]"
    return Quote(speaker=speaker, text=text, at_ms=timestamp_ms(entry.timestamp) or entry.body.timestamp_ms)
