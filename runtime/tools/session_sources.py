"""Where the lines come from that a session writes into notes: who was heard in it, and who said this line."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview, names_of_others
from nacre.memory.files.sources.source import NOT_THE_OWNERS, PRIVATE, Source, Speaker, Writer
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources, line_key
from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.sessions.contracts.messages import (
    ATTACHMENT,
    AssistantMessage,
    Image,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.entries.entries import CustomMessage, CustomRecord, Entry

_FILE_TOOLS = ("read", "write", "edit", "append", "list")
_MEMORY_TOOLS = ("memory_search", "memory_get", "memory_recall", "memory_store", "memory_forget")
_FACT_TOOLS = ("memory_set_fact", "memory_note", "memory_recall_facts")
_OWN_TOOLS = ("schedule",)
NOTE_TOOLS = frozenset((*_FILE_TOOLS, *_MEMORY_TOOLS, *_FACT_TOOLS, *_OWN_TOOLS))
"""Tools of Nacre's own, whose results are notes. A note says itself whose word it is."""
FOREIGN_MARK = NOT_THE_OWNERS
"""What a result of these tools says of words that are not the owner's. The session has heard others then."""
IMPORT_ENTRY = "nacre.import"
"""The entry that says which program a transcript was imported from: its `source`, and the `id` there."""
IMPORTED, CONVERSATION, PARTS = "imported conversation", "earlier conversation", "part of a long line"
"""Names for words whose author is not known, beside those of people and tools."""
SUB_AGENT_ENTRY = "nacre.sub_agent"
"""The entry of a sub-agent's transcript that says who called it: the words in there are the assistant's."""

MOST_RECENT = 400
"""So many of the last messages are looked through for who said a line."""
MOST_NAMES = 12

_WORD = re.compile(r"[^\W_]+")
# Transcripts of earlier versions hold a file's words in the same block as the sender's.
_ATTACHED = re.compile(r"^\[attachment .* bytes; this is its text", re.MULTILINE)
_OTHERS = re.compile(r'"saidBy":\s*"(?!owner"|assistant")')
_OF_SESSIONS = re.compile(r'"source":\s*"sessions"')
# A piece of a line has not the key of the line, so nobody can tell whose it is.
_CUT = re.compile(r'more characters; go on with from=\d+, char=|"truncated":\s*true')


class _Said(Record):
    """What a person said in one message."""

    entry_id: str
    sender: str
    text: str

    @cached_property
    def words(self) -> str:
        """Its words in their order, folded, with a blank around each."""
        return _words(self.text)


class Voices:
    """Who was heard in a session, on all of its branches; kept up to date while it grows.

    A summary takes no voice away: what it was made of stands in the transcript. `tools` gave something from
    outside, `people` have an id, `note_keys` are lines of notes that were shown. `are_latest`: others were
    heard since the latest message, or with it; `latest_keys` are the lines shown since then.
    """

    def __init__(self) -> None:
        self._seen = 0
        self.tools: dict[str, None] = {}
        self.people: dict[str, None] = {}
        self.note_keys: set[str] = set()
        self.latest_keys: set[str] = set()
        self.has_others = False
        self.are_latest = False
        self.of_sub_agent = False
        self.is_owners_task = False
        self.recent: deque[_Said] = deque(maxlen=MOST_RECENT)
        self.turn_began_at = ""
        self.newest = ""

    def follow(self, entries: Sequence[Entry]) -> None:
        """Takes what is new of a session's entries, in the order of the file."""
        fresh, self._seen = entries[self._seen :], len(entries)
        for entry in fresh:
            self._take(entry)

    def who_said(self, line: str) -> _Said | None:
        """The newest message of a person that has the words of a line in their order."""
        words = _words(line)
        if not words.strip():
            return None
        return next((said for said in reversed(self.recent) if words in said.words), None)

    def is_latest_message(self, line: str) -> bool:
        """Whether the latest message has these very words, and nobody else was heard since, or in it."""
        words = _words(line)
        has_words = bool(words.strip()) and bool(self.recent) and words in self.recent[-1].words
        return has_words and not self.are_latest and not self.of_sub_agent

    def _take(self, entry: Entry) -> None:
        self.newest = entry.id
        match entry.body:
            case UserMessage() as message:
                self._hear(entry.id, message)
            case ToolResultMessage() as result if result.tool_name not in NOTE_TOOLS:
                self._hear_tool(result.tool_name)
            case ToolResultMessage() as result:
                self._show(message_text(result))
            case AssistantMessage() as message if any(
                isinstance(call, ToolCall) and "char" in call.arguments for call in message.content
            ):
                self._hear_other(PARTS)
            case CustomMessage(content=content):
                self._show(content)
            case CustomRecord(custom_type=kind, data=data) if kind == SUB_AGENT_ENTRY:
                self.of_sub_agent = True
                self.is_owners_task = isinstance(data, Mapping) and data.get("isOwnersTask") is True
            case CustomRecord(custom_type=kind) if kind == IMPORT_ENTRY:
                self._hear_other(IMPORTED)
            case _:
                pass

    def _hear_tool(self, name: str) -> None:
        self.tools[name] = None
        self.are_latest = True

    def _hear_other(self, name: str) -> None:
        self.people[name] = None
        self.has_others = self.are_latest = True

    def _hear(self, entry_id: str, message: UserMessage) -> None:
        text = message.own_text
        self.turn_began_at = entry_id
        self.are_latest = False
        self.latest_keys.clear()
        for speaker in message.foreign_speakers:
            self._hear_tool(speaker) if speaker == ATTACHMENT else self._hear_other(speaker)
        if any(isinstance(block, Image) for block in message.content):
            self._hear_tool(ATTACHMENT)
        if attached := _ATTACHED.search(text):
            self._hear_tool(ATTACHMENT)
            text = text[: attached.start()]
        if message.sender:
            self.people[message.sender] = None
        self.recent.append(_Said(entry_id=entry_id, sender=message.sender, text=text))

    def _show(self, text: str) -> None:
        if FOREIGN_MARK in text or _OTHERS.search(text):
            self.has_others = self.are_latest = True
        if _OF_SESSIONS.search(text):
            self._hear_other(CONVERSATION)
        if _CUT.search(text):
            self._hear_other(PARTS)
        lines = list(_shown_lines(text))
        # Many notes have the same headings, so they say nothing where other lines were shown.
        own = [line for line in lines if line_key(line) and not line.lstrip(" >").startswith("#")]
        keys = {key for line in own or lines if (key := line_key(line))}
        self.note_keys |= keys
        self.latest_keys |= keys


