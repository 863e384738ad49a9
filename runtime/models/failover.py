"""Which model is asked: the first that is free, and the next when one fails in a way that others may not.

A stopped turn and a request that is too long never lead to another model: the one is the person's wish,
the other is helped by compaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from nacre.records.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import AllModelsFailed, ContextOverflow, ModelError
from nacre.runtime.contracts.events import Event, FallbackAnswered, ModelRetried, ModelSlow
from nacre.runtime.contracts.model import (
    Answering,
    AnswerRestarted,
    Ask,
    ChatModel,
    ModelRequest,
    overhead_tokens,
)
from nacre.runtime.models.retry import MAX_RETRIES, stream_with_retries
from nacre.runtime.models.waits.cooldown import CooldownFile, asking_order, cooling
from nacre.runtime.models.waits.silence import AS_LONG_AS_IT_TAKES, Patience
from nacre.sessions.contracts.messages import AssistantMessage
from nacre.sessions.view.tokens import estimate_message_tokens

log = logging.getLogger(__name__)

RETRIES_BEFORE_FALLBACK = 1
"""A hiccup is waited for; whatever lasts longer is left to the next model."""


class Candidate(Record):
    """A model that may be asked, and the window that it has."""

    model: ChatModel
    budget: ContextBudget


class ModelChain:
    """The models of an agent, the first one foremost.

    Raises:
        ValueError: there is no candidate, or two have the same name.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        cooldowns: CooldownFile,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]],
        count_tokens: Callable[[str], int],
        patience: Patience = AS_LONG_AS_IT_TAKES,
    ) -> None:
        self._candidates = {candidate.model.name: candidate for candidate in candidates}
        if not candidates or len(self._candidates) != len(candidates):
            raise ValueError(f"models must differ, got {[item.model.name for item in candidates]}")
        self.first = candidates[0]
        """The model that the owner chose."""
        self._cooldowns = cooldowns
        self._now = now
        self._sleep = sleep
        self._count_tokens = count_tokens
        self._patience = patience
        self._last_patience = replace(patience, first_byte_seconds=None)

    async def current(self) -> Candidate:
        """The model that the next request goes to."""
        return (await self._order())[0]

    def window_tokens_of(self, answer: AssistantMessage) -> int:
        """The window of the model that gave an answer; the first one's for a model that is not here."""
        candidate = self._candidates.get(f"{answer.provider}/{answer.model}", self.first)
        return candidate.budget.window_tokens

    def budget_of(self, window_tokens: int) -> ContextBudget:
        """The budget of the model with such a window; the first one's where there is none."""
        budgets = [candidate.budget for candidate in self._candidates.values()]
        return next((budget for budget in budgets if budget.window_tokens == window_tokens), budgets[0])

    def ask(self, emit: Callable[[Event], None]) -> Ask:
        """Asks the models in their order; retries and a fallback that answered are told through `emit`."""
        told: set[str] = set()
        return lambda request: self._answers(request, emit, told)

    def asking(self, model: ChatModel | None, emit: Callable[[Event], None]) -> Ask:
        """Asks another model alone, with its retries; without one, or for the first, the chain."""
        if model is None or model is self.first.model:
            return self.ask(emit)
        return lambda request: self._one(model, request, emit)

    async def _order(self) -> tuple[Candidate, ...]:
        if len(self._candidates) == 1:
            return (self.first,)
        cooldowns = await self._cooldowns.read()
        names = asking_order(tuple(self._candidates), cooldowns, now_ms=epoch_ms(self._now()))
        return tuple(self._candidates[name] for name in names)

    async def _answers(
        self, request: ModelRequest, emit: Callable[[Event], None], told: set[str]
    ) -> AsyncIterator[Answering]:
        failed: dict[str, ModelError] = {}
        order = await self._order()
        names = [candidate.model.name for candidate in order]
        for place, candidate in enumerate(order):
            model, next_name = candidate.model, "".join(names[place + 1 : place + 2])
            asked_at_ms = epoch_ms(self._now())
            if failed:
                name, error = list(failed.items())[-1]
                await self._refuse_small_window(candidate, request, after=name, error=error)
                yield AnswerRestarted(problem=str(error))
            try:
                async with aclosing(self._one(model, request, emit, next_name=next_name)) as answers:
                    async for item in answers:
                        if isinstance(item, AssistantMessage):
                            await self._answered(model.name, request, failed, emit, told)
                        yield item
            except ModelError as problem:
                await self._failed(model.name, problem, asked_at_ms)
                failed[model.name] = problem
            else:
                return
        raise _failure(failed)

    def _one(
        self, model: ChatModel, request: ModelRequest, emit: Callable[[Event], None], *, next_name: str = ""
    ) -> AsyncGenerator[Answering, None]:
        patience = self._patience if next_name else self._last_patience

        def tell_silence(has_begun: bool) -> None:
            emit(
                ModelSlow(
                    model_name=model.name,
                    silent_seconds=patience.slow_seconds or 0.0,
                    has_begun=has_begun,
                    next_model_name=next_name,
                )
            )

        return stream_with_retries(
            model,
            request,
            sleep=self._sleep,
            on_retry=lambda attempt, delay_seconds, problem: emit(
                ModelRetried(attempt=attempt, delay_seconds=delay_seconds, problem=problem)
            ),
            max_retries=RETRIES_BEFORE_FALLBACK if next_name else MAX_RETRIES,
            retries_time_outs=not next_name,
            patience=patience,
            on_silence=tell_silence,
        )

    async def _failed(self, name: str, error: ModelError, asked_at_ms: int) -> None:
        if error.reason is None:
            raise error
        if len(self._candidates) > 1:
            log.warning("%s failed (%s): %s", name, error.reason, error)
            await self._cooldowns.failed(name, error, asked_at_ms=asked_at_ms)

    async def _answered(
        self,
        name: str,
        request: ModelRequest,
        failed: Mapping[str, ModelError],
        emit: Callable[[Event], None],
        told: set[str],
    ) -> None:
        if len(self._candidates) == 1:
            return
        first_name = self.first.model.name
        if request.purpose == "turn" and name not in (first_name, *told):
            told.add(name)
            problem = str(failed.get(first_name, "")) or await self._why_cooling(first_name)
            emit(FallbackAnswered(model_name=name, first_model_name=first_name, problem=problem))
        await self._cooldowns.answered(name)

    async def _why_cooling(self, name: str) -> str:
        cooldown = cooling(await self._cooldowns.read(), name, now_ms=epoch_ms(self._now()))
        if cooldown is None:
            return f"{name} was left alone after a failure."
        minutes = -(-(cooldown.until_ms - epoch_ms(self._now())) // 60_000)
        return f"{name} failed ({cooldown.reason}) and is left alone for another {minutes} min."

    async def _refuse_small_window(
        self, candidate: Candidate, request: ModelRequest, *, after: str, error: ModelError
    ) -> None:
        """A request kept for a large window is compacted first, before a smaller model would refuse it."""
        budget = candidate.budget
        if budget.window_tokens >= self._candidates[after].budget.window_tokens:
            return
        tokens = await asyncio.to_thread(_request_tokens, request, self._count_tokens)
        if tokens <= budget.compact_at:
            return
        raise ContextOverflow(
            f"{error} The next model, {candidate.model.name!r}, has a window of "
            f"{budget.window_tokens} tokens, too small for the conversation with {tokens}.",
            window_tokens=budget.window_tokens,
        )


def _request_tokens(request: ModelRequest, count_tokens: Callable[[str], int]) -> int:
    return overhead_tokens(request.system, request.tools, count_tokens) + sum(
        estimate_message_tokens(message, count_tokens) for message in request.messages
    )


def _failure(failed: Mapping[str, ModelError]) -> ModelError:
    """One attempt's own error, or one that names them all."""
    if len(failed) == 1:
        return next(iter(failed.values()))
    told = " | ".join(f"{name}: {error} ({error.reason})" for name, error in failed.items())
    return AllModelsFailed(
        f"All models failed ({len(failed)}): {told}",
        detail="\n".join(error.detail for error in failed.values() if error.detail),
    )
