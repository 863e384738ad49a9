"""What the page knows of one agent: its sessions, its notes and their history. Edge: opens stores."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, FoundNote
from nacre.memory.contracts.records import SearchReport
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.records.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.opening import storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, UserMessage, message_text
from nacre.sessions.entries.entries import StoredTranscript
from nacre.sessions.upkeep.stored_session import StoredSession, find_session

MOST_FOUND = 50
_AROUND_CHARS = 80


class NoteChanged(Exception):
    """A note is not as it was when it was shown. `now` is its text, `stamp` belongs to that."""

    def __init__(self, name: str, now: str, stamp: str) -> None:
        super().__init__(f"{name} was changed since it was opened here. Nothing was written.")
        self.now, self.stamp = now, stamp


class OpenNote(Record):
    """A note's text, and the stamp that a change of it must show; none is made where it is not UTF-8."""

    name: str
    text: str
    stamp: str
    is_text: bool = True


class FoundSession(Record):
    """A session with the words in it that were looked for."""

    session: StoredSession
    words: str


class PageHome:
    """One agent as the page sees it. Close it when done."""

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
        """What the owner calls the main session."""
        return self.config.settings.session.main_key

    async def close(self) -> None:
        """Closes what was opened, and not the agent."""
        if self._engine is not None:
            await self._engine.close()
        await self.store.close()

    async def sessions(self) -> list[StoredSession]:
        """All sessions, the latest active first. Raises `SessionError`."""
        return await self.store.sessions(with_earlier=True)

    async def session(self, name: str) -> tuple[StoredSession, StoredTranscript | None]:
        """A session by key or id, and its transcript, if something was said. Raises `SessionNotFound`."""
        found = find_session(
            await self.sessions(), name, agent_id=self.config.agent_id, main_key=self.main_key
        )
        return found, await self.store.stored(found) if found.transcript else None

    async def last_words(self, sessions: list[StoredSession]) -> dict[str, str]:
        """What a person said last, by session id."""
        found = await self.store.last_words(sessions, most=len(sessions))
        return {session.session_id: words for session, words in found}

    async def sessions_with(self, words: str) -> list[FoundSession]:
        """The sessions in which these words were said, the latest first; `MOST_FOUND` at most."""
        found: list[FoundSession] = []
        for session in await self.sessions():
            try:
                transcript = await self.store.stored(session)
            except SessionError:
                continue  # one that cannot be read hides no other
            around = await asyncio.to_thread(_around, transcript, words.casefold())
            if around:
                found.append(FoundSession(session=session, words=around))
            if len(found) >= MOST_FOUND:
                break
        return found

    async def list_notes(self) -> tuple[FoundNote, ...]:
        """The notes, as the index sees them."""
        return (await self.notes.listing()).notes

    async def note(self, asked: str) -> OpenNote:
        """A note that may be shown. Raises `ReadRefused`, `OSError`, `PathOutsideRoot`."""
        name = await self.notes.name_of(asked)
        try:
            data = (await self.workspace.read(name, max_bytes=MAX_NOTE_BYTES)).data
        except FileNotFoundError:
            return OpenNote(name=name, text="", stamp="")
        try:
            return OpenNote(name=name, text=data.decode(), stamp=stamp_of(data))
        except UnicodeDecodeError:
            return OpenNote(name=name, text=data.decode("utf-8", "replace"), stamp="", is_text=False)

    async def write_note(self, asked: str, text: str, stamp: str) -> None:
        """Writes a note if it still is as it was shown.

        Raises:
            NoteChanged: it is not; nothing was written.
            ReadRefused, OSError, FileBusy, PathOutsideRoot: it may not or cannot be written.
        """
        name = await self.notes.name_of(asked)
        await self.workspace.change(name, _replacing(name, text, stamp))
        self.notes_changed()

    def notes_changed(self) -> None:
        """Has the next search look what changed."""
        if self._engine is not None:
            self._engine.mark_dirty()

    async def search(self, query: str) -> SearchReport | None:
        """What the index finds; `None` where search is off. Raises `MemoryIndexError`."""
        async with self._opening:
            if self._engine is None:
                self._engine = await open_memory(self.config, self.now)
        return await self._engine.search(query, max_results=20, explain=True) if self._engine else None

    def moment(self, ms: int) -> datetime:
        """A stored time in the owner's zone."""
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self.now().tzinfo)


def stamp_of(data: bytes | None) -> str:
    """What tells a text from another; empty for a note that is not there."""
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


def _around(transcript: StoredTranscript, folded: str) -> str:
    for entry in reversed(transcript.entries):
        if isinstance(entry.body, UserMessage | AssistantMessage):
            text = " ".join(message_text(entry.body).split())
            at = text.casefold().find(folded)
            if at >= 0:
                start = max(0, at - _AROUND_CHARS)
                return ("…" if start else "") + text[start : at + len(folded) + _AROUND_CHARS]
    return ""
