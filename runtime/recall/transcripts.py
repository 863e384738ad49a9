"""The agent's transcripts as a source of memory search. It writes nothing.

The text of a transcript has the words of people and the answers of the assistant: no tool calls and results,
no thinking, no recalled notes, no flushes, summaries or commands, nothing that was never delivered, and no
keys or passwords. The sessions of groups are included, because only the owner's private chats have memory
tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, tzinfo
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.memory.files.sources.secrets import without_secrets
from nacre.record import paused_collector
from nacre.runtime.contracts.clock import Clock, stored_moment
from nacre.runtime.contracts.inbound import was_command
from nacre.runtime.contracts.silence import without_token
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.contracts.messages import whole_number
from nacre.sessions.disk.json_text import read_lines, timestamp_ms
from nacre.sessions.entries.entries import SessionOwner, blocks_text, entry_from_json, session_owner
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore

log = logging.getLogger(__name__)

IDLE_SECONDS = 3_600.0
"""A session without a message for this long counts as ended until the next one."""
LINES_AT_ONCE = 4_000
"""A thread reads this many at once, so that a program can end before it has read a long transcript."""
OWNER = "User"
ANYBODY = "Somebody"
"""The speaker who may not be the owner: in groups, and in chats with others."""


class SessionTranscripts:
    """A `TranscriptSource` over one agent's sessions, from a store that it closes."""

    def __init__(self, store: SessionStore, *, agent_id: str, main_key: str, now: Clock) -> None:
        self._store = store
        self._agent_id = agent_id
        self._main_key = main_key
        self._now = now
        self._keys: Mapping[str, str] = {}
        self.close = store.close

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All transcripts. Those that no key refers to, and idle ones, count as ended.

        Raises:
            OSError: the folder or its index cannot be read.
        """
        try:
            listed = await self._store.transcripts()
            # Read after the listing, so that a session that starts in between does not count as ended.
            records = await self._store.index.all()
        except SessionError as error:
            raise OSError(str(error)) from error
        earlier = {
            self._name(SessionRecord(session_id=old, updated_at_ms=0)): key
            for key, record in records.items()
            for old in record.previous_session_ids
        }
        current = {name: key for key, record in records.items() if (name := self._name(record))}
        self._keys = earlier | current
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
            log.warning("the transcript %s cannot be read, so its index is unchanged: %s", name, error)
            return None
        lines = said_lines(
            data,
            key=self._keys.get(name, ""),
            agent_id=self._agent_id,
            main_key=self._main_key,
            zone=self._now().tzinfo or UTC,
        )
        said: list[SaidLine] = []
        read = paused_collector()(lambda: [*islice(lines, LINES_AT_ONCE)])
        while some := await asyncio.to_thread(read):
            said += some
        return TranscriptText(
            lines=[line.text for line in said],
            line_numbers=[line.number for line in said],
            days=[line.day for line in said],
        )

    def _name(self, record: SessionRecord) -> str:
        try:
            return self._store.transcript_name(record)
        except SessionCorrupt:
            return ""


class SaidLine(NamedTuple):
    """One message as a line of text, the number of its line in the file, from 1, and its day."""

    text: str
    number: int
    day: date | None


def said_lines(data: bytes, *, key: str, agent_id: str, main_key: str, zone: tzinfo) -> Iterator[SaidLine]:
    """Yields the messages in JSON lines of a transcript, with days in `zone`.

    `key` is the session's key, or empty if unknown; what the file says about its owner takes precedence.
    """
    speaker = OWNER if is_owners_key(key, agent_id=agent_id, main_key=main_key) else ANYBODY
    number, place = 1, 0
    for line in read_lines(BytesIO(data)):
        number += data.count(b"\n", place, line.start)
        place = line.start
        raw = line.value or {}
        message = raw.get("message")
        if raw.get("type") == "custom":
            owner = session_owner(entry_from_json(raw))
            if owner is not None:
                speaker = _speaker(owner, speaker, agent_id=agent_id, main_key=main_key)
        elif raw.get("type") == "message" and isinstance(message, dict) and (said := _said(message, speaker)):
            at_ms = whole_number(message.get("timestamp")) or timestamp_ms(str(raw.get("timestamp") or ""))
            moment = stored_moment(at_ms, zone)
            yield SaidLine(said, number, moment.date() if moment is not None else None)


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


def _said(message: Mapping[str, Any], speaker: str) -> str:
    role = message.get("role")
    try:
        text = blocks_text(message.get("content")) if role in ("user", "assistant") else ""
    except ValueError:
        return ""
    if role == "assistant":
        speaker, text = "Assistant", without_token(text)
    elif was_command(text):
        return ""
    words = " ".join(text.split())
    return f"{speaker}: {without_secrets(words)}" if words else ""
