"""Keeps a session inside its model's window: measure, decide, flush, compact. One owner, one budget.

Every path on which history leaves the model's view goes through `Window.compact` or
`Window.flush_before_leaving`, so none of them can skip the flush.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nacre.memory.workspace import daily_log_path
from nacre.runtime.budget import ContextBudget
from nacre.runtime.clock import Clock
from nacre.runtime.compactor import SummaryLimits, summarise
from nacre.runtime.errors import ModelError
from nacre.runtime.events import CompactionEnded, CompactionReason, FlushEnded
from nacre.runtime.flush import NotesFile, run_flush
from nacre.runtime.loop import Ask, Emit
from nacre.runtime.model import SystemPrompt, ToolSpec
from nacre.runtime.open_session import OpenSession
from nacre.runtime.settings import CompactionSettings
from nacre.sessions.cut import CompactionPlan, NothingToCompact, plan_compaction
from nacre.sessions.entries import Entry
from nacre.sessions.tokens import ContextMeasure, estimate_message_tokens, measure_context
from nacre.sessions.transcript import TranscriptItem

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class WindowParts:
    """What a window needs from the agent; the same for every session."""

    budget: ContextBudget
    settings: CompactionSettings
    workspace: Path
    lock_dir: Path
    now: Clock
    count_tokens: Callable[[str], int]
    ask: Ask
    ask_offline: Ask
    on_notes: Callable[[str], None]


class Window:
    """The context window of one open session.

    `system` and `tools` are what every request carries besides the transcript; they count as
    overhead until the provider has reported a usage.
    """

    def __init__(
        self,
        session: OpenSession,
        parts: WindowParts,
        *,
        system: SystemPrompt,
        tools: Sequence[ToolSpec],
        emit: Emit,
    ) -> None:
        self._session = session
        self._parts = parts
        self._system = system
        self._emit = emit
        self._tools = tools
        self._gave_up = False

    async def measure(self) -> ContextMeasure:
        """How full the window is: the provider's last usage, and an estimate for what followed.

        Counting is work for the processor, so it is done on a thread.
        """
        return await asyncio.to_thread(self._measured, self._session.transcript, self._session.branch)

    @cached_property
    def _overhead_tokens(self) -> int:
        return overhead_tokens(self._system, self._tools, self._parts.count_tokens)

    def _measured(self, items: Sequence[TranscriptItem], branch: Sequence[Entry]) -> ContextMeasure:
        count_tokens = self._parts.count_tokens
        overhead = self._overhead_tokens
        measure = measure_context(items, branch, count_tokens, overhead_tokens=overhead)
        if measure.usage_tokens <= self._parts.budget.window_tokens:
            return measure
        # More than the window held cannot be what it held: some providers report sums over calls.
        # The count stands only where the estimate, too, is over the line.
        estimate = overhead + sum(estimate_message_tokens(item.message, count_tokens) for item in items)
        if estimate > self._parts.budget.compact_at:
            return measure
        log.warning("%d tokens were reported for about %d", measure.usage_tokens, estimate)
        return ContextMeasure(tokens=estimate, usage_tokens=0, trailing_tokens=estimate)

    async def keep(self) -> None:
        """Flushes and compacts when the budget says so; called before every model call."""
        tokens = (await self.measure()).tokens
        decision = self._parts.budget.decide(tokens, flushed_this_cycle=self._session.flush_is_spent)
        log.info("window of %s: %s (%s)", self._session.key, decision.action, decision.reason)
        if decision.flushes:
            await self._flush()
        if decision.compacts and not self._gave_up:
            ended = await self.compact("threshold")
            # One failed attempt a turn: the next step would fail the same way.
            self._gave_up = bool(ended.problem)

    async def flush_before_leaving(self) -> None:
        """The flush before `/new` and `/compact`: due when anything was said since the last one."""
        if self._parts.budget.flush_enabled and self._session.has_unflushed_messages:
            await self._flush()

    async def compact(self, reason: CompactionReason, *, focus: str = "") -> CompactionEnded:
        """Replaces old history by a summary; on any failure the history stays whole."""
        session, budget = self._session, self._parts.budget
        if budget.flush_enabled and not session.flush_is_spent:
            await self._flush()
        tokens_before = (await self.measure()).tokens
        plan = await asyncio.to_thread(self._plan, reason, tokens_before)
        if isinstance(plan, NothingToCompact):
            return await self._ended(reason, tokens_before, problem=plan.reason)
        try:
            summary = await summarise(
                plan,
                focus="\n".join(
                    text for text in (self._parts.settings.custom_instructions.strip(), focus) if text
                ),
                ask=self._parts.ask,
                limits=self._limits(),
                count_tokens=self._parts.count_tokens,
                now_ms=session.now_ms,
            )
        except ModelError as error:
            return await self._ended(reason, tokens_before, problem=str(error))
        await session.write_compaction(summary, plan)
        return await self._ended(reason, tokens_before)

    def _plan(self, reason: CompactionReason, tokens_before: int) -> CompactionPlan | NothingToCompact:
        """Where to cut. A window that must shrink keeps less when the usual tail is all there is."""

        def keeping(tail_tokens: int) -> CompactionPlan | NothingToCompact:
            return plan_compaction(
                self._session.branch,
                keep_recent_tokens=tail_tokens,
                count_tokens=self._parts.count_tokens,
                tokens_before=tokens_before,
            )

        usual_tokens = self._parts.budget.keep_recent_tokens
        plan = keeping(usual_tokens)
        for tail_tokens in () if reason == "manual" else (usual_tokens // 4, 0):
            if isinstance(plan, NothingToCompact):
                plan = keeping(tail_tokens)
        return plan

    async def _ended(
        self, reason: CompactionReason, tokens_before: int, *, problem: str = ""
    ) -> CompactionEnded:
        ended = CompactionEnded(
            reason=reason,
            tokens_before=tokens_before,
            tokens_after=(await self.measure()).tokens,
            problem=problem,
        )
        log.log(
            logging.WARNING if problem else logging.INFO,
            "compaction of %s (%s): %d to %d tokens %s",
            self._session.key,
            reason,
            ended.tokens_before,
            ended.tokens_after,
            problem,
        )
        self._emit(ended)
        return ended

    async def _flush(self) -> FlushEnded:
        notes = NotesFile(
            self._parts.workspace,
            daily_log_path(self._parts.now().date()),
            lock_dir=self._parts.lock_dir,
            origin="" if self._session.policy.is_private else self._session.key,
        )
        ended = await run_flush(
            self._session,
            system=self._system,
            notes=notes,
            settings=self._parts.settings.memory_flush,
            ask=self._parts.ask,
            ask_offline=self._parts.ask_offline,
            max_output_tokens=self._parts.budget.summary_tokens,
        )
        if notes.wrote:
            self._parts.on_notes(notes.path)
        self._emit(ended)
        return ended

    def _limits(self) -> SummaryLimits:
        budget = self._parts.budget
        # A fifth of slack: the estimate and the provider's own count differ.
        part_tokens = (budget.window_tokens - 2 * budget.summary_tokens) * 4 // 5
        return SummaryLimits(part_tokens=part_tokens, summary_tokens=budget.summary_tokens)


def overhead_tokens(
    system: SystemPrompt, tools: Sequence[ToolSpec], count_tokens: Callable[[str], int]
) -> int:
    """Tokens that every request carries besides the transcript: system prompt and tool schemas."""
    schemas = json.dumps([[tool.name, tool.description, dict(tool.parameters)] for tool in tools])
    return count_tokens(system.joined()) + count_tokens(schemas)
