"""Keeps a session inside its model's window: prunes, measures, decides, flushes, compacts.

All history that leaves the model's view does so through `Window.compact` or `Window.flush_before_leaving`,
so the flush cannot be skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from nacre.record import paused_collector
from nacre.runtime.contracts.budget import ContextBudget, Decision
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.events import CompactionEnded, CompactionReason, Emit, Warned
from nacre.runtime.hooks.hooks import WindowHooks
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.context import TurnContext
from nacre.runtime.turn.flush import SessionFlush
from nacre.runtime.turn.shortening import LEAST_ROOM_SHARE, prune, room_in, shorten_large
from nacre.runtime.turn.summaries import Summary, extractor, partial_summaries, summary_models, summary_of
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.compaction.cut import (
    CompactionPlan,
    NothingToCompact,
    plan_compaction,
    transcript_tokens,
    with_compaction,
)
from nacre.sessions.view.sent_view import ContextMeasure, estimate_tokens, is_little_to_count, measure_context
from nacre.sessions.view.transcript import TranscriptItem

log = logging.getLogger(__name__)

MAX_PASSES = 4
"""The most measurements before one model call: one for each size of the kept tail, and a last one."""

NEARLY_FULL_PERCENT = 85
"""The owner is warned at this percentage of the compaction threshold, once a cycle."""


class Window:
    """The context window of one open session in one turn, divided as `budget` says."""

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        budget: ContextBudget,
        context: TurnContext,
        emit: Emit,
    ) -> None:
        self.budget = budget
        self._session = session
        self._parts = parts
        self._context = context
        self._emit = emit
        self._gave_up = False
        self._hooks = WindowHooks(parts.hooks, parts.chat(session))
        self._flush = SessionFlush(session, parts, budget, context, emit, self._hooks)

    async def measure(self) -> ContextMeasure:
        """The fill of the window: the provider's last reported usage, plus an estimate for later messages.

        Later messages are counted exactly only if twice their estimate would reach the flush threshold.
        """
        parts, items, branch = self._parts, self._session.view.transcript(), self._session.branch
        estimate = partial(measure_context, items, branch, parts.estimate_tokens)
        # Counting much text takes processor time, and the first exact count loads a table.
        measure = estimate() if is_little_to_count(items) else await asyncio.to_thread(estimate)
        measure = await self._whole(measure, items, parts.estimate_tokens)
        if measure.tokens + measure.trailing_tokens < self.budget.flush_at:
            return measure
        measure = await asyncio.to_thread(measure_context, items, branch, parts.count_tokens)
        return await self._whole(measure, items, parts.count_tokens)

    async def _whole(
        self, measure: ContextMeasure, items: Sequence[TranscriptItem], count_tokens: Callable[[str], int]
    ) -> ContextMeasure:
        if 0 < measure.usage_tokens <= self.budget.window_tokens:
            return measure
        overhead = await self._context.overhead_tokens(few_tokens=self.budget.flush_at // 8)
        if not measure.usage_tokens:
            trailing = measure.trailing_tokens + overhead
            return replace(measure, tokens=measure.tokens + overhead, trailing_tokens=trailing)
        # Some providers report sums over calls, which can exceed the window. Such a count is used only if the
        # estimate exceeds the threshold too.
        line_tokens = self.budget.compact_at
        estimate = overhead + await asyncio.to_thread(
            estimate_tokens, items, count_tokens, enough_tokens=line_tokens - overhead
        )
        if estimate > line_tokens:
            return measure
        log.warning("%d tokens were reported for about %d", measure.usage_tokens, estimate)
        return ContextMeasure(tokens=estimate, usage_tokens=0, trailing_tokens=estimate)

    async def fit(self) -> None:
        """Shortens, prunes, flushes and compacts when due; called before every model call.

        If a compaction does not make enough room, another one keeps less.
        """
        tokens = (await self.measure()).tokens
        if await self.shorten(tokens):
            tokens = (await self.measure()).tokens
        pruning = self._parts.settings.agent.context_pruning
        if pruning.mode != "off":
            await prune(self._session, pruning, self.budget, tokens, self._parts.count_tokens)
            tokens = (await self.measure()).tokens
        await self._flush.cover_hidden()
        for number in range(MAX_PASSES):
            if number:
                tokens = (await self.measure()).tokens
            decision = self._decide(tokens)
            log.info("window of %s: %s (%s)", self._session.key, decision.action, decision.reason)
            is_forced = not decision.flushes and self._flush.is_forced
            # The messages that an earlier pass kept were flushed before it.
            if number == 0 and (decision.flushes or is_forced):
                await self._flush.run(tokens, is_forced=is_forced)
            if not decision.compacts or self._gave_up:
                self._warn_when_nearly_full(tokens)
                return
            ended = await self.compact("threshold")
            # One failed attempt a turn: the next step would fail the same way.
            self._gave_up = bool(ended.problem)

    async def shorten(self, tokens: int, *, was_refused: bool = False) -> bool:
        """Shortens single messages that are too large; `True` if that changed what a model is sent.

        It needs no model call, and runs before everything that does. `tokens` is the fill of the window.
        `was_refused` means that a provider called the context too long, so estimates cannot be trusted.
        """
        budget = self.budget
        if not was_refused and tokens * LEAST_ROOM_SHARE <= budget.window_tokens:
            return False
        overhead_tokens = await self._context.overhead_tokens()
        refused_tokens: int | None = None
        if was_refused:
            items, count_tokens = self._session.view.transcript(), self._parts.count_tokens
            estimate = await asyncio.to_thread(estimate_tokens, items, count_tokens)
            refused_tokens = max(tokens, overhead_tokens + estimate)
        room = room_in(budget, overhead_tokens=overhead_tokens, refused_tokens=refused_tokens)
        return await shorten_large(self._session, self._parts, room, self._emit)

    def _decide(self, tokens: int) -> Decision:
        flushes, budget = self._session.flushes, self.budget
        said_tokens: int | None = None
        if self._session.compaction_count:
            # Bytes to tokens as in English; a rough number does for "little" and "much".
            said_tokens = flushes.unflushed_bytes // 4
        return budget.decide(
            tokens, flushed_this_cycle=flushes.is_spent, said_since_compaction_tokens=said_tokens
        )

    async def flush_before_leaving(self) -> None:
        """The flush before `/new` and `/compact`, due if anything was said since the last one."""
        if self.budget.flush_enabled and self._session.flushes.has_unflushed_messages:
            await self.shorten((await self.measure()).tokens)
            await self._flush.run((await self.measure()).tokens)
            await self._flush.cover_rest()

    async def compact(self, reason: CompactionReason, *, focus: str = "") -> CompactionEnded:
        """Replaces old history with a summary; on any failure the history stays."""
        session, parts = self._session, self._parts
        tokens_before = (await self.measure()).tokens
        if await self.shorten(tokens_before):
            tokens_before = (await self.measure()).tokens
        await self._hooks.compaction_begins(reason, tokens_before)
        if self.budget.flush_enabled and not session.flushes.is_spent:
            await self._flush.run(tokens_before, has_overflowed=reason == "overflow")
        overhead_tokens = await self._context.overhead_tokens()
        plan = await asyncio.to_thread(paused_collector()(self._plan), reason, tokens_before, overhead_tokens)
        if isinstance(plan, NothingToCompact):
            return await self._ended(reason, tokens_before, problem=plan.reason)
        settings = parts.settings.agent.compaction
        instructions = (settings.custom_instructions.strip(), focus)
        models = summary_models(
            parts.models, parts.summary_model, parts.offline, self.budget, settings, self._emit
        )
        try:
            summary = await summary_of(
                plan,
                models=[
                    replace(model, ask=self._hooks.ask(model.ask, model_name=model.name)) for model in models
                ],
                extractor=extractor(parts.offline, self.budget, settings),
                must_shrink=reason == "overflow",
                instructions="\n".join(text for text in instructions if text),
                count_tokens=parts.estimate_tokens,
                now_ms=session.now_ms,
                partial=partial_summaries(session.journal),
            )
        except ModelError as error:
            problem = f"{error} The history is unchanged."
            return await self._ended(reason, tokens_before, problem=problem, has_failed=True)
        items = session.journal.sent().items()
        before, after = await asyncio.to_thread(self._sizes, items, plan, summary)
        if after >= before:
            problem = (
                "The summary would not make the history shorter "
                f"({before + overhead_tokens} to {after + overhead_tokens} tokens), "
                "so the history is unchanged."
            )
            return await self._ended(reason, tokens_before, problem=problem, has_failed=True)
        await self._flush.cover_before(plan.first_kept_entry_id)
        await session.compact(summary.text, plan, tokens_after=after + overhead_tokens)
        if summary.problem:
            what = "An extract" if summary.is_extract else f"{summary.model_name}'s summary"
            message = f"{what} replaces the older history, because: {summary.problem}"
            self._emit(Warned(message=message))
        return await self._ended(
            reason, tokens_before, tokens_after=after + overhead_tokens, summary=summary.text
        )

    def _sizes(
        self, items: Sequence[TranscriptItem], plan: CompactionPlan, summary: Summary
    ) -> tuple[int, int]:
        """Estimated tokens before and after the summary; counting stops once "before" is larger."""
        branch, count_tokens = self._session.branch, self._parts.estimate_tokens
        after = transcript_tokens(with_compaction(branch, plan, summary.text), count_tokens)
        return estimate_tokens(items, count_tokens, enough_tokens=after), after

    def _warn_when_nearly_full(self, tokens: int) -> None:
        budget = self.budget
        if not budget.compaction_enabled or tokens < budget.compact_at * NEARLY_FULL_PERCENT // 100:
            return
        warning = (
            f"The context is more than {NEARLY_FULL_PERCENT} % full: above {budget.compact_at} tokens older "
            f"history becomes summary {self._session.compaction_count + 1} of this session. "
            "/compact does it now, /new begins a new session."
        )
        self._parts.notice_log.once(self._session.session_id, (warning,), self._emit)

    def _plan(
        self, reason: CompactionReason, tokens_before: int, overhead_tokens: int
    ) -> CompactionPlan | NothingToCompact:
        """Where to cut. A window that must shrink keeps less if the usual tail is the whole history.

        In a small window, the usual tail, the summary and the overhead of a request would fill the window
        again at once; so the tail is cut to leave a quarter of the room free.
        """

        def keeping(tail_tokens: int) -> CompactionPlan | NothingToCompact:
            return plan_compaction(
                self._session.branch,
                keep_recent_tokens=tail_tokens,
                count_tokens=self._parts.estimate_tokens,
                tokens_before=tokens_before,
            )

        budget = self.budget
        usual_tokens = budget.keep_recent_tokens
        if reason != "manual":
            room_tokens = budget.compact_at * 3 // 4 - overhead_tokens - budget.summary_tokens
            usual_tokens = max(min(usual_tokens, room_tokens), usual_tokens // 4)
        plan = keeping(usual_tokens)
        for tail_tokens in () if reason == "manual" else (usual_tokens // 4, 0):
            if isinstance(plan, NothingToCompact):
                plan = keeping(tail_tokens)
        return plan

    async def _ended(
        self,
        reason: CompactionReason,
        tokens_before: int,
        *,
        tokens_after: int | None = None,
        summary: str = "",
        problem: str = "",
        has_failed: bool = False,
    ) -> CompactionEnded:
        ended = CompactionEnded(
            reason=reason,
            tokens_before=tokens_before,
            tokens_after=tokens_before if tokens_after is None else tokens_after,
            transcript=self._session.journal.name,
            problem=problem,
            has_failed=has_failed,
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
        await self._hooks.compaction_ended(ended, summary)
        return ended
