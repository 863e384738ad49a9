"""The loop of one turn: asks the model and runs its tools until it calls none. Reads no file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Protocol

from nacre.runtime.contracts.errors import (
    BadModelReply,
    ConfigError,
    ContextOverflow,
    ModelError,
    TurnCancelled,
    UsageLimitReached,
)
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Emit,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.model import AnswerRestarted, Ask, ModelRequest, TextDelta
from nacre.runtime.contracts.silence import SilenceFilter
from nacre.runtime.tools.toolbox import Toolbox, ToolOutcome
from nacre.runtime.turn.output import OutputCheck
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    StopReason,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    message_text,
)

_STILL_CALLING = (
    "The model was still calling tools after {} steps, so the turn was stopped. "
    "Ask for less at once, or raise agents.defaults.maxSteps."
)


class StepLimitReached(BadModelReply):
    """The model kept calling tools after all steps of the turn were used up."""


class Conversation(Protocol):
    """What the loop needs from a conversation: a turn or a flush."""

    async def request(self) -> ModelRequest:
        """Returns the next request; makes room in the window first if that is due."""

    async def make_room(self, overflow: ContextOverflow, /) -> bool:
        """Handles a request that does not fit; returns `True` if asking again is worthwhile."""

    async def record(self, message: Message) -> None:
        """Writes a message to disk before it returns."""

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps the beginning of an answer that is requested again, where no model sees it."""

    async def record_joined_messages(self) -> None:
        """Writes the messages that were sent to the turn while its tools ran."""

    def now_ms(self) -> int: ...


async def run_loop(
    conversation: Conversation,
    *,
    ask: Ask,
    toolbox: Toolbox,
    emit: Emit,
    max_steps: int,
    bounds: TurnBounds | None = None,
    output: OutputCheck | None = None,
) -> AssistantMessage:
    """Asks, runs the tools that the model calls, and asks again, until it answers without a call.

    Each message is recorded before the next step begins. After `max_steps` model calls, the result of each
    open tool call is an error, and the model may answer once more. `bounds` may end the turn sooner; each
    call then has a result as well. `output` may refuse an answer, which is requested again; without `output`
    a tool may return the answer, see `ToolOutput.is_answer`.

    Raises:
        ModelError: the model could not be asked; its partial answer is recorded.
        StepLimitReached, OutputInvalid: too many steps; too many refused answers.
        UsageLimitReached: a limit of `bounds` is reached.
        TurnCancelled: the turn was stopped after its tools.
    """
    bounds = bounds or TurnBounds()
    for step in range(max_steps + 1):
        bounds.check_request()
        answer = None
        while answer is None:
            request = await conversation.request()
            try:
                answer = await _answer(conversation, ask, request, emit)
            except ContextOverflow as overflow:
                if not await conversation.make_room(overflow):
                    raise
        if output is not None:
            answer = output.checked(answer)
        await conversation.record(answer)
        bounds.count_answer(answer)
        if output is not None and output.problem:
            await _ask_again(conversation, answer, output, emit)
            continue
        if not answer.tool_calls:
            return answer
        if step == max_steps:
            break
        if step == max_steps - 1:
            used_up = f"this turn's {max_steps} steps are used up. Answer now with what you have."
            await _refuse(conversation, answer, used_up)
            continue
        try:
            bounds.check_tools(answer.tool_calls)
        except UsageLimitReached as reached:
            await _refuse(conversation, answer, str(reached))
            raise
        with bounds.running_tools():
            answered = await _run_tools(conversation, answer.tool_calls, toolbox, emit)
        if answered and output is None:
            return await _record_hand_off(conversation, answered, emit)
        await conversation.record_joined_messages()
    raise StepLimitReached(_STILL_CALLING.format(max_steps))


