"""An overview of what an agent knows: notes, topics, facts, new lines, waiting writes and contradictions.

It is computed from the notes, their sources, the review queue and the transcripts; nothing is stored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from io import BytesIO

from nacre.closing import using
from nacre.memory.contracts.notes import CHATS_FOLDER, MAX_NOTE_BYTES
from nacre.memory.files.file_reader import without_template
from nacre.memory.files.note_files import NoteFiles, content_lines
from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.text.chunker import day_in, day_in_path
from nacre.memory.text.claims import Claim, has_other_value
from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.markdown_blocks import HEADING, ITEM, outline, prose_lines
from nacre.memory.workspace.workspace import REMINDERS, daily_log_path
from nacre.record import Record
from nacre.runtime.agent.insight.model_facts import workspace_files
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.memory_core import MEMORY_TOOL_NAMES
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import open_sessions, review_queue, storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from nacre.sessions.disk.json_text import read_lines
from nacre.sessions.entries.entries import entry_from_json

WEEK = timedelta(days=7)
CURATED = "MEMORY.md"
MOST_TRANSCRIPT_BYTES = 256_000_000
"""How much of the transcripts, newest first, is searched for recalled notes."""

_PATH = re.compile(r'"path":\s*("(?:[^"\\]|\\.)*")')
_OPEN = re.compile(r"\s*[-*+]\s+\[ \]\s")
_ASKS = "?？؟"
"""Lines that end with one of these are the questions that a flush puts below its notes."""
_STRUCK = "~~"
"""A line that is struck through no longer holds."""
_GENERAL_HEADINGS = frozenset(
    ("facts", "preferences", "decisions", "people", "lessons", "retain", "notes", "log", "memory")
) | {"asked to remember", "notes of the conversation", "reminders"}
"""Headings that say what kind of lines follow, not their subject."""
_WORD = re.compile(r"\w+")


class NoteLine(Record):
    """A line of a note without its list mark. `number` counts from 1; `day` is `None` if it is unknown."""

    path: str
    number: int
    text: str
    day: date | None


class Topic(Record):
    """A note without a day, such as MEMORY.md or a page about one subject, and its number of lines."""

    path: str
    lines: int


class Contradiction(Record):
    """Lines that give one thing different values, the latest first; lines of unknown days come last."""

    thing: str
    lines: tuple[NoteLine, ...]


class WaitingNote(Record):
    """A write that waits for the owner, with the first words of what it adds."""

    id: str
    path: str
    text: str


class MemoryOverview(Record):
    """What an agent knows.

    `logs` counts the notes with a day, from `first_day` to `last_day`; `chat_notes` those of chats with
    others, which count nowhere else. `facts` counts the lines of `topics` that give something a value,
    `reminders` the lines that wait for a topic. `learned` are the lines of the last seven days, newest first.
    `older` counts the notes from before; no memory tool returned the `unrecalled` ones of them in the
    transcripts since `recalled_since`, or in any transcript if that is `None`. MEMORY.md has `memory_chars`
    characters; at most `most_memory_chars` of them are sent to the model.
    """

    logs: int
    first_day: date | None
    last_day: date | None
    topics: tuple[Topic, ...]
    chat_notes: int
    facts: int
    reminders: int
    learned: tuple[NoteLine, ...]
    waiting: tuple[WaitingNote, ...]
    contradictions: tuple[Contradiction, ...]
    unrecalled: tuple[str, ...]
    older: int
    recalled_since: date | None
    memory_chars: int
    most_memory_chars: int

    @property
    def notes(self) -> int:
        return self.logs + len(self.topics) + self.chat_notes


async def memory_overview(config: Config, now: Clock) -> MemoryOverview:
    """Reads the notes, the review queue and the transcripts of an agent.

    Raises:
        OSError, FileBusy: the workspace or the review queue cannot be read.
        SessionError: the list of sessions cannot be read.
    """
    agent, today = config.settings.agent, now().date()
    workspace = storage_of(config).workspace()
    listed = await NoteFiles(workspace, agent.memory_search.extra_paths).listing()
    names = [note.name for note in listed.notes]
    own = [name for name in names if not name.startswith(f"{CHATS_FOLDER}/")]
    days = {name: day for name in own if (day := day_in_path(name)) is not None}
    daily_logs = [name for name, day in days.items() if name == daily_log_path(day)]
    undated = [name for name in own if name not in days]
    texts = await workspace.read_many([*undated, *daily_logs], max_bytes=MAX_NOTE_BYTES)
    lines = {
        name: without_template(name, content_lines(read.data))
        for name, read in texts.items()
        if not isinstance(read, Exception)
    }
    reminders = lines.pop(REMINDERS, ())
    text_lines = {path: sum(bool(line.strip()) for line in lines.get(path, ())) for path in undated}
    sources = await Sources(workspace).of_notes(list(lines.items()))
    statements = await asyncio.to_thread(_statements, lines, sources, days)
    recalled, recalled_since = await _recalled(config, now)
    older = [name for name, day in days.items() if day <= today - WEEK]
    curated = next((file for file in await workspace_files(config, now) if file.name == CURATED), None)
    return MemoryOverview(
        logs=len(days),
        first_day=min(days.values(), default=None),
        last_day=max(days.values(), default=None),
        topics=tuple(Topic(path=path, lines=count) for path, count in text_lines.items() if count),
        chat_notes=len(names) - len(own),
        facts=sum(bool(each.claim.values) for each in statements if each.line.path not in days),
        reminders=sum(_OPEN.match(line) is not None for line in reminders),
        learned=_learned([each.line for each in statements], today),
        waiting=tuple(
            WaitingNote(id=each.id, path=each.write.path, text=_first_line(each.write.text or ""))
            for each in await review_queue(config).waiting()
        ),
        contradictions=await asyncio.to_thread(_contradictions, statements, days.keys()),
        unrecalled=tuple(sorted(set(older) - recalled)),
        older=len(older),
        recalled_since=recalled_since,
        memory_chars=curated.raw_chars if curated else 0,
        most_memory_chars=agent.bootstrap_max_chars,
    )


def _learned(lines: Iterable[NoteLine], today: date) -> tuple[NoteLine, ...]:
    """The lines of the last seven days without the questions, newest first."""
    dated = [(line.day, line) for line in lines if line.day and line.text[-1] not in _ASKS]
    new = [(day, line) for day, line in dated if today - WEEK < day <= today]
    return tuple(line for _, line in sorted(new, key=lambda each: each[0], reverse=True))


class _Statement(Record):
    line: NoteLine
    claim: Claim
    subject: tuple[str, ...]


def _statements(
    notes: Mapping[str, Sequence[str]],
    sources: Sequence[Sequence[Source | None]],
    days: Mapping[str, date],
) -> list[_Statement]:
    found: list[_Statement] = []
    for (path, lines), its in zip(notes.items(), sources, strict=True):
        headings = outline(lines).headings
        page = () if path in days or path == CURATED else (fold(path.rpartition("/")[2].removesuffix(".md")),)
        for at in prose_lines(lines):
            if not any(map(str.isalnum, lines[at])):
                continue
            item = ITEM.match(lines[at])
            text = (lines[at][item.end() :] if item else lines[at]).strip()
            above = headings.path_over(at, at)
            stored = its[at]
            day = day_in(stored.at) if stored is not None else None
            line = NoteLine(path=path, number=at + 1, text=text, day=days.get(path, day))
            subject = tuple(
                name
                for heading in above
                if day_in(heading) is None and (name := fold(heading)) not in _GENERAL_HEADINGS
            )
            found.append(_Statement(line=line, claim=Claim(text), subject=page + subject))
    return found


def _contradictions(statements: Sequence[_Statement], dated: Container[str]) -> tuple[Contradiction, ...]:
    """Values of one thing that differ between two topics, or between a topic and a later log.

    An earlier log says what was true then, and two logs show a change.
    """
    things: dict[tuple[tuple[str, ...], tuple[str, ...]], list[_Statement]] = {}
    for each in statements:
        if each.line.path not in dated and _states(each):
            for thing in each.claim.values:
                things.setdefault((each.subject, thing), []).append(each)
    known_until = {key: max(each.line.day or date.min for each in group) for key, group in things.items()}
    words = {word for _, thing in things for word in thing[:1]}
    for each in statements:
        day = each.line.day
        if each.line.path not in dated or day is None or not (_may_name(each, words) and _states(each)):
            continue
        for thing in each.claim.values:
            key = (each.subject, thing)
            if key in things and day > known_until[key]:
                things[key].append(each)
    found: list[Contradiction] = []
    for (_, thing), group in things.items():
        first, *others = sorted(group, key=lambda each: each.line.day or date.min, reverse=True)
        differ = [each for each in others if has_other_value(first.claim, each.claim)]
        if differ:
            lines = tuple(each.line for each in (first, *differ))
            found.append(Contradiction(thing=" ".join(thing), lines=lines))
    return tuple(found)


def _states(each: _Statement) -> bool:
    return _STRUCK not in each.line.text and each.claim.is_statement


def _may_name(each: _Statement, words: Container[str]) -> bool:
    return any(word in words for word in _WORD.findall(fold(each.line.text)))


def _first_line(text: str) -> str:
    lines = (line.strip().lstrip("-* ") for line in text.splitlines() if not HEADING.match(line))
    return next(filter(None, lines), "")


async def _recalled(config: Config, now: Clock) -> tuple[frozenset[str], date | None]:
    """The notes that memory tools returned, and since when; `None` if all transcripts were read."""
    found: set[str] = set()
    left_bytes, since = MOST_TRANSCRIPT_BYTES, None
    async with using(open_sessions(config, now)) as store:
        sessions = [each for each in await store.sessions(with_earlier=True) if each.transcript]
        for session in sorted(sessions, key=lambda each: each.active_at_ms, reverse=True):
            left_bytes -= session.size_bytes or 0
            if left_bytes < 0:
                return frozenset(found), since
            since = datetime.fromtimestamp(session.active_at_ms / 1000, now().tzinfo).date()
            with suppress(SessionError):  # a transcript that cannot be read says nothing
                data = await store.exported(session.transcript)
                found |= await asyncio.to_thread(_paths_in, data)
    return frozenset(found), None


def _paths_in(transcript: bytes) -> set[str]:
    names = [name.encode() for name in MEMORY_TOOL_NAMES]
    lines = b"\n".join(line for line in transcript.split(b"\n") if any(name in line for name in names))
    found: set[str] = set()
    for line in read_lines(BytesIO(lines)):
        body = entry_from_json(line.value).body if line.value is not None else None
        if isinstance(body, ToolResultMessage) and body.tool_name in MEMORY_TOOL_NAMES and not body.is_error:
            found.update(json.loads(path) for path in _PATH.findall(message_text(body)))
    return found
