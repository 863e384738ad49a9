"""Asks a model again when it failed in a way that passes. Pure policy around a call; `sleep` is handed in.

Only rate limits and unavailability are tried again, a stream only before anything of the answer was
shown: text that a person has read is never taken back or repeated.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from nacre.runtime.errors import ModelError, ModelUnavailable, RateLimited
from nacre.runtime.model import ChatModel, ModelRequest, TextDelta
from nacre.sessions.messages import AssistantMessage

FIRST_DELAY_SECONDS = 2.0
MAX_DELAY_SECONDS = 60.0
_JITTER = 0.25

T = TypeVar("T")


async def stream_with_retries(
    model: ChatModel,
    request: ModelRequest,
    *,
    sleep: Callable[[float], Awaitable[None]],
    on_retry: Callable[[int, float, str], None],
    max_retries: int = 3,
) -> AsyncIterator[TextDelta | AssistantMessage]:
    """`model.stream(request)`, repeated up to `max_retries` times while it fails in passing.

    The delay is 2 s, doubled each time, plus up to a quarter at random, or the provider's `Retry-After`
    where it is longer. `on_retry(attempt, delay_seconds, problem)` is told before each wait.

    Raises:
        ModelError: the last failure. A provider that asks to wait for more than 60 s fails at once, and
            so does everything that asking again does not mend.
    """
    shown = False

    def passes(error: BaseException) -> bool:
        return not shown and _passes(error)

    def tell(state: RetryCallState) -> None:
        delay_seconds = state.next_action.sleep if state.next_action is not None else 0.0
        on_retry(state.attempt_number, delay_seconds, str(_failure(state)))

    attempts = AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(max_retries + 1),
        wait=_delay_seconds,
        retry=retry_if_exception(passes),
        before_sleep=tell,
        reraise=True,
    )
    try:
        async for attempt in attempts:
            with attempt:
                items = model.stream(request)
                try:
                    async for item in items:
                        shown = True
                        yield item
                finally:
                    if isinstance(items, AsyncGenerator):  # one that was left early ends its request now
                        await items.aclose()
    except RateLimited as error:
        if _wish(error) <= MAX_DELAY_SECONDS:
            raise
        raise _too_long(error) from error


async def call_with_retries(
    call: Callable[[], Awaitable[T]], *, sleep: Callable[[float], Awaitable[None]], max_retries: int = 3
) -> T:
    """What `call` gives, repeated like `stream_with_retries` for a call that answers at once.

    Raises:
        ModelError: the last failure; at once where asking again does not mend it or the wait is too long.
    """
    attempts = AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(max_retries + 1),
        wait=_delay_seconds,
        retry=retry_if_exception(_passes),
        reraise=True,
    )
    return await attempts(call)


def _passes(error: BaseException) -> bool:
    return isinstance(error, RateLimited | ModelUnavailable) and _wish(error) <= MAX_DELAY_SECONDS


def _delay_seconds(state: RetryCallState) -> float:
    delay = FIRST_DELAY_SECONDS * 2.0 ** (state.attempt_number - 1) * (1 + _JITTER * random.random())
    return max(min(delay, MAX_DELAY_SECONDS), _wish(_failure(state)))


def _failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _wish(error: BaseException | None) -> float:
    return (error.retry_after_seconds or 0.0) if isinstance(error, RateLimited) else 0.0


def _too_long(error: RateLimited) -> ModelError:
    return RateLimited(
        f"{error} That is longer than the {MAX_DELAY_SECONDS:g} seconds that a turn waits: "
        f"ask again in {_wish(error):.0f} seconds, or use another model.",
        detail=error.detail,
        retry_after_seconds=error.retry_after_seconds,
    )