class SessionSources(Record):
    """What gives the lines of one session their sources, and notes them in `sources`.

    `voices` are up to date when they are given, `chat` is the session's chat in words. `owner_id` is the
    owner's id in a chat that is not private and in which the owner is speaking.
    """

    sources: Sources
    voices: Callable[[], Voices]
    policy: ChatPolicy
    session_key: str
    session_id: str
    chat: str
    now: Clock
    owner_id: str = ""
    waits: Callable[[WaitsForReview], None] = lambda _waiting: None

    def workspace(
        self,
        workspace: Workspace,
        written_by: Writer,
        *,
        entry_ids: Callable[[], tuple[str, ...]] = tuple,
        words_of: Callable[[str], str] = str,
        is_approved: bool = False,
    ) -> Workspace:
        """The workspace for a writer of this session.

        `entry_ids` are the first and last that it writes of; without them those of the present turn.
        `words_of` gives what somebody may have said on a line. `is_approved` is as of `SourcedWorkspace`.
        """

        async def begin() -> SourceOf:
            source_of = await self.begin(written_by, entry_ids())
            return lambda line: source_of(words_of(line))

        return SourcedWorkspace(
            workspace,
            self.sources,
            begin,
            is_approved=is_approved,
            is_owners_line=lambda line: self._has_owner_just_said(words_of(line)),
            waits=self.waits,
        )

    async def _has_owner_just_said(self, line: str) -> bool:
        voices = self.voices()
        if not voices.is_latest_message(line):
            return False
        is_owner = self.policy.is_private or voices.recent[-1].sender == self.owner_id != ""
        if not is_owner:
            return False
        return not await self.sources.others_keys(tuple(voices.latest_keys))

    async def others_behind(self, text: str) -> str:
        """Who besides the owner may have a wish in `text`, which a model worded; empty where nobody has."""
        source = (await self.begin("tool"))("")
        lines = filter(str.strip, text.splitlines())
        if source.is_owners_word or all([await self._has_owner_just_said(line) for line in lines]):
            return ""
        return names_of_others((source,)) or "others"

    async def of_tool(self, name: str) -> SourceOf:
        """As `begin`, of lines that the tool of this name has written into a note by itself."""
        source_of = await self.begin("tool")

        def written(line: str) -> Source:
            source = source_of(line)
            if source.said_by == ("owner",):
                return source
            said_by: tuple[Speaker, ...] = tuple(dict.fromkeys((*source.said_by, "tool")))
            names = tuple(dict.fromkeys((*source.names, name)))
            return replace(source, said_by=said_by, names=names[-MOST_NAMES:])

        return written

    async def begin(self, written_by: Writer, entry_ids: tuple[str, ...] = ()) -> SourceOf:
        """What says where a line comes from that this session is about to write.

        It is one person's word if a message of theirs has these words in their order. Else it may be the word
        of all that were heard, tools and quoted notes too: a model can put anybody's words into anybody's
        mouth.
        """
        voices = self.voices()
        has_others = voices.has_others or await self.sources.others_keys(tuple(voices.note_keys))
        person: Speaker = "owner" if self.policy.is_private else "others"
        if voices.of_sub_agent:
            person = "assistant" if voices.is_owners_task and self.policy.is_private else "unknown"
        everybody: list[Speaker] = list(dict.fromkeys((person, "assistant")))
        everybody += ["tool"] if voices.tools else []
        everybody += ["others"] if has_others and person != "others" else []
        source = Source(
            written_by=written_by,
            audience=PRIVATE if self.policy.is_private else self.policy.notes_folder or PRIVATE,
            said_by=tuple(everybody),
            names=(*voices.people, *voices.tools)[-MOST_NAMES:],
            session_key=self.session_key,
            session_id=self.session_id,
            entry_ids=entry_ids or _range(voices.turn_began_at, voices.newest),
            chat=self.chat,
            at=self.now().isoformat(timespec="seconds"),
        )

        def source_of(line: str) -> Source:
            said = None if voices.of_sub_agent else voices.who_said(line)
            if said is None:
                return source
            names = (said.sender,) if said.sender else ()
            return replace(source, said_by=(person,), names=names, entry_ids=(said.entry_id,))

        return source_of


def _range(first: str, last: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (first, last))))


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _shown_lines(text: str) -> Iterator[str]:
    """The lines of notes in a tool's result, which may be JSON with notes in it."""
    try:
        found = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        found = None
    if found is None:
        yield from text.splitlines()
        return
    waiting = [found]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from value.splitlines()
        elif isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)
