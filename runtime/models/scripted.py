"""For bot authors' tests: a strict scripted model, a clock that stands still, and ids that count.

Nothing here imports a test framework, touches the network or waits.

    model = ScriptedModel(calls(("read", {"path": "TOOLS.md"})), says("It says: be kind."))
    ...  # hand it to an Agent, run a turn
    model.assert_complete()
    assert model.requests[0].tools
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from nacre.record import Record
from nacre.runtime.contracts.errors import AgentError, ModelError, ModelUnavailable
from nacre.runtime.contracts.model import ModelRequest, Purpose, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, StopReason, Text, ToolCall, Usage

Check = Callable[[ModelRequest], object]


class ScriptViolation(AgentError, AssertionError):
    """A scripted model was asked something that is not in its script, or not for all of its script."""


class ScriptedStep(Record):
    """One scripted answer; `says`, `calls` and `fails` build it.

    `purpose` refuses requests of another purpose. `check` receives the request before the answer; it raises
    or returns `False` if the request is not the expected one.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    error: ModelError | None = None
    purpose: Purpose | None = None
    check: Check | None = None


def says(
    text: str,
    *,
    usage: Usage | None = None,
    stop_reason: StopReason = "stop",
    purpose: Purpose | None = None,
    check: Check | None = None,
) -> ScriptedStep:
    """A text answer, streamed in pieces."""
    return ScriptedStep(text=text, usage=usage, stop_reason=stop_reason, purpose=purpose, check=check)


def calls(
    *tool_calls: tuple[str, Mapping[str, Any]],
    text: str = "",
    usage: Usage | None = None,
    purpose: Purpose | None = None,
    check: Check | None = None,
) -> ScriptedStep:
    """Tool calls `(name, arguments)`, all in one answer, after an optional text.

    Raises:
        ValueError: no call was given.
    """
    if not tool_calls:
        raise ValueError('calls() needs at least one call, e.g. calls(("read", {"path": "TOOLS.md"}))')
    return ScriptedStep(
        text=text, tool_calls=tool_calls, usage=usage, stop_reason="toolUse", purpose=purpose, check=check
    )


def fails(
    error: ModelError, *, after_text: str = "", purpose: Purpose | None = None, check: Check | None = None
) -> ScriptedStep:
    """A failed call: `after_text` is streamed, then `error` is raised."""
    return ScriptedStep(text=after_text, error=error, purpose=purpose, check=check)


