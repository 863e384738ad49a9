"""The session-memory hook: a session that is over leaves its last words as a note of its own.

Only of private sessions: what others said in a group does not go among the owner's notes. The note is
written once for each ending, also when a crash makes the hook run twice, and no file is overwritten.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed import WaitsForReview
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import workspace_gone
from nacre.prompts import render
from nacre.records.record import Record
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.endings.session_note import (
    Quote,
    conversation_text,
    last_moment,
    last_quotes,
    not_in,
    note_mark,
    note_name,
    note_start,
    note_text,
    slug_of,
    without_speaker,
)
from nacre.runtime.hooks.events import SessionEnded
from nacre.runtime.models.retry import held_to_contract
from nacre.runtime.tools.session_sources import SessionSources, Voices
from nacre.sessions.contracts.messages import AssistantMessage, message_text, user_message

log = logging.getLogger(__name__)

SLUG_SECONDS = 15.0
SLUG_CHARS = 2_000
"""How much of the conversation the model reads to name it."""
SLUG_TOKENS = 1_000
"""Room for the thinking of models that think before they name."""

MOST_NAMES = 100
"""How many notes of one day may have one name."""

_NOTE_BYTES = 1 << 20
_NOTE_NAME = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")


class _NameTaken(Exception):
    """There is a file of this name already."""


async def _written(workspace: Workspace, path: str, data: bytes) -> bool:
    """Makes the file, or has it wait for the owner; `False` when a file, folder or link is there already."""

    def made(old: bytes | None) -> bytes:
        if old is not None:
            raise _NameTaken
        return data

    try:
        await workspace.change(path, made)
    except (_NameTaken, IsADirectoryError, PathOutsideRoot):
        return False
    except WaitsForReview as waiting:
        log.info("%s", waiting)
    return True


class SessionMemory(Record):
    """A handler for `session_end`. `messages` is how many of them a note keeps.

    `model` names the conversation, for `slug_seconds` at most; `on_notes` gets the path of the note.
    `sources` are those of the workspace's lines. `may_write` says whether a session of this key may leave
    one.
    """

    workspace: Workspace
    messages: int
    model: ChatModel
    on_notes: Callable[[str], None]
    sources: Sources | None = None
    may_write: Callable[[str], bool] = lambda _key: True
    slug_seconds: float = SLUG_SECONDS

    async def __call__(self, event: SessionEnded) -> None:
        """Writes the note, unless there is nothing to keep.

        Raises:
            OSError: the workspace is gone or the disk refused; nothing was written.
            PathOutsideRoot: the folder of notes leads out of the workspace.
            FileBusy: another process holds the file.
        """
        quotes = last_quotes(event.entries, self.messages) if event.is_private else ()
        if not quotes or not self.may_write(event.session_key):
            log.info("session %s leaves no note", event.session_id)
            return
        if not self.workspace.is_there:
            raise FileNotFoundError(workspace_gone(self.workspace))
        moment = last_moment(quotes, otherwise=event.ended_at)
        if not self.workspace.may_change(note_start(moment)):
            raise PermissionError(errno.EACCES, "may not be written", note_start(moment))
        for note in await self._notes_since(quotes[0], event.ended_at):
            if note_mark(event) in note:
                return
            quotes = not_in(note, quotes, key=event.session_key, zone=event.ended_at.tzinfo)
        if not any(quote.speaker == "User" for quote in quotes):
            log.info("session %s said nothing that no note has", event.session_id)
            return
        slug = await self._slug(conversation_text(quotes), event)
        data = note_text(event, quotes, moment=moment).encode("utf-8", "replace")
        names = [note_name(moment, slug, number=number) for number in range(1, MOST_NAMES + 1)]
        workspace = self._sourced(event)
        for name in names:
            if await _written(workspace, name, data):
                self.on_notes(name)
                return
        raise FileExistsError(f"{names[0]} and {MOST_NAMES - 1} further names for the note are taken")

    async def _notes_since(self, first: Quote, ended_at: datetime) -> list[str]:
        """The notes of the days since something was said: what was said then may stand in them already."""
        folder, _, day = note_start(last_moment([first], otherwise=ended_at)).rpartition("/")
        try:
            entries = await self.workspace.list_folder(folder)
        except FileNotFoundError:
            return []
        names = [entry.name for entry in entries if _NOTE_NAME.fullmatch(entry.name) and not entry.is_folder]
        notes: list[str] = []
        for name in names:
            # What cannot be read, such as a link that leads out of the workspace, is no note of ours.
            with suppress(OSError, PathOutsideRoot):
                if name >= day:
                    found = await self.workspace.read(f"{folder}/{name}", max_bytes=_NOTE_BYTES)
                    notes.append(found.data.decode("utf-8", "replace"))
        return notes

    def _sourced(self, event: SessionEnded) -> Workspace:
        """The workspace, where each line of the note gets its source: whoever said it in this session."""
        voices = Voices()
        voices.follow(event.entries)
        said = SessionSources(
            sources=self.sources or Sources(self.workspace),
            voices=lambda: voices,
            policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
            session_key=event.session_key,
            session_id=event.session_id,
            chat=f"{event.channel} direct chat",
            now=lambda: event.ended_at,
        )
        return said.workspace(self.workspace, "hook", words_of=without_speaker)

    async def _slug(self, conversation: str, event: SessionEnded) -> str:
        """A name by the model, or `""` when it gives none in time."""
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
                async for item in held_to_contract(self.model.stream(request), model_name=self.model.name):
                    if isinstance(item, AssistantMessage):
                        return slug_of(message_text(item))
        except (ModelError, TimeoutError) as error:
            log.info("session %s is named by its time: %s", event.session_id, error or "no name in time")
        return ""
