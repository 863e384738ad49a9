"""The agent's own transcripts as a source of memory search. It writes nothing.

All sessions of this agent are handed in, the groups' too: only the owner's private chats have memory
tools, so nothing of this reaches anybody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC
from itertools import islice

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.transcripts.transcript_lines import SaidLine, said_lines
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionNotFound
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore

log = logging.getLogger(__name__)

IDLE_SECONDS = 3_600.0
"""A session in which nobody spoke for so long counts as over until somebody does."""
LINES_AT_ONCE = 4_000
"""A thread reads so many, so that a program that ends does not wait for the rest of a long transcript."""


class SessionTranscripts:
    """A `TranscriptSource` over one agent's sessions, from a store that it closes."""

    def __init__(self, store: SessionStore, *, agent_id: str, main_key: str, now: Clock) -> None:
        self._store = store
        self._agent_id = agent_id
        self._main_key = main_key
        self._now = now
        self._keys: Mapping[str, str] = {}

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All transcripts, the one that a key names now as going on, others as ended.

        Raises:
            OSError: the folder or its index cannot be read.
        """
        try:
            listed = await self._store.transcripts()
            # Read after the listing: a session that began in between is then not taken for an ended one.
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
        """What a transcript says; `None` when it is gone or cannot be read now."""
        try:
            data = await self._store.exported(name)
        except SessionNotFound:
            return None
        except SessionError as error:
            log.warning("the transcript %s cannot be read and stays as it was indexed: %s", name, error)
            return None
        lines = said_lines(
            data,
            key=self._keys.get(name, ""),
            agent_id=self._agent_id,
            main_key=self._main_key,
            zone=self._now().tzinfo or UTC,
        )
        said: list[SaidLine] = []
        while some := await asyncio.to_thread(lambda: [*islice(lines, LINES_AT_ONCE)]):
            said += some
        return TranscriptText(
            lines=[line.text for line in said],
            line_numbers=[line.number for line in said],
            days=[line.day for line in said],
        )

    async def close(self) -> None:
        """Closes the store, which is this source's own."""
        await self._store.close()

    def _names(self, records: Mapping[str, SessionRecord]) -> dict[str, str]:
        """The key of each transcript that the index knows, of earlier sessions too."""
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