class ScriptedModel:
    """A `ChatModel` that answers from a script, in order, and refuses everything else.

    `requests` keeps a deep copy of each request. Text is streamed in pieces of `piece_chars` characters. Tool
    calls get the ids `call_1`, `call_2`, …

    The name of an ended session is requested in the background, at any place among other requests: it takes
    the script's next step of the purpose `slug`, or fails if there is none.

    `assert_complete` raises a `ScriptViolation` again, in case a broad `except` caught it.
    """

    def __init__(
        self,
        *steps: ScriptedStep,
        name: str = "scripted/model",
        context_window_tokens: int | None = 128_000,
        piece_chars: int = 7,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.requests: list[ModelRequest] = []
        self.name = name
        self.context_window_tokens = context_window_tokens
        self._piece_chars = max(1, piece_chars)
        self._now_ms = now_ms or Clock().now_ms
        self._steps = deque(steps)
        self._violations: list[ScriptViolation] = []
        self._call_numbers = itertools.count(1)
        self._closed = False

    @property
    def unused_steps(self) -> tuple[ScriptedStep, ...]:
        return tuple(self._steps)

    def add(self, *steps: ScriptedStep) -> None:
        self._steps.extend(steps)

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answers with the next step.

        Raises:
            ScriptViolation: no step is left, the purpose differs, the check failed, or the model is closed.
            ModelError: the step says so.
        """
        self.requests.append(pickle.loads(pickle.dumps(request)))
        step = self._next_step(request)
        for start in range(0, len(step.text), self._piece_chars):
            yield TextDelta(text=step.text[start : start + self._piece_chars])
            # A real stream waits for the network here, and other tasks run.
            await asyncio.sleep(0)
        if step.error is not None:
            raise step.error
        yield self._message(step)

    async def aclose(self) -> None:
        """Makes every further call a violation."""
        self._closed = True

    def assert_complete(self) -> None:
        """Raises the first violation, or one that names the steps nobody asked for."""
        if self._violations:
            raise self._violations[0]
        if self._steps:
            raise ScriptViolation(
                f"{len(self._steps)} of the model's scripted steps were not used; the first is "
                f"{_described(self._steps[0])}."
            )

    def _next_step(self, request: ModelRequest) -> ScriptedStep:
        asked = f"Request {len(self.requests)} ({request.purpose}, last message: {_last_words(request)})"
        if self._closed:
            raise self._violation(f"{asked} came after aclose().")
        steps = [step for step in self._steps if (step.purpose == "slug") == (request.purpose == "slug")]
        if not steps and request.purpose == "slug":
            raise ModelUnavailable(f"{asked} is not in the script.")
        if not steps:
            raise self._violation(f"{asked} is not in the script: all its steps were used.")
        step = steps[0]
        self._steps.remove(step)
        if step.purpose is not None and step.purpose != request.purpose:
            raise self._violation(f"{asked} was to be a {step.purpose}, for {_described(step)}.")
        if step.check is not None:
            try:
                passed = step.check(request)
            except AssertionError as error:
                raise self._violation(f"{asked} failed the check of its step: {error}") from error
            if passed is False:
                raise self._violation(f"{asked} failed the check of its step, {_described(step)}.")
        return step

    def _violation(self, message: str) -> ScriptViolation:
        violation = ScriptViolation(message)
        self._violations.append(violation)
        return violation

    def _message(self, step: ScriptedStep) -> AssistantMessage:
        blocks: list[Text | ToolCall] = [Text(text=step.text)] if step.text else []
        for tool_name, arguments in step.tool_calls:
            call_id = f"call_{next(self._call_numbers)}"
            blocks.append(ToolCall(id=call_id, name=tool_name, arguments=copy.deepcopy(dict(arguments))))
        provider, _, model = self.name.partition("/")
        return AssistantMessage(
            content=tuple(blocks),
            api="scripted",
            provider=provider,
            model=model,
            usage=step.usage,
            stop_reason=step.stop_reason,
            timestamp_ms=self._now_ms(),
        )


class Clock:
    """A clock that stands still until it is moved; pass it, or its `now_ms`, as a clock.

    Raises:
        TypeError: the start is not a `datetime`.
        ValueError: the start has no time zone.
    """

    def __init__(self, start: datetime = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)) -> None:
        if not isinstance(start, datetime):
            raise TypeError(
                f"a clock needs a datetime, such as datetime(2026, 3, 14, tzinfo=UTC), not {start!r}"
            )
        if start.tzinfo is None:
            raise ValueError(f"a clock needs a time zone, and {start.isoformat()} has none")
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def now_ms(self) -> int:
        """The time in whole milliseconds since the epoch."""
        return round(self._now.timestamp() * 1000)

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Moves the clock forward, or back by negative values. A day always has 24 hours."""
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._now = (self._now.astimezone(UTC) + passed).astimezone(self._now.tzinfo)


class CountingIds:
    """Ids in order, eight hexadecimal digits after `prefix`: `00000001`, `00000002`, …"""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}{next(self._numbers):08x}"


def _described(step: ScriptedStep) -> str:
    if step.error is not None:
        return f"the failure {type(step.error).__name__}"
    if step.tool_calls:
        return "the calls " + ", ".join(tool_name for tool_name, _ in step.tool_calls)
    return f"the text {step.text[:60]!r}"


def _last_words(request: ModelRequest) -> str:
    if not request.messages:
        return "none"
    texts = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    return repr(" ".join(texts)[-80:])
