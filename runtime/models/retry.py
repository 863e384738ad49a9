"""Asks a model again when it failed in a way that passes, and holds it to its contract meanwhile.

Pure policy around a call; `sleep` and `chance` are handed in. Rate limits and unavailability are tried
again. An answer that broke off in its middle is asked for anew as a whole; `AnswerRestarted` says so,
because nothing of it may be said twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from tenacity import AsyncRetrying, AttemptManager, RetryCallState, stop_after_attempt

from nacre.runtime.contracts.errors import (
    BadModelReply,
    ModelError,
    ModelNotRunning,
    ModelTimedOut,
    ModelUnavailable,
    RateLimited,
)
from nacre.runtime.contracts.model import (
    Answering,
    AnswerRestarted,
    ChatModel,
    ModelAlive,
    ModelRequest,
    StreamItem,
    TextDelta,
)
from nacre.runtime.models.waits.silence import AS_LONG_AS_IT_TAKES, Patience, watched
from nacre.sessions.contracts.messages import AssistantMessage

FIRST_DELAY_SECONDS = 2.0
MAX_DELAY_SECONDS = 60.0
MAX_RETRIES = 3
JITTER = 0.25
"""The greatest part by which a delay is made longer, so that clients do not all come back at once."""

T = TypeVar("T")

log = logging.getLogger(__name__)


async def stream_with_retries(
    model: ChatModel,
    request: ModelRequest,
    *,
    sleep: Callable[[float], Awaitable[None]],
    on_retry: Callable[[int, float, str], None],
    max_retries: int = MAX_RETRIES,
    retries_time_outs: bool = True,
    patience: Patience = AS_LONG_AS_IT_TAKES,
    on_silence: Callable[[bool], None] = lambda _has_begun: None,
    chance: Callable[[], float] = random.random,
) -> AsyncGenerator[Answering, None]:
    """`model.stream(request)`, held to its contract and repeated while it fails in passing.

    The delay is 2 s, doubled each time, plus up to a quarter by `chance` (0…1), or the provider's
    `Retry-After` where it is longer. A time-out is tried again once at most, and not at all without
    `retries_time_outs`: it has cost its time already. `on_retry(attempt, delay_seconds, problem)` is told
    before each wait, `on_silence(has_begun)` when the model sends nothing for longer than `patience` has.

    Raises:
        ModelError: the last failure. A provider that asks to wait for more than 60 s fails at once, and
            so does everything that asking again does not mend.
    """
    is_begun = False
    asked = partial(_watched_answer, model, request, patience, on_silence)
    attempts: AsyncIterator[AttemptManager] | None = None
    while True:
        try:
            async with aclosing(asked()) as items:
                async for item in items:
                    is_begun = True
                    yield item
            return
        except ModelError as error:
            failure = error
        if attempts is None:  # counting costs more than a turn may, so it begins at the first failure
            counted = _attempts(max_retries, sleep, chance).copy(
                retry=lambda state: _passes_in(state, retries_time_outs=retries_time_outs),
                before_sleep=lambda state: on_retry(
                    state.attempt_number, state.upcoming_sleep, str(_failure(state))
                ),
            )
            attempts = aiter(counted)
            attempt = await anext(attempts)
        attempt = await _attempt_after(failure, attempt, attempts)
        if is_begun:
            yield AnswerRestarted(problem=str(failure))
            is_begun = False


async def _attempt_after(
    failure: ModelError, attempt: AttemptManager, attempts: AsyncIterator[AttemptManager]
) -> AttemptManager:
    """The next attempt, once it is time for it.

    Raises:
        ModelError: the failure, when it is not to be tried again.
    """
    attempt.retry_state.set_exception((type(failure), failure, failure.__traceback__))
    try:
        return await anext(attempts)
    except RateLimited as error:
        if _wish(error) <= MAX_DELAY_SECONDS:
            raise
        raise _longer_than_a_turn_waits(error) from error


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    *,
    sleep: Callable[[float], Awaitable[None]],
    chance: Callable[[], float] = random.random,
) -> T:
    """What `call` gives, repeated like `stream_with_retries` and with its errors; it answers at once."""
    async for attempt in _attempts(MAX_RETRIES, sleep, chance):
        with attempt:
            return await call()
    raise AssertionError("the last attempt gives its answer or raises")


async def held_to_contract(
    items: AsyncIterator[StreamItem], *, model_name: str
) -> AsyncGenerator[StreamItem, None]:
    """A model's answer up to its final message; whatever else a model does becomes a `ModelError`.

    A bot author's model that breaks the contract must cost neither the person's words nor the notes
    that a flush would write. The stream is closed behind the final message.

    Raises:
        ModelError: the model's own, or `BadModelReply` for what the contract does not know.
    """
    try:
        async for item in items:
            if not isinstance(item, TextDelta | ModelAlive | AssistantMessage):
                raise _out_of_contract(model_name, item)
            yield item
            if isinstance(item, AssistantMessage):
                return
        raise BadModelReply(
            f"The answer of the model {model_name!r} ended without a final message. Ask again."
        )
    except (ModelError, AssertionError):
        # An assertion is a test's word about the runtime, such as a scripted model's.
        raise
    except Exception as error:
        log.exception("the model %s broke its contract", model_name)
        raise BadModelReply(
            f"The model {model_name!r} failed with {type(error).__name__}, which is no model error. "
            "The log has the trace.",
            detail=str(error),
        ) from error
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def _watched_answer(
    model: ChatModel, request: ModelRequest, patience: Patience, on_silence: Callable[[bool], None]
) -> AsyncGenerator[TextDelta | AssistantMessage, None]:
    items = held_to_contract(model.stream(request), model_name=model.name)
    return watched(items, model_name=model.name, patience=patience, on_silence=on_silence)


def _out_of_contract(model_name: str, item: object) -> BadModelReply:
    given = "nothing" if item is None else f"a {type(item).__name__}"
    return BadModelReply(f"The model {model_name!r} answered with {given}.")


def _longer_than_a_turn_waits(error: RateLimited) -> RateLimited:
    return RateLimited(
        f"{error} That is longer than the {MAX_DELAY_SECONDS:.15g} seconds that a turn waits: "
        f"ask again in {_wish(error):.0f} seconds, or use another model.",
        detail=error.detail,
        retry_after_seconds=error.retry_after_seconds,
    )


def _attempts(
    max_retries: int, sleep: Callable[[float], Awaitable[None]], chance: Callable[[], float]
) -> AsyncRetrying:
    return AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(max_retries + 1),
        wait=lambda state: _delay_seconds(state, chance),
        retry=lambda state: _passes(_failure(state)),
        reraise=True,
    )


def _passes_in(state: RetryCallState, *, retries_time_outs: bool) -> bool:
    error = _failure(state)
    if isinstance(error, ModelTimedOut) and (state.attempt_number > 1 or not retries_time_outs):
        return False
    return _passes(error)


def _passes(error: BaseException | None) -> bool:
    if isinstance(error, ModelNotRunning):
        return False
    return isinstance(error, RateLimited | ModelUnavailable) and _wish(error) <= MAX_DELAY_SECONDS


def _delay_seconds(state: RetryCallState, chance: Callable[[], float]) -> float:
    delay = FIRST_DELAY_SECONDS * 2.0 ** (state.attempt_number - 1) * (1 + JITTER * chance())
    return max(min(delay, MAX_DELAY_SECONDS), _wish(_failure(state)))


def _failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _wish(error: BaseException | None) -> float:
    return (error.retry_after_seconds or 0.0) if isinstance(error, RateLimited) else 0.0