async def _answer(
    conversation: Conversation, ask: Ask, request: ModelRequest, emit: Emit
) -> AssistantMessage:
    silence = SilenceFilter()
    said: list[str] = []
    answer: AssistantMessage | None = None
    asked_ms, first_token_ms = conversation.now_ms(), 0

    async def discard(problem: str) -> None:
        nonlocal silence
        if said:
            await conversation.set_aside(_partial_answer(conversation, said, "error", problem))
            emit(AnswerDiscarded(problem=problem))
        said.clear()
        silence = SilenceFilter()

    try:
        async for item in ask(request):
            if isinstance(item, AssistantMessage):
                answer = item
                continue
            first_token_ms = first_token_ms or max(0, conversation.now_ms() - asked_ms)
            if isinstance(item, AnswerRestarted):
                first_token_ms = 0
                await discard(item.problem)
            elif isinstance(item, TextDelta):
                said.append(item.text)
                _emit_text(emit, silence.feed(item.text))
        if answer is None:
            raise BadModelReply("The model's answer ended without a final message. Ask again.")
    except asyncio.CancelledError:
        if said:
            await conversation.record(_partial_answer(conversation, said, "aborted", "cancelled"))
        raise
    except ContextOverflow as overflow:
        await discard(str(overflow))  # some providers report only after the answer that they read a part
        raise
    except ModelError as error:
        await conversation.record(_partial_answer(conversation, said, "error", str(error)))
        raise
    _emit_text(emit, silence.finish())
    took_ms = max(0, conversation.now_ms() - asked_ms)
    if took_ms:
        answer = answer.timed(took_ms, first_token_ms)
    if answer.stop_reason == "length":
        after = f" after {answer.usage.output_tokens} tokens" if answer.usage else ""
        cut = f"The answer was cut off{after}, the most that one answer may have. Ask to go on."
        emit(Warned(message=answer.error_message or cut))
    return answer


def _partial_answer(
    conversation: Conversation, said: Sequence[str], stop_reason: StopReason, problem: str
) -> AssistantMessage:
    text = "".join(said)
    return AssistantMessage(
        content=(Text(text=text),) if text else (),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason=stop_reason,
        timestamp_ms=conversation.now_ms(),
        error_message=problem,
    )


def _emit_text(emit: Emit, text: str) -> None:
    if text:
        emit(TextStreamed(text=text))


async def _run_tools(
    conversation: Conversation, calls: Sequence[ToolCall], toolbox: Toolbox, emit: Emit
) -> str:
    """Runs the calls concurrently; their results are recorded in the order of the calls.

    Returns the first result that is the reply of the turn, or an empty text.
    """
    answered = ""
    for call in calls:
        emit(ToolStarted(call_id=call.id, tool_name=call.name, arguments=call.arguments))
    running = [asyncio.create_task(run_tool(toolbox, call, emit)) for call in calls]
    try:
        for task in running:
            outcome = await task
            await conversation.record(outcome.message)
            if outcome.is_answer and not answered:
                answered = message_text(outcome.message)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return answered


async def _record_hand_off(conversation: Conversation, text: str, emit: Emit) -> AssistantMessage:
    """Records the reply of a hand-off as the answer of the turn."""
    answer = replace(_partial_answer(conversation, [text], "stop", ""), error_message=None)
    _emit_text(emit, text)
    await conversation.record(answer)
    return answer


async def run_tool(toolbox: Toolbox, call: ToolCall, emit: Emit) -> ToolOutcome:
    """Runs one call and emits its progress and its end."""

    def progress(text: str) -> None:
        emit(ToolProgressed(call_id=call.id, tool_name=call.name, text=text))

    outcome = await toolbox.run(call, progress=progress)
    emit(
        ToolEnded(
            call_id=call.id,
            tool_name=call.name,
            is_error=outcome.message.is_error,
            summary=outcome.summary,
            result=message_text(outcome.message),
            error=outcome.error,
        )
    )
    return outcome


async def _refuse(conversation: Conversation, answer: AssistantMessage, reason: str) -> None:
    for call in answer.tool_calls:
        await conversation.record(
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name=call.name,
                content=(Text(text=f"Not run: {reason}"),),
                is_error=True,
                timestamp_ms=answer.timestamp_ms,
            )
        )


async def _ask_again(
    conversation: Conversation, answer: AssistantMessage, output: OutputCheck, emit: Emit
) -> None:
    emit(AnswerDiscarded(problem=output.problem))
    await _refuse(conversation, answer, output.problem)
    await output.refuse(answer)


@contextmanager
def paused(deadline: asyncio.Timeout) -> Iterator[None]:
    """Stops a running deadline, and continues it with the remaining time.

    For work with its own limits that takes time in proportion to the history: a compaction that the turn's
    deadline stops each time would never finish.
    """
    loop = asyncio.get_running_loop()
    ends_at = deadline.when()
    left_seconds = None if ends_at is None else ends_at - loop.time()
    deadline.reschedule(None)
    try:
        yield
    finally:
        deadline.reschedule(None if left_seconds is None else loop.time() + left_seconds)


