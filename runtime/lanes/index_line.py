"""A session's line in `sessions.json` while the session is open: what other programs and listings read."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage
from nacre.sessions.index.record import SessionRecord, unknown_usage, usage_fields, with_model_override
from nacre.sessions.stores.store import SessionLines

log = logging.getLogger(__name__)

SAID_EVERY_MS = 3_600_000
"""How far behind the time of the last words may be while they are answered; the transcript tells it."""


class IndexLine:
    """The line of one session under its key; a line that meanwhile names another session stays as it is."""

    def __init__(self, key: str, record: SessionRecord, *, index: SessionLines, now: Clock) -> None:
        self._key = key
        self._index = index
        self._now = now
        self._said_at_ms: int | None = None
        self.record = record

    async def said(self) -> None:
        """Notes that a person said something now.

        Together with what is noted next, or by `settle`; at once where the line would seem long unused.
        """
        self._said_at_ms = at_ms = epoch_ms(self._now())
        told_ms = self.record.last_interaction_at_ms or 0
        if not self.record.system_sent or not 0 <= at_ms - told_ms < SAID_EVERY_MS:
            await self.settle()

    async def settle(self) -> None:
        """Notes what waits to be noted, for a turn that ends without an answer."""
        if self._said_at_ms is not None:
            await self._mirror()

    async def settle_if_it_can(self) -> None:
        """The same, where a refusal is logged: why there is no answer matters more."""
        try:
            await self.settle()
        except SessionError as error:
            log.warning("the line of %s is behind its transcript: %s", self._key, error)

    async def flushed(self, *, cycle: int) -> None:
        """Notes an attempt to flush in this cycle."""
        at_ms = epoch_ms(self._now())
        await self._mirror(memory_flush_at_ms=at_ms, memory_flush_compaction_count=cycle)

    async def compacted(self, *, count: int, tokens_after: int) -> None:
        """Notes a compaction, the `count`th; the old total would speak of a context that is gone."""
        total = {"total_tokens": tokens_after or None, "total_tokens_fresh": tokens_after > 0}
        await self._mirror(**unknown_usage() | total, compaction_count=count)

    async def answered(self, answer: AssistantMessage, *, window_tokens: int, compactions: int) -> None:
        """Mirrors the last call of a turn: its model, that model's window, and its usage."""
        usage = answer.usage
        await self._mirror(
            **usage_fields(usage) if usage is not None and usage.context_tokens else {},
            model_provider=answer.provider,
            model=answer.model,
            context_tokens=window_tokens,
            compaction_count=compactions,
            aborted_last_run=False,
        )

    async def choose_model(self, name: str) -> None:
        """Notes which model this chat's owner wants; empty is the settings' own."""
        at_ms = epoch_ms(self._now())

        def chosen(record: SessionRecord | None) -> SessionRecord | None:
            if record is None or self._ours(record) is None:
                return record
            return with_model_override(replace(record, updated_at_ms=at_ms), name)

        there = await self._index.update(self._key, chosen)
        self.record = self._ours(there) or with_model_override(self.record, name)

    async def aborted(self) -> None:
        """Notes that the last turn was broken off."""
        await self._mirror(aborted_last_run=True)

    async def _mirror(self, **fields: Any) -> None:
        """Changes fields that the transcript tells as well, and notes when a person spoke."""
        if self._said_at_ms is not None:
            fields |= {"last_interaction_at_ms": self._said_at_ms, "system_sent": True}
        at_ms = epoch_ms(self._now())

        def mirrored(record: SessionRecord) -> SessionRecord:
            if self._ours(record) is None:
                return record
            return replace(record, updated_at_ms=at_ms, **fields)

        there = await self._index.mirror(self._key, mirrored)
        self.record = self._ours(there) or replace(self.record, **fields)
        self._said_at_ms = None

    def _ours(self, record: SessionRecord | None) -> SessionRecord | None:
        """A record of the key if it is this session's."""
        return record if record is not None and record.session_id == self.record.session_id else None
