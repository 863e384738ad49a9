"""What hooks hear of one session's window: flushes, compactions, and the model calls of both."""

from __future__ import annotations

from nacre.runtime.contracts.events import CompactionEnded, CompactionReason, FlushEnded
from nacre.runtime.contracts.model import Ask
from nacre.runtime.hooks.around import asking
from nacre.runtime.hooks.events import AfterCompaction, AfterFlush, BeforeCompaction, BeforeFlush
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.tools.function import ToolChat


class HeardWindow:
    """Tells the handlers of an agent what the window of one chat does."""

    def __init__(self, hooks: Hooks, chat: ToolChat) -> None:
        self._hooks = hooks
        self._chat = chat

    def ask(self, ask: Ask, *, model_name: str) -> Ask:
        """`ask` as hooks hear it."""
        return asking(ask, self._hooks, self._chat, model_name=model_name)

    async def flush_begins(self) -> None:
        if self._hooks.hears("before_flush"):
            await self._hooks.trigger(BeforeFlush(chat=self._chat))

    async def flush_ended(self, ended: FlushEnded) -> None:
        if self._hooks.hears("after_flush"):
            await self._hooks.trigger(AfterFlush(chat=self._chat, ended=ended))

    async def compaction_begins(self, reason: CompactionReason, tokens: int) -> None:
        if self._hooks.hears("before_compaction"):
            await self._hooks.trigger(BeforeCompaction(chat=self._chat, reason=reason, tokens=tokens))

    async def compaction_ended(self, ended: CompactionEnded, summary: str) -> None:
        if self._hooks.hears("after_compaction"):
            await self._hooks.trigger(AfterCompaction(chat=self._chat, ended=ended, summary=summary))
