"""Chooses the model for a request, and the next one when it fails; retries brief failures.

A stopped turn and a request that is too long never lead to another model: the turn was stopped on purpose,
and compaction shortens the request.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import (
    AllModelsFailed,
    BadModelReply,
    ContextOverflow,
    ModelError,
    ModelNotRunning,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from nacre.runtime.contracts.events import Event, FallbackAnswered, ModelRetried, ModelSlow, PromptRead
from nacre.runtime.contracts.model import (
    Answering,
    AnswerRestarted,
    Ask,
    ChatModel,
    ModelAlive,
    ModelRequest,
    StreamItem,
    TextDelta,
    learn_window,
    overhead_tokens,
    takes_output_schema,
)
from nacre.runtime.models.cooldown import CooldownFile, asking_order, cooling
from nacre.sessions.contracts.messages import AssistantMessage
from nacre.sessions.view.sent_view import estimate_message_tokens

log = logging.getLogger(__name__)


class Patience(Record):
    """How long a model may be silent.

    After `slow_seconds` the silence is reported once. A model that sends no byte within `first_byte_seconds`
    fails. `None` is no limit but the model's own.
    """

    slow_seconds: float | None = None
    first_byte_seconds: float | None = None


AS_LONG_AS_IT_TAKES = Patience()


async def watched(
    items: AsyncGenerator[StreamItem, None],
    *,
    model_name: str,
    patience: Patience,
    on_silence: Callable[[StreamItem | None], None],
    on_reading: Callable[[ModelAlive], None] = lambda _alive: None,
) -> AsyncGenerator[TextDelta | AssistantMessage, None]:
    """A model's answer without `ModelAlive`, watched for silence; `items` are closed at the end.

    `on_silence` is called after `slow_seconds` of `patience` with the last item, or `None` before the first.
    `on_reading` receives the progress of reading the prompt.

    Raises:
        ModelTimedOut: no byte came within `first_byte_seconds` of `patience`.
        ModelError: the model's own.
    """
    watch = _Watch(patience.slow_seconds, on_silence)
    try:
        item = await _first(items, model_name, patience.first_byte_seconds)
        while item is not None:
            watch.heard(item)
            if not isinstance(item, ModelAlive):
                yield item
            elif item.prompt_tokens:
                on_reading(item)
            item = await anext(items, None)
    finally:
        watch.end()
        await items.aclose()


async def _first(
    items: AsyncGenerator[StreamItem, None], model_name: str, seconds: float | None
) -> StreamItem | None:
    if seconds is None:
        return await anext(items, None)
    try:
        async with asyncio.timeout(seconds):
            return await anext(items, None)
    except TimeoutError as error:
        raise ModelTimedOut(f"The model {model_name!r} sent nothing for {seconds:.15g} seconds.") from error


class _Watch:
    """One timer for a whole answer: an item only sets a number, so that a token costs little."""

    def __init__(self, seconds: float | None, on_silence: Callable[[StreamItem | None], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_silence = on_silence
        self._heard_at = self._loop.time()
        self._told_at: float | None = None
        self._was_reading = False
        self._last: StreamItem | None = None
        self._timer: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._look_after(seconds, seconds)

    def heard(self, item: StreamItem) -> None:
        self._heard_at = self._loop.time()
        self._last = item

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_after(self, wait_seconds: float, silent_seconds: float) -> None:
        self._timer = self._loop.call_later(wait_seconds, self._look, silent_seconds)

    def _look(self, silent_seconds: float) -> None:
        left_seconds = self._heard_at + silent_seconds - self._loop.time()
        if left_seconds <= 0:
            is_reading = isinstance(self._last, ModelAlive) and self._last.is_reading
            if self._told_at != self._heard_at and not (is_reading and self._was_reading):
                self._told_at, self._was_reading = self._heard_at, is_reading
                self._on_silence(self._last)
            left_seconds = silent_seconds
        self._look_after(left_seconds, silent_seconds)


FIRST_DELAY_SECONDS = 2.0
MAX_DELAY_SECONDS = 60.0
MAX_RETRIES = 3
JITTER = 0.25
"""The largest share by which a delay is extended, so that clients do not all retry at once."""

T = TypeVar("T")


async def stream_with_retries(
    model: ChatModel,
    request: ModelRequest,
    *,
    sleep: Callable[[float], Awaitable[None]],
    on_retry: Callable[[int, float, str], None],
    max_retries: int = MAX_RETRIES,
    retries_time_outs: bool = True,
    patience: Patience = AS_LONG_AS_IT_TAKES,
    on_silence: Callable[[StreamItem | None], None] = lambda _last: None,
    on_reading: Callable[[ModelAlive], None] = lambda _alive: None,
    chance: Callable[[], float] = random.random,
) -> AsyncGenerator[Answering, None]:
    """`model.stream(request)`, checked against its contract and repeated after brief failures.

    The delay is 2 s, doubled each time, plus up to a quarter by `chance` (0…1), or the provider's
    `Retry-After` if it is longer. Because a time-out takes long, it is retried at most once, and only with
    `retries_time_outs`. `on_retry(attempt, delay_seconds, problem)` is called before each wait; `on_silence`
    and `on_reading` are those of `watched`.

    Raises:
        ModelError: the last failure. Failures that a retry does not help, or with a `Retry-After` of more
            than 60 s, are raised at once.
    """
    attempt = 0
    while True:
        attempt, is_begun = attempt + 1, False
        items = watched(
            held_to_contract(model.stream(request), model_name=model.name),
            model_name=model.name,
            patience=patience,
            on_silence=on_silence,
            on_reading=on_reading,
        )
        try:
            async with aclosing(items):
                async for item in items:
                    is_begun = True
                    yield item
            return
        except ModelError as error:
            failure = error
        if isinstance(failure, RateLimited) and _wish(failure) > MAX_DELAY_SECONDS:
            raise RateLimited(
                f"{failure} That is longer than the {MAX_DELAY_SECONDS:.15g} seconds that a turn waits: "
                f"ask again in {_wish(failure):.0f} seconds, or use another model.",
                detail=failure.detail,
                retry_after_seconds=failure.retry_after_seconds,
            ) from failure
        delay_seconds = _delay_seconds(failure, attempt, chance)
        is_late = isinstance(failure, ModelTimedOut) and (attempt > 1 or not retries_time_outs)
        if delay_seconds is None or is_late or attempt > max_retries:
            raise failure
        on_retry(attempt, delay_seconds, str(failure))
        await sleep(delay_seconds)
        if is_begun:
            yield AnswerRestarted(problem=str(failure))


async def call_with_retries(
    call: Callable[[], Awaitable[T]], *, sleep: Callable[[float], Awaitable[None]]
) -> T:
    """The result of `call`, repeated as in `stream_with_retries` and with its errors."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except ModelError as error:
            delay_seconds = _delay_seconds(error, attempt, random.random)
            if delay_seconds is None or attempt > MAX_RETRIES:
                raise
        await sleep(delay_seconds)