class JoinQueue:
    """The messages that join one running turn. It accepts messages while it is `open`."""

    def __init__(self) -> None:
        self._waiting: list[Inbound] = []
        self._is_open = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Accepts messages inside the block; messages left at its end are dropped."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            self._waiting.clear()

    def put(self, inbound: Inbound) -> bool:
        """Accepts a message; `False` if the turn can no longer read it."""
        if self._is_open:
            self._waiting.append(inbound)
        return self._is_open

    def take(self) -> list[Inbound]:
        taken, self._waiting = self._waiting, []
        return taken


@dataclass(frozen=True, kw_only=True)
class UsageLimits:
    """The most that one turn may use; `None` is no limit.

    `tokens` is the total of prompts and answers of the turn's model calls, cached or not; `cost_usd` is their
    cost in US dollars. Both count what the provider reports; for a provider that reports nothing, use
    `model_calls`. Calls for notes and summaries are not counted, as in `Reply.usage`. A limit ends a turn
    before the next step, so the last step may exceed it.

    Raises:
        ConfigError: a limit is negative.
    """

    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    cost_usd: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not value >= 0:
                raise ConfigError(
                    f"UsageLimits({each.name}={value!r}) is invalid. Use zero or more, or None."
                )


class TurnBounds:
    """The limits of one turn, what it has used of them, and whether it ends after its running tools.

    Usage and calls also count for `within`, the bounds of a surrounding turn.
    """

    def __init__(self, limits: UsageLimits | None = None, *, within: TurnBounds | None = None) -> None:
        self._limits = limits or UsageLimits()
        self._within = within
        self._used = Usage()
        self._model_calls = 0
        self._tool_calls = 0
        self._tools_are_running = False
        self._ends_after_tools = False
        self.joining = JoinQueue()

    def end_after_tools(self) -> bool:
        """Ends the turn when its running tools are done; `False` if none are running."""
        self._ends_after_tools = self._tools_are_running
        return self._ends_after_tools

    def count_answer(self, answer: AssistantMessage) -> None:
        self._count(answer.usage, model_calls=1)

    def check_request(self) -> None:
        """Checks the limits before a model call.

        Raises:
            UsageLimitReached: a limit is used up.
            TurnCancelled: the turn was stopped after its tools.
        """
        if self._ends_after_tools:
            raise TurnCancelled("The turn was stopped after its tools were done. Their results are kept.")
        self._check(model_calls=1)

    def check_tools(self, calls: Sequence[ToolCall]) -> None:
        """Checks the limits before the tools of an answer run, and counts the calls.

        Raises:
            UsageLimitReached: these calls are too many, or another limit is used up.
        """
        self._check(tool_calls=len(calls))
        self._count(tool_calls=len(calls))

    @contextmanager
    def running_tools(self) -> Iterator[None]:
        """Inside the block, a stop may wait for the tools."""
        self._tools_are_running = True
        try:
            yield
        finally:
            self._tools_are_running = False

    def _count(self, usage: Usage | None = None, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        if self._within is not None:
            self._within._count(usage, model_calls=model_calls, tool_calls=tool_calls)
        self._model_calls += model_calls
        self._tool_calls += tool_calls
        self._used += usage or Usage()

    def _check(self, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        if self._within is not None:
            self._within._check(model_calls=model_calls, tool_calls=tool_calls)
        limits = self._limits
        if limits.model_calls is not None and self._model_calls + model_calls > limits.model_calls:
            raise _reached(f"{limits.model_calls} model calls", "model_calls")
        if limits.tool_calls is not None and self._tool_calls + tool_calls > limits.tool_calls:
            raise _reached(f"{limits.tool_calls} tool calls", "tool_calls")
        if limits.tokens is not None and self._used.context_tokens >= limits.tokens and self._model_calls:
            raise _reached(f"{limits.tokens} tokens", "tokens")
        if limits.cost_usd is not None and self._used.cost_usd >= limits.cost_usd and self._model_calls:
            raise _reached(f"{limits.cost_usd:.15g} US dollars", "cost_usd")


def _reached(what: str, name: str) -> UsageLimitReached:
    return UsageLimitReached(
        f"The turn was stopped because it used up its {what}. Everything until then is kept: "
        f"ask to go on, ask for less at once, or raise {name} of its UsageLimits."
    )
