"""The data of one agent that the page shows: its sessions, its notes, and their git history."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from itertools import count
from typing import TypeVar

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, FoundNote
from nacre.memory.contracts.records import Question, SearchReport
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.files.sources.source import source_text
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.history.commits import known_sources
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.undo import (
    Commit,
    commits,
    line_origins,
    named,
    shown,
    undo_in,
    undo_line,
    with_history,
)
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock, random_id
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import open_sessions, storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.json_text import read_lines
from nacre.sessions.entries.entries import StoredTranscript, entry_from_json
from nacre.sessions.upkeep.stored_session import StoredSession, find_session

_MOST_TITLE_CHARS = 80
_NEW_NAME = re.compile(r"\d{4}-[0-9a-z]{6}")
_MOST_TITLE_BYTES = 8_000_000
T = TypeVar("T")
MOST_COMMITS = 30


class NoteChanged(Exception):
    """The note has changed since it was shown. `now` is its current text, and `stamp` the stamp of that."""

    def __init__(self, name: str, now: str, stamp: str) -> None:
        super().__init__(f"{name} was changed since it was opened here. Nothing was written.")
        self.now, self.stamp = now, stamp


class OpenNote(Record):
    """A note, and the stamp that a change of it must present; notes that are not UTF-8 cannot be changed."""

    name: str
    text: str
    stamp: str
    is_text: bool = True


class PageHome:
    def __init__(self, agent: Agent, config: Config, now: Clock) -> None:
        self.agent, self.config, self.now = agent, config, now
        self.workspace = storage_of(config).workspace()
        self.store = open_sessions(config, now)
        paths = config.settings.agent.memory_search.extra_paths
        self.notes = NoteFiles(self.workspace, paths)
        self._engine: MemoryEngine | None = None
        self._titles: dict[str, str] = {}
        self._opening = asyncio.Lock()

    def new_name(self) -> str:
        """A generated name for a conversation."""
        return f"{self.now():%m%d}-{random_id().replace('-', '')[:6]}"

    @property
    def main_key(self) -> str:
        return self.config.settings.session.main_key

    async def close(self) -> None:
        """Closes the stores, but not the agent."""
        if self._engine is not None:
            await self._engine.close()
        await self.store.close()

    async def sessions(self) -> list[StoredSession]:
        """All sessions, the most recently active first. Raises `SessionError`."""
        return await self.store.sessions(with_earlier=True)

    async def session(self, name: str) -> tuple[StoredSession, StoredTranscript | None]:
        """A session by key or ID, with its transcript if it has one. Raises `SessionNotFound`."""
        found = find_session(
            await self.sessions(), name, agent_id=self.config.agent_id, main_key=self.main_key
        )
        is_written = bool(found.transcript) and found.size_bytes is not None  # with its first message
        return found, await self.store.stored(found) if is_written else None

    async def last_words(self, sessions: list[StoredSession]) -> dict[str, str]:
        """A person's last message, by session ID."""
        found = await self.store.last_messages(sessions, most=len(sessions))
        return {session.session_id: words for session, words in found}

    async def titles(self, sessions: Sequence[StoredSession]) -> dict[str, str]:
        """The titles of sessions by session ID: their own name, or a person's first message.

        A transcript that takes long to read gets a person's last message instead.
        """
        unread = [each for each in sessions if each.transcript and each.session_id not in self._titles]
        long = [each for each in unread if (each.size_bytes or 0) > _MOST_TITLE_BYTES]
        self._titles.update({name: _title(words) for name, words in (await self.last_words(long)).items()})
        for session in unread:
            if session.session_id not in self._titles:
                with suppress(SessionError):
                    data = await self.store.exported(session.transcript)
                    if title := _title(await asyncio.to_thread(_first_words, data)):
                        self._titles[session.session_id] = title
        return {each.session_id: self._title_of(each) for each in sessions}

    def _title_of(self, session: StoredSession) -> str:
        record = session.record
        name = record.label or record.display_name or self._titles.get(session.session_id, "")
        key = session.key.removeprefix(f"agent:{self.config.agent_id}:").removeprefix("direct:")
        return name or ("New conversation" if _NEW_NAME.fullmatch(key) else key)

    async def list_notes(self) -> tuple[FoundNote, ...]:
        return (await self.notes.listing()).notes

    async def note_texts(self, names: Sequence[str]) -> dict[str, str]:
        """The texts of these notes; those that cannot be read are left out."""
        found = await self.workspace.read_many(names, max_bytes=MAX_NOTE_BYTES)
        return {name: read.text for name, read in found.items() if not isinstance(read, Exception)}

    async def note(self, path: str) -> OpenNote:
        """A note. Raises `ReadRefused`, `OSError` or `PathOutsideRoot`."""
        name = await self.notes.name_of(path)
        try:
            found = await self.workspace.read(name, max_bytes=MAX_NOTE_BYTES)
        except FileNotFoundError:
            return OpenNote(name=name, text="", stamp="")
        try:
            return OpenNote(name=name, text=found.data.decode(), stamp=stamp_of(found.data))
        except UnicodeDecodeError:
            return OpenNote(name=name, text=found.text, stamp="", is_text=False)

    async def write_note(self, path: str, text: str, stamp: str) -> None:
        """Writes a note if it has not changed since it was shown.

        Raises:
            NoteChanged: it has changed; nothing was written.
            ReadRefused, OSError, FileBusy, PathOutsideRoot: it cannot be written.
        """
        name = await self.notes.name_of(path)
        await self.workspace.change(name, _replacing(name, text, stamp))
        self.notes_changed()

    def notes_changed(self) -> None:
        """Makes the next search look for changes."""
        if self._engine is not None:
            self._engine.mark_dirty()

    async def search(self, query: str) -> SearchReport | None:
        """Searches the index; `None` if search is disabled. Raises `MemoryIndexError`."""
        async with self._opening:
            if self._engine is None:
                self._engine = await open_memory(self.config, self.now)
        question = Question(text=query, max_results=20, explain=True)
        return await self._engine.search(question) if self._engine else None

    def moment(self, ms: int) -> datetime:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self.now().tzinfo)