def _delay_seconds(error: ModelError, attempt: int, chance: Callable[[], float]) -> float | None:
    """How long to wait after a failed attempt, counted from 1; `None` if a retry does not help."""
    passes = isinstance(error, RateLimited | ModelUnavailable) and not isinstance(error, ModelNotRunning)
    if not passes or _wish(error) > MAX_DELAY_SECONDS:
        return None
    delay = FIRST_DELAY_SECONDS * 2.0 ** (attempt - 1) * (1 + JITTER * chance())
    return max(min(delay, MAX_DELAY_SECONDS), _wish(error))


def _wish(error: ModelError) -> float:
    return (error.retry_after_seconds or 0.0) if isinstance(error, RateLimited) else 0.0


async def held_to_contract(
    items: AsyncIterator[StreamItem], *, model_name: str
) -> AsyncGenerator[StreamItem, None]:
    """A model's answer up to its final message; every other failure becomes a `ModelError`.

    A bot author's model that breaks the contract must not lose a message or the notes of a flush. The stream
    is closed after the final message.

    Raises:
        ModelError: the model's own, or `BadModelReply` for a breach of the contract.
    """
    try:
        async for item in items:
            if not isinstance(item, TextDelta | ModelAlive | AssistantMessage):
                raise BadModelReply(
                    f"The model {model_name!r} answered with "
                    f"{'nothing' if item is None else 'a ' + type(item).__name__}."
                )
            yield item
            if isinstance(item, AssistantMessage):
                return
        raise BadModelReply(
            f"The answer of the model {model_name!r} ended without a final message. Ask again."
        )
    except (ModelError, AssertionError):
        # An assertion is a test's, such as a scripted model's.
        raise
    except Exception as error:
        log.exception("the model %s broke its contract", model_name)
        raise BadModelReply(
            f"The model {model_name!r} failed with {type(error).__name__}, which is not a ModelError. "
            "The log has the traceback.",
            detail=str(error),
        ) from error
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def whole_answer(model: ChatModel, request: ModelRequest) -> AssistantMessage:
    """The final message of a model's answer. Raises `ModelError` as `held_to_contract`."""
    async for item in held_to_contract(model.stream(request), model_name=model.name):
        if isinstance(item, AssistantMessage):
            return item
    raise AssertionError("an answer without a final message is a BadModelReply")


