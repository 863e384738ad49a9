"""What the page shows of one agent: its sessions, its notes, and their git history."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, FoundNote
from nacre.memory.contracts.records import Question, SearchReport
from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.commits import commit_changes, known_sources
from nacre.memory.workspace.history.repository import NO_HISTORY, Repository
from nacre.memory.workspace.history.undo import (
    Commit,
    CommitUnknown,
    UndoConflict,
    commits,
    named,
    shown,
    undo,
)
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, UserMessage, message_text
from nacre.sessions.entries.entries import StoredTranscript
from nacre.sessions.upkeep.stored_session import StoredSession, find_session

MOST_FOUND = 50
_AROUND_CHARS = 80
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


class FoundSession(Record):
    session: StoredSession
    words: str


class PageHome:
    def __init__(self, agent: Agent, config: Config, now: Clock) -> None:
        self.agent, self.config, self.now = agent, config, now
        self.workspace = storage_of(config).workspace()
        self.store = storage_of(config).sessions(now=now, new_id=random_id)
        paths = config.settings.agent.memory_search.extra_paths
        self.notes = NoteFiles(self.workspace, paths)
        self._engine: MemoryEngine | None = None
        self._opening = asyncio.Lock()

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
        return found, await self.store.stored(found) if found.transcript else None

    async def last_words(self, sessions: list[StoredSession]) -> dict[str, str]:
        """A person's last message, by session ID."""
        found = await self.store.last_messages(sessions, most=len(sessions))
        return {session.session_id: words for session, words in found}

    async def sessions_with(self, words: str) -> list[FoundSession]:
        """Up to `MOST_FOUND` sessions that contain these words, the latest first."""
        found: list[FoundSession] = []
        for session in await self.sessions():
            try:
                transcript = await self.store.stored(session)
            except SessionError:
                continue  # an unreadable session must not hide the others
            passage = await asyncio.to_thread(_passage_with, transcript, words.casefold())
            if passage:
                found.append(FoundSession(session=session, words=passage))
            if len(found) >= MOST_FOUND:
                break
        return found

    async def list_notes(self) -> tuple[FoundNote, ...]:
        return (await self.notes.listing()).notes

    async def note(self, path: str) -> OpenNote:
        """A note. Raises `ReadRefused`, `OSError` or `PathOutsideRoot`."""
        name = await self.notes.name_of(path)
        try:
            data = (await self.workspace.read(name, max_bytes=MAX_NOTE_BYTES)).data
        except FileNotFoundError:
            return OpenNote(name=name, text="", stamp="")
        try:
            return OpenNote(name=name, text=data.decode(), stamp=stamp_of(data))
        except UnicodeDecodeError:
            return OpenNote(name=name, text=data.decode("utf-8", "replace"), stamp="", is_text=False)

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


def _passage_with(transcript: StoredTranscript, folded: str) -> str:
    for entry in reversed(transcript.entries):
        if isinstance(entry.body, UserMessage | AssistantMessage):
            text = " ".join(message_text(entry.body).split())
            position = text.casefold().find(folded)
            if position >= 0:
                start = max(0, position - _AROUND_CHARS)
                return ("…" if start else "") + text[start : position + len(folded) + _AROUND_CHARS]
    return ""


class HistoryUnusable(Exception):
    """There is no history, or git failed; the message is a sentence."""


class NoteCommit(Record):
    """A commit with its diff. `is_undone` says that a later commit undid it."""

    commit: Commit
    diff: str
    is_undone: bool


def latest_commits(config: Config, *, most: int = MOST_COMMITS) -> tuple[NoteCommit, ...]:
    """The latest commits of the notes and their diffs, the newest first. Blocks. Raises `HistoryUnusable`."""

    def read_commits(repository: Repository) -> tuple[NoteCommit, ...]:
        known = commits(repository)
        undone = {each.undoes for each in known}
        return tuple(
            NoteCommit(commit=each, diff=shown(repository, each.commit), is_undone=each.commit in undone)
            for each in known[:most]
        )

    return _with_repository(config, read_commits)


def undo_commit(config: Config, commit: str) -> str:
    """Undoes a commit with another commit and returns a sentence about it. Blocks. Raises `HistoryUnusable`.

    Manual changes since then are committed first and stay.
    """

    def undo_in(repository: Repository) -> str:
        with repository.opened():
            sources = Sources(storage_of(config).workspace())
            commit_changes(repository, known_sources(sources))
            name = named(repository, commit)
            _made, paths = undo(repository, name)
        return f"Undid {name[:12]} in {', '.join(paths)}."

    return _with_repository(config, undo_in)


def _with_repository(config: Config, action: Callable[[Repository], T]) -> T:
    workspace = storage_of(config).workspace()
    if workspace.folder is None:
        raise HistoryUnusable(f"{workspace.place} stores the notes; a git history needs files.")
    repository = Repository(workspace.folder, state_dir=config.state_dir)
    try:
        if not repository.is_there:
            raise HistoryUnusable(f"{workspace.place} has no history yet. {NO_HISTORY}")
        repository.read()
        return action(repository)
    except (GitFailed, FileBusy, OSError, CommitUnknown, UndoConflict) as error:
        raise HistoryUnusable(str(error)) from error