def stamp_of(data: bytes | None) -> str:
    """Identifies a text; empty for a note that does not exist."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _replacing(name: str, text: str, stamp: str) -> Callable[[bytes | None], bytes | None]:
    new = text.replace("\r\n", "\n").encode()

    def change(old: bytes | None) -> bytes | None:
        if stamp_of(old) != stamp:
            raise NoteChanged(name, (old or b"").decode("utf-8", "replace"), stamp_of(old))
        if old is not None and b"\r\n" in old:
            return new.replace(b"\n", b"\r\n")
        return new

    return change


def _first_words(data: bytes) -> str:
    """The first message of a person in a transcript."""
    for line in read_lines(BytesIO(data)):
        body = entry_from_json(line.value).body if line.value is not None else None
        if isinstance(body, UserMessage) and (words := message_text(body).strip()):
            return words
    return ""


def _title(words: str) -> str:
    line = next((line for line in words.splitlines() if line.strip(" #>*-`\t")), "")
    line = " ".join(line.strip(" #>*-`\t").split())
    return line if len(line) <= _MOST_TITLE_CHARS else line[: _MOST_TITLE_CHARS - 1].rstrip() + "…"


class NoteCommit(Record):
    """A commit with its diff. `is_undone` says that a later commit undid it."""

    commit: Commit
    diff: str
    is_undone: bool


class LineHistory(Record):
    """Where a line of a note comes from. `source` is a clause, and empty for a line written by hand.

    `commit` and its time `at` are `None` if the line is in no commit yet; `replaced` has the lines that it
    replaced.
    """

    number: int
    text: str
    commit: Commit | None
    at: datetime | None
    replaced: str
    source: str


def latest_commits(
    config: Config, *, skip: int = 0, most: int = MOST_COMMITS
) -> tuple[tuple[NoteCommit, ...], bool]:
    """Commits of the notes with their diffs, the newest first, and whether there are older ones.

    Blocks. Raises `HistoryUnusable`.
    """

    def read_commits(repository: Repository) -> tuple[tuple[NoteCommit, ...], bool]:
        known = commits(repository)
        undone = {each.undoes for each in known}
        found = tuple(
            NoteCommit(commit=each, diff=shown(repository, each.commit), is_undone=each.commit in undone)
            for each in known[skip : skip + most]
        )
        return found, len(known) > skip + most

    return _with_history(config, read_commits)


def line_history(config: Config, name: str, text: str, zone: tzinfo | None) -> list[LineHistory]:
    """The history of each line of a note; none if the note has changed since `text` was read.

    Blocks. Raises `HistoryUnusable`.
    """
    lines = text.splitlines()
    sources = known_sources(Sources(storage_of(config).workspace()))([(name, lines)])[0]

    def read_lines(repository: Repository) -> list[LineHistory]:
        known = {each.commit: each for each in commits(repository, name)}
        origins = line_origins(repository, name)
        if len(origins) != len(lines):
            return []
        found = []
        for number, line, origin, source in zip(count(1), lines, origins, sources, strict=False):
            commit = known.get(origin.commit) if origin else None
            if line.strip():
                found.append(
                    LineHistory(
                        number=number,
                        text=line,
                        commit=commit,
                        at=datetime.fromisoformat(commit.at).astimezone(zone) if commit else None,
                        replaced="".join(origin.replaced) if origin else "",
                        source=source_text(source) if source else "",
                    )
                )
        return found

    return _with_history(config, read_lines)


def undo_commit(config: Config, commit: str) -> str:
    """Undoes a commit with another commit and returns a sentence about it. Blocks. Raises `HistoryUnusable`.

    Manual changes since then are committed first and stay.
    """
    done = _with_history(config, lambda repository: undo_in(repository, commit), commits=True)
    return f"Undid {done.undone[:12]} in {', '.join(done.paths)}."


def undo_note_line(config: Config, name: str, number: int, commit: str) -> str:
    """Undoes what a commit changed in line `number` of a note, counted from 1. Returns a sentence.

    Blocks. Raises `HistoryUnusable`.
    """
    made = _with_history(
        config,
        lambda repository: undo_line(repository, name, number - 1, named(repository, commit)),
        commits=True,
    )
    return f"Line {number} is as it was before {commit[:7]}. The change is {made[:7]} in the timeline."


def _with_history(config: Config, action: Callable[[Repository], T], *, commits: bool = False) -> T:
    return with_history(storage_of(config).workspace(), config.state_dir, action, commits=commits)