RETRIES_BEFORE_FALLBACK = 1
"""The retries of a model that is not the last; after them, the next model is asked."""


class Candidate(Record):
    """A model and its context budget."""

    model: ChatModel
    budget: ContextBudget


class ModelChain:
    """The models of an agent in their order.

    `budget` computes the budget of a model whose window is known now.

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
        budget: Callable[[ChatModel], ContextBudget] | None = None,
    ) -> None:
        self._budget = budget
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
        """The model that the next request goes to, with its window as far as it is known.

        Raises:
            ConfigError: the window is too small.
        """
        candidate = (await self._order())[0]
        return await self._learnt(candidate) if hasattr(candidate.model, "learn_window") else candidate

    async def _learnt(self, candidate: Candidate) -> Candidate:
        await learn_window(candidate.model)
        budget = self._budget(candidate.model) if self._budget is not None else candidate.budget
        if budget == candidate.budget:
            return candidate
        is_first, candidate = candidate is self.first, replace(candidate, budget=budget)
        self._candidates[candidate.model.name] = candidate
        if is_first:
            self.first = candidate
        return candidate

    def window_tokens_of(self, answer: AssistantMessage) -> int:
        """The window of the model that answered; the first model's if it is not in the chain."""
        candidate = self._candidates.get(f"{answer.provider}/{answer.model}", self.first)
        return candidate.budget.window_tokens

    @property
    def takes_output_schema(self) -> bool:
        """Whether all models accept a schema for the answer."""
        return all(takes_output_schema(candidate.model) for candidate in self._candidates.values())

    def budget_of(self, window_tokens: int) -> ContextBudget:
        """The budget of the model with this window; the first model's if there is none."""
        budgets = [candidate.budget for candidate in self._candidates.values()]
        return next((budget for budget in budgets if budget.window_tokens == window_tokens), budgets[0])

    def ask(self, emit: Callable[[Event], None]) -> Ask:
        """Asks the models in their order; `emit` receives retries and the fallback that answered."""
        told: set[str] = set()
        return lambda request: self._answers(request, emit, told)

    def asking(self, model: ChatModel | None, emit: Callable[[Event], None]) -> Ask:
        """Asks one model with its retries; the whole chain if it is `None` or the first model."""
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
                candidate = await self._learnt(candidate)
                await self._refuse_small_window(candidate, request, after=name, error=error)
                yield AnswerRestarted(problem=str(error))
            try:
                async with aclosing(self._one(model, request, emit, next_name=next_name)) as answers:
                    async for item in answers:
                        if isinstance(item, AssistantMessage):
                            await self._answered(model.name, request, failed, emit, told)
                        yield item
            except ModelError as problem:
                if problem.reason is None:
                    raise
                if len(self._candidates) > 1:
                    log.warning("%s failed (%s): %s", model.name, problem.reason, problem)
                    await self._cooldowns.failed(model.name, problem, asked_at_ms=asked_at_ms)
                failed[model.name] = problem
            else:
                return
        raise _failure(failed)

    def _one(
        self, model: ChatModel, request: ModelRequest, emit: Callable[[Event], None], *, next_name: str = ""
    ) -> AsyncGenerator[Answering, None]:
        patience = self._patience if next_name else self._last_patience

        def tell_silence(last: StreamItem | None) -> None:
            emit(
                ModelSlow(
                    model_name=model.name,
                    silent_seconds=patience.slow_seconds or 0.0,
                    has_begun=last is not None,
                    next_model_name=next_name,
                    is_reading=isinstance(last, ModelAlive) and last.is_reading,
                )
            )

        def tell_reading(alive: ModelAlive) -> None:
            emit(
                PromptRead(
                    model_name=model.name, read_tokens=alive.read_tokens, prompt_tokens=alive.prompt_tokens
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
            on_reading=tell_reading,
        )

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
            return f"{name} failed before and was not asked."
        minutes = -(-(cooldown.until_ms - epoch_ms(self._now())) // 60_000)
        return f"{name} failed ({cooldown.reason}) and is not asked for another {minutes} min."

    async def _refuse_small_window(
        self, candidate: Candidate, request: ModelRequest, *, after: str, error: ModelError
    ) -> None:
        """Raises `ContextOverflow` if a request for a larger window does not fit into this model's."""
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
    """The error of the only attempt, or one that names all."""
    if len(failed) == 1:
        return next(iter(failed.values()))
    told = " | ".join(f"{name}: {error} ({error.reason})" for name, error in failed.items())
    return AllModelsFailed(
        f"All models failed ({len(failed)}): {told}",
        detail="\n".join(error.detail for error in failed.values() if error.detail),
        failures=tuple(failed.values()),
    )
