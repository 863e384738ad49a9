"""The agent's transcripts as a source of memory search. It writes nothing.

The text of a transcript has the words of people and the answers of the assistant: no tool calls and results,
no thinking, no recalled notes, no flushes, summaries or commands, nothing that was never delivered, and no
keys or passwords. The sessions of groups are included, because only the owner's private chats have memory
tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, tzinfo

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.memory.files.sources.secrets import without_secrets
from nacre.runtime.contracts.clock import Clock, stored_moment
from nacre.runtime.contracts.inbound import was_command
from nacre.runtime.contracts.silence import without_token
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.disk.json_text import split_lines, timestamp_ms
from nacre.sessions.entries.entries import Entry, SessionOwner, entry_from_json, session_owner
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore

log = logging.getLogger(__name__)

IDLE_SECONDS = 3_600.0
"""A session without a message for this long counts as ended until the next one."""
OWNER = "User"
ANYBODY = "Somebody"
"""The speaker where it cannot be known that it is the owner: in groups, and in chats of others."""


class SessionTranscripts:
    """A `TranscriptSource` over one agent's sessions, from a store that it closes."""

    def __init__(self, store: SessionStore, *, agent_id: str, main_key: str, now: Clock) -> None:
        self._store = store
        self._agent_id = agent_id
        self._main_key = main_key
        self._now = now
        self._keys: Mapping[str, str] = {}

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All transcripts. Those that no key names now, and idle ones, count as ended.

        Raises:
            OSError: the folder or its index cannot be read.
        """
        try:
            listed = await self._store.transcripts()
            # Read after the listing, so that a session that began in between does not count as ended.
            records = await self._store.index.all()
        except SessionError as error:
            raise OSError(str(error)) from error
        self._keys = self._names(records)
        current = {name for record in records.values() if (name := self._name(record))}
        idle_before_ns = int((self._now().timestamp() - IDLE_SECONDS) * 1e9)
        return [
            TranscriptInfo(
                name=found.name,
                size_bytes=found.size_bytes,
                lines=found.lines,
                modified_ns=found.modified_ns,
                ended=found.name not in current or found.modified_ns < idle_before_ns,
            )
            for found in listed
        ]

    async def text(self, name: str) -> TranscriptText | None:
        """The text of a transcript; `None` if it is gone or cannot be read now."""
        try:
            data = await self._store.exported(name)
        except SessionNotFound:
            return None
        except SessionError as error:
            log.warning("the transcript %s cannot be read and stays as it was indexed: %s", name, error)
            return None
        return await asyncio.to_thread(
            transcript_text,
            data,
            key=self._keys.get(name, ""),
            agent_id=self._agent_id,
            main_key=self._main_key,
            zone=self._now().tzinfo or UTC,
        )

    async def close(self) -> None:
        """Closes the store."""
        await self._store.close()

    def _names(self, records: Mapping[str, SessionRecord]) -> dict[str, str]:
        earlier = {
            self._name(SessionRecord(session_id=old, updated_at_ms=0)): key
            for key, record in records.items()
            for old in record.previous_session_ids
        }
        return earlier | {name: key for key, record in records.items() if (name := self._name(record))}

    def _name(self, record: SessionRecord) -> str:
        try:
            return self._store.transcript_name(record)
        except SessionCorrupt:
            return ""


def transcript_text(data: bytes, *, key: str, agent_id: str, main_key: str, zone: tzinfo) -> TranscriptText:
    """The messages in JSON lines of a transcript, each with its line number in `data` and its day in `zone`.

    `key` is the session's key, or empty if unknown; what the file says about its owner takes precedence.
    """
    speaker = OWNER if is_owners_key(key, agent_id=agent_id, main_key=main_key) else ANYBODY
    lines: list[str] = []
    numbers: list[int] = []
    days: list[date | None] = []
    number, place = 1, 0
    for line in split_lines(data):
        number += data.count(b"\n", place, line.start)
        place = line.start
        if line.value is None:
            continue
        entry = entry_from_json(line.value)
        owner = session_owner(entry)
        if owner is not None:
            speaker = _speaker(owner, speaker, agent_id=agent_id, main_key=main_key)
        elif said := _said(entry, speaker):
            lines.append(said)
            numbers.append(number)
            days.append(_day(entry, zone))
    return TranscriptText(lines=lines, line_numbers=numbers, days=days)


def is_owners_key(key: str, *, agent_id: str, main_key: str) -> bool:
    """Whether only the owner speaks in the session of this key: the main session and its threads."""
    main = canonical_key(main_key, agent_id=agent_id, main_key=main_key)
    return key == main or key.startswith(f"{main}:thread:")


def _speaker(owner: SessionOwner, speaker: str, *, agent_id: str, main_key: str) -> str:
    """The speaker by the session's own entry; `speaker` if it does not say."""
    if owner.is_private is not None:
        return OWNER if owner.is_private else ANYBODY
    if owner.key is None:
        return speaker
    return OWNER if is_owners_key(owner.key, agent_id=agent_id, main_key=main_key) else ANYBODY


def _said(entry: Entry, speaker: str) -> str:
    if isinstance(entry.body, UserMessage):
        text = message_text(entry.body)
        text = "" if was_command(text) else text
    elif isinstance(entry.body, AssistantMessage):
        speaker, text = "Assistant", without_token(message_text(entry.body))
    else:
        return ""
    words = " ".join(text.split())
    return f"{speaker}: {without_secrets(words)}" if words else ""


def _day(entry: Entry, zone: tzinfo) -> date | None:
    at_ms = entry.body.timestamp_ms if isinstance(entry.body, Message) else 0
    moment = stored_moment(at_ms or timestamp_ms(entry.timestamp), zone)
    return moment.date() if moment is not None else None
