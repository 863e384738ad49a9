"""Attributes the lines that a session writes to notes: who spoke in it, and who said a line."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview, names_of_others
from nacre.memory.files.sources.rejections import rejected_lines
from nacre.memory.files.sources.source import (
    NOT_THE_OWNERS,
    PRIVATE,
    Source,
    Speaker,
    Writer,
    restated,
    stems_of,
)
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources, line_key
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.sessions.contracts.messages import (
    ATTACHMENT,
    AssistantMessage,
    Image,
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
"""Nacre's own tools, whose results are notes. A note records its own author."""
FOREIGN_MARK = NOT_THE_OWNERS
"""The mark for words that are not the owner's in the results of these tools."""
IMPORT_ENTRY = "nacre.import"
"""The entry of an imported transcript, with the `source` program and the `id` there."""
IMPORTED, CONVERSATION, PARTS = "imported conversation", "earlier conversation", "part of a long line"
"""Names for words with an unknown author."""
SUB_AGENT_ENTRY = "nacre.sub_agent"
"""The entry that marks a sub-agent's transcript, whose user messages are the assistant's words."""

MOST_RECENT = 400
"""The number of recent messages that are searched for the author of a line."""
MOST_NAMES = 12
MOST_WORDS = 20_000
"""How many different words of tool results are kept for a session."""

_WORD = re.compile(r"[^\W_]+")
# Transcripts of earlier versions have a file's text in the same block as the sender's.
_ATTACHED = re.compile(r"^\[attachment .* bytes; this is its text", re.MULTILINE)
_OTHERS = re.compile(r'"saidBy":\s*"(?!owner"|assistant")')
_OF_SESSIONS = re.compile(r'"source":\s*"sessions"')
# A part of a line does not have the line's key, so its author is unknown.
_CUT = re.compile(r'more characters; go on with from=\d+, char=|"truncated":\s*true')


class _UserText(Record):
    entry_id: str
    sender: str
    text: str

    @cached_property
    def words(self) -> str:
        """The words in order, case-folded, with a space around each."""
        return _words(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems_of(self.text)


class SpeakerLog:
    """Who spoke in a session, on all of its branches, updated incrementally.

    A summary removes no speaker, because the transcript keeps its messages. `tools` returned text from
    outside, `people` are the ids of senders, and `note_keys` are the keys of shown lines of notes.
    `has_newer_speakers` means that others spoke since the latest message or in it; `latest_keys` are the
    keys of lines shown since then. `tool_words` are the words of the tools' results, or `None` if there are
    other foreign words.
    """

    def __init__(self) -> None:
        self._seen = 0
        self.tools: dict[str, None] = {}
        self.people: dict[str, None] = {}
        self.note_keys: set[str] = set()
        self.latest_keys: set[str] = set()
        self.has_others = False
        self.tool_words: set[str] | None = set()
        self.has_newer_speakers = False
        self.is_sub_agent = False
        self.is_owners_task = False
        self.recent: deque[_UserText] = deque(maxlen=MOST_RECENT)
        self.turn_start = ""
        self.newest = ""

    def follow(self, entries: Sequence[Entry]) -> None:
        """Reads the new entries of a session, in the order of the file."""
        fresh, self._seen = entries[self._seen :], len(entries)
        for entry in fresh:
            self._add(entry)

    def find_message(self, line: str) -> _UserText | None:
        """The newest message of a person that contains the words of a line in order."""
        words = _words(line)
        if not words.strip():
            return None
        return next((said for said in reversed(self.recent) if words in said.words), None)

    def likely_message(self, line: str) -> _UserText | None:
        """The message that shares the most significant words with a line: at least half of them and two."""
        stems = stems_of(line)
        counts = [len(stems & said.stems) for said in self.recent]
        most = max(counts, default=0)
        is_clear = most >= max(2, len(stems) / 2) and counts.count(most) == 1
        return self.recent[counts.index(most)] if is_clear else None

    def restated_message(self, line: str) -> _UserText | None:
        """The newest message that a line states in other words, with no word that only a tool said."""
        if self.tool_words is None:
            return None
        said = [(each.text, each.stems) for each in self.recent]
        at = restated(line, said, " ".join(self.tool_words))
        return self.recent[at] if at is not None else None

    def is_latest_message(self, line: str) -> bool:
        """Whether the latest message has these words in order, and nobody else spoke since or in it."""
        words = _words(line)
        has_words = bool(words.strip()) and bool(self.recent) and words in self.recent[-1].words
        return has_words and not self.has_newer_speakers and not self.is_sub_agent

    def _add(self, entry: Entry) -> None:
        self.newest = entry.id
        match entry.body:
            case UserMessage() as message:
                self._add_message(entry.id, message)
            case ToolResultMessage() as result if result.tool_name not in NOTE_TOOLS:
                self._add_tool(result.tool_name)
                if any(isinstance(block, Image) for block in result.content):
                    self.tool_words = None
                if self.tool_words is not None:
                    self.tool_words.update(_WORD.findall(message_text(result).casefold()))
                    self.tool_words = self.tool_words if len(self.tool_words) <= MOST_WORDS else None
            case ToolResultMessage() as result:
                self._add_notes(message_text(result))
            case AssistantMessage(tool_calls=calls) if any(["char" in call.arguments for call in calls]):  # noqa: C419 - most have none
                self._add_person(PARTS)
            case CustomMessage(content=content):
                self._add_notes(content)
            case CustomRecord(custom_type=kind, data=data) if kind == SUB_AGENT_ENTRY:
                self.is_sub_agent = True
                self.is_owners_task = isinstance(data, Mapping) and data.get("isOwnersTask") is True
            case CustomRecord(custom_type=kind) if kind == IMPORT_ENTRY:
                self._add_person(IMPORTED)
            case _:
                pass

    def _add_tool(self, name: str) -> None:
        self.tools[name] = None
        self.has_newer_speakers = True

    def _add_person(self, name: str) -> None:
        self.people[name] = None
        self.has_others = self.has_newer_speakers = True

    def _add_message(self, entry_id: str, message: UserMessage) -> None:
        text = message.own_text
        self.turn_start = entry_id
        self.has_newer_speakers = False
        self.latest_keys.clear()
        if message.foreign_speakers:
            self.tool_words = None
        for speaker in message.foreign_speakers:
            self._add_tool(speaker) if speaker == ATTACHMENT else self._add_person(speaker)
        if any([isinstance(block, Image) for block in message.content]):  # noqa: C419 - much faster
            self._add_tool(ATTACHMENT)
            self.tool_words = None
        if "[attachment " in text and (attached := _ATTACHED.search(text)):
            self._add_tool(ATTACHMENT)
            self.tool_words = None
            text = text[: attached.start()]
        if message.sender:
            self.people[message.sender] = None
        self.recent.append(_UserText(entry_id=entry_id, sender=message.sender, text=text))

    def _add_notes(self, text: str) -> None:
        if FOREIGN_MARK in text or _OTHERS.search(text):
            self.has_others = self.has_newer_speakers = True
        if _OF_SESSIONS.search(text):
            self._add_person(CONVERSATION)
        if _CUT.search(text):
            self._add_person(PARTS)
        lines = list(_shown_lines(text))
        # Many notes share headings, so headings identify a note only if no other line was shown.
        own = [line for line in lines if line_key(line) and not line.lstrip(" >").startswith("#")]
        keys = {key for line in own or lines if (key := line_key(line))}
        self.note_keys |= keys
        self.latest_keys |= keys


class SessionSources(Record):
    """Attributes the lines that one session writes, and records that in `sources`.

    `speakers` returns an up-to-date log. `chat` describes the session's chat in words. `owner_id` is the
    owner's id in a chat that is not private and in which the owner is speaking.
    """

    sources: Sources
    speakers: Callable[[], SpeakerLog]
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

        `entry_ids` returns the first and the last entry that the lines are about; the default is the current
        turn. `words_of` returns the part of a line that somebody may have said.
        """

        async def begin() -> SourceOf:
            source_of = await self.begin(written_by, entry_ids())
            return lambda line: source_of(words_of(line))

        return SourcedWorkspace(
            workspace,
            self.sources,
            begin,
            is_approved=is_approved,
            is_owners_line=lambda line: self._is_from_owner(words_of(line)),
            is_owners_wish=self._asks_to_keep if written_by in ("tool", "capture") else None,
            waits=self.waits,
        )

    async def _is_from_owner(self, line: str) -> bool:
        speakers = self.speakers()
        if not speakers.is_latest_message(line):
            return False
        is_owner = self.policy.is_private or speakers.recent[-1].sender == self.owner_id != ""
        if not is_owner:
            return False
        return not await self.sources.others_keys(tuple(speakers.latest_keys))

    async def _asks_to_keep(self) -> bool:
        """Whether the owner's latest message asks to remember something, and nobody spoke since."""
        from nacre.runtime.models.offline.reading import read_intent  # compiles its patterns on first use

        text = next((said.text for said in reversed(self.speakers().recent)), "")
        return await self._is_from_owner(text) and read_intent(text).asked_to_keep

    async def is_rejected(self, text: str) -> bool:
        """Whether the owner rejected a text before and has not just asked to remember it."""
        lines = text.splitlines()
        return bool(await rejected_lines(self.sources, "", text, lines, is_wish=self._asks_to_keep))

    async def other_authors(self, text: str) -> str:
        """The names of other people who may have contributed to `text` of a model; empty if none."""
        source = (await self.begin("tool"))("")
        lines = filter(str.strip, text.splitlines())
        if source.is_owners_word or all([await self._is_from_owner(line) for line in lines]):
            return ""
        return names_of_others((source,)) or "others"

    async def of_tool(self, name: str) -> SourceOf:
        """Like `begin`, for lines that the named tool writes to a note without Nacre's tools."""
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
        """Returns a function that attributes the lines that this session is about to write.

        A line is one person's word if their message contains its words in order, and the owner's if it
        restates a message of theirs and nothing that only a tool said. Otherwise it may be the word of
        everybody who spoke, including tools and quoted notes, because a model can attribute any words to
        anybody. A line of a flush then still names the message that it is likely made from.
        """
        speakers = self.speakers()
        has_others = speakers.has_others or await self.sources.others_keys(tuple(speakers.note_keys))
        person: Speaker = "owner" if self.policy.is_private else "others"
        if speakers.is_sub_agent:
            person = "assistant" if speakers.is_owners_task and self.policy.is_private else "unknown"
        everybody: list[Speaker] = list(dict.fromkeys((person, "assistant")))
        everybody += ["tool"] if speakers.tools else []
        everybody += ["others"] if has_others and person != "others" else []
        source = Source(
            written_by=written_by,
            audience=self.policy.listeners or PRIVATE,
            said_by=tuple(everybody),
            names=(*speakers.people, *speakers.tools)[-MOST_NAMES:],
            session_key=self.session_key,
            session_id=self.session_id,
            entry_ids=entry_ids or tuple(dict.fromkeys(filter(None, (speakers.turn_start, speakers.newest)))),
            chat=self.chat,
            at=self.now().isoformat(timespec="seconds"),
        )

        may_restate = everybody == ["owner", "assistant", "tool"]

        def source_of(line: str) -> Source:
            said = None if speakers.is_sub_agent else speakers.find_message(line)
            if said is None and may_restate and (said := speakers.restated_message(line)) is not None:
                return replace(source, said_by=(person, "assistant"), names=(), entry_ids=(said.entry_id,))
            if said is None:
                likely = speakers.likely_message(line) if written_by == "flush" else None
                return replace(source, entry_ids=(likely.entry_id,)) if likely else source
            names = (said.sender,) if said.sender else ()
            return replace(source, said_by=(person,), names=names, entry_ids=(said.entry_id,))

        return source_of


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _shown_lines(text: str) -> Iterator[str]:
    """The lines of notes in a tool's result, which may be JSON that contains notes."""
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
