"""Tools, their calls, and the size of their results. A tool's failure never ends a turn."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import NewId
from nacre.runtime.contracts.model import ToolSpec
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import (
    MAX_KEPT_CHARS,
    Image,
    Text,
    ToolCall,
    ToolResultMessage,
    WholeResults,
    message_text,
)

log = logging.getLogger(__name__)


RESULT_PREFIX = "result:"
"""The prefix by which `read` recognizes a full result of this session."""

MAX_RESULT_CHARS = 16_000
WINDOW_SHARE = 0.3
STEP_SHARE = 0.5
CHARS_PER_TOKEN = 4
MIN_RESULT_CHARS = 2_000
LAST_RESORT_CHARS = 400
"""The size of each result after a step has used its share."""

MAX_PAGE_CHARS = 14_000
MAX_TAIL_CHARS = 4_000
TAIL_SHARE = 0.3

_IMPORTANT_TAIL = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|traceback|panic|abort(?:ed)?|exit (?:code|status)|errno"
    r"|total|totals|summary|result|passed|done|finished|completed?)\b|[}\]]\s*\Z",
    re.IGNORECASE,
)


class ResultLimits(Record):
    """The limits of one result, and of all results of one step (the calls of one message).

    `page_chars` is the size of a page of `read`, small enough that a page is not cut again.
    """

    result_chars: int
    result_tokens: int
    step_tokens: int
    page_chars: int


def result_limits(budget: ContextBudget) -> ResultLimits:
    """The limits for a context window."""
    result_tokens = int(budget.window_tokens * WINDOW_SHARE)
    return ResultLimits(
        result_chars=min(MAX_RESULT_CHARS, result_tokens * CHARS_PER_TOKEN),
        result_tokens=result_tokens,
        step_tokens=int(budget.compact_at * STEP_SHARE),
        # Even in Chinese, a token is seldom less than a character.
        page_chars=max(MIN_RESULT_CHARS, min(MAX_PAGE_CHARS, result_tokens * 3 // 4)),
    )


class ToolResults:
    """Cuts the results of a session's tools to size, step by step."""

    def __init__(
        self,
        whole: WholeResults,
        limits: ResultLimits,
        *,
        count_tokens: Callable[[str], int],
        new_id: NewId,
    ) -> None:
        self._whole = whole
        self._limits = limits
        self._count_tokens = count_tokens
        self._new_id = new_id
        self._calls_left = 0
        self._tokens_left = limits.step_tokens

    def begin_step(self, calls: int) -> None:
        self._calls_left = calls
        self._tokens_left = self._limits.step_tokens

    async def fitted(self, message: ToolResultMessage) -> ToolResultMessage:
        """Cuts a message to size for storage; the same object if it fits. Images stay.

        If the full result cannot be stored, the turn continues, and the note says that the rest is lost.
        """
        self._calls_left = max(0, self._calls_left - 1)
        text = message_text(message)
        # Reserves the minimum for each later result.
        reserved_tokens = self._calls_left * MIN_RESULT_CHARS // CHARS_PER_TOKEN
        room_tokens = min(self._limits.result_tokens, self._tokens_left - reserved_tokens)
        limit_chars, tokens = await asyncio.to_thread(
            fitting_chars, text, self._limits.result_chars, room_tokens, self._count_tokens
        )
        self._tokens_left -= tokens
        if limit_chars >= len(text):
            return message
        name, problem = await self._stored(text)
        log.info(
            "a result of %s was cut: %d of %d characters, %d tokens left in this step",
            message.tool_name,
            limit_chars,
            len(text),
            self._tokens_left,
        )
        path = f"{RESULT_PREFIX}{name}" if name else ""
        return replace(
            message,
            content=(
                Text(text=cut(text, limit_chars, path=path, problem=problem)),
                *(block for block in message.content if isinstance(block, Image)),
            ),
            details={**(message.details or {}), "wholeChars": len(text), "whole": path or None},
        )

    async def _stored(self, text: str) -> tuple[str, str]:
        name = self._new_id()
        try:
            await self._whole.keep(name, text)
        except (SessionError, ValueError) as error:
            log.warning("could not store a full tool result: %s", error)
            return "", "The rest could not be stored"
        return name, ""


def fitting_chars(
    text: str, limit_chars: int, room_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[int, int]:
    """The number of characters of a text that fit, and their approximate tokens.

    At least `MIN_RESULT_CHARS` fit while there is any room, and `LAST_RESORT_CHARS` if there is none.
    """
    least_chars = MIN_RESULT_CHARS if room_tokens > 0 else LAST_RESORT_CHARS
    if len(text) <= least_chars:
        return len(text), count_tokens(text)
    chars = min(len(text), limit_chars)
    tokens = count_tokens(text[:chars])
    while tokens > room_tokens and chars > least_chars:
        chars = max(least_chars, min(chars * 9 // 10, chars * max(room_tokens, 0) // tokens))
        tokens = count_tokens(text[:chars])
    return chars, tokens


def cut(text: str, limit_chars: int, *, path: str, problem: str = "") -> str:
    """The beginning of a text, its end if that shows the outcome, and a note about the rest.

    `path` is where `read` finds the full text; if there is none, `problem` says why.
    """
    tail_chars = 0
    if _IMPORTANT_TAIL.search(text[-MIN_RESULT_CHARS:]) and limit_chars >= MIN_RESULT_CHARS:
        tail_chars = min(MAX_TAIL_CHARS, int(limit_chars * TAIL_SHARE))
    head = text[: limit_chars - tail_chars]
    line_end = head.rfind("\n", len(head) * 4 // 5)
    if line_end > 0:
        head = head[: line_end + 1]
    tail = text[len(text) - tail_chars :] if tail_chars else ""
    line_start = tail.find("\n", 0, len(tail) // 5)
    if line_start >= 0:
        tail = tail[line_start + 1 :]
    note = left_out_note(text, len(head), len(tail), path=path, problem=problem)
    return "\n\n".join(part for part in (head.rstrip("\n"), note, tail) if part)


def left_out_note(text: str, head_chars: int, tail_chars: int, *, path: str, problem: str = "") -> str:
    """A note about the text left out between the beginning and the end, and how to read on; see `cut`."""
    left_out = f"{len(text) - head_chars - tail_chars} of {len(text)} characters left out here"
    if not path:
        return f"[... {left_out}. {problem}; ask for less at once to see more. ...]"
    line = text.count("\n", 0, head_chars) + 1
    char = head_chars - (text.rfind("\n", 0, head_chars) + 1)
    more = f", char={char + 1}" if char else ""
    kept = f" The first {MAX_KEPT_CHARS} characters are kept." if len(text) > MAX_KEPT_CHARS else ""
    return f'[... {left_out}. To go on: read with path="{path}", from={line}{more}.{kept} ...]'


MOST_IMAGES = 4
"""The most images of a result: each costs as much as a page of text in every later request."""


class ToolFailed(Exception):
    """A tool call failed; the message is a sentence for the model.

    `detail` is for the log and the author, and never reaches a model. `ToolEnded.error` is the exception
    itself, which may be of a subclass.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class ToolArguments(BaseModel):
    """The base class of tool arguments. Unknown names are rejected, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ToolOutput(Record):
    """A tool's result: `text` for the model, `summary` as one short line for people.

    `images` follow the text if the model accepts images; otherwise the text says that they are not shown.
    With `is_answer`, the text is the reply of the turn.
    """

    text: str
    summary: str = ""
    is_answer: bool = False
    images: tuple[Image, ...] = ()


class CallScope(Record):
    """A running call. `cancelled` is set when its result is no longer needed.

    `progress` sends one short line for people. Both are thread-safe. `is_approved` means that the owner
    approved this call.
    """

    call_id: str
    progress: Callable[[str], None]
    cancelled: threading.Event
    is_approved: bool = False


class Tool(Record):
    """A tool in one chat: its name, its description for the model, its arguments and its function.

    `run` receives a validated instance of `arguments` and raises `ToolFailed` with a sentence if it fails.
    `timeout_seconds` limits a call; `None` means the toolbox's limit. `needs_approval` says whether the owner
    must approve a call; a function decides by the arguments and may return the reason.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Any, CallScope], Awaitable[ToolOutput]]
    timeout_seconds: float | None = None
    needs_approval: bool | Callable[[Any], bool | str] = False

    def spec(self) -> ToolSpec:
        return _spec(self.name, self.description, self.arguments)


class ToolOutcome(Record):
    """A finished call: the message for the transcript, a line for people, and the error."""

    message: ToolResultMessage
    summary: str
    error: BaseException | None = None
    is_answer: bool = False


class ToolGuard(Protocol):
    """A check before and after each call of a toolbox."""

    async def before(self, call: ToolCall, tool: Tool, arguments: BaseModel, /) -> bool:
        """Returns once the call may run, and whether the owner approved it. Its arguments are valid.

        Raises:
            ToolFailed: the call must not run; the message tells the model why.
        """

    async def after(self, call: ToolCall, outcome: ToolOutcome, /) -> None:
        """Receives the outcome of a call, including one that was not run."""


class Toolbox:
    """A fixed set of tools with unique names. A call that takes longer than `timeout_seconds` is stopped.

    `guard` returns the guard of each call. `image_problem` returns why an image is not shown to the model, or
    an empty string.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        now_ms: Callable[[], int],
        timeout_seconds: float | None = None,
        guard: Callable[[], ToolGuard] | None = None,
        image_problem: Callable[[Image], str] = lambda _image: "this model is shown none",
    ) -> None:
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError(f"tool names must be unique, got {[tool.name for tool in tools]}")
        self._now_ms = now_ms
        self._timeout_seconds = timeout_seconds
        self._guard = guard
        self._image_problem = image_problem

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec() for tool in self._tools.values())

    async def run(
        self, call: ToolCall, *, progress: Callable[[str], None] = lambda _text: None
    ) -> ToolOutcome:
        """Runs one call. Every failure becomes an error result; only a cancellation is raised.

        `progress` is called on the event loop's thread with each progress line until the call ends.
        """
        scope = _scope(call.id, progress)
        images: tuple[Image, ...] = ()
        raised: BaseException | None = None
        is_answer = False
        try:
            output = await self._output(call, scope)
            text, summary, is_error = output.text, output.summary or _first_line(output.text), False
            images, is_answer = output.images, output.is_answer
        except ToolFailed as failure:
            text, summary, is_error, raised = str(failure), _first_line(str(failure)), True, failure
            if failure.detail:
                log.warning("tool %s failed: %s", call.name, failure.detail)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # A broken tool must end neither the turn nor the program; the traceback is logged.
            log.exception("tool %s failed", call.name)
            text = f"The tool {call.name!r} failed: {type(error).__name__}: {error}"
            summary, is_error, raised = _first_line(text), True, error
        finally:
            scope.cancelled.set()
        message = self._message(call, text, images, is_error=is_error)
        outcome = ToolOutcome(message=message, summary=summary, error=raised, is_answer=is_answer)
        if self._guard is not None:
            await self._guard().after(call, outcome)
        return outcome

    async def _output(self, call: ToolCall, scope: CallScope) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise ToolFailed(f"There is no tool named {call.name!r}. The tools here are: {known}.")
        if call.invalid_arguments is not None:
            raise ToolFailed(
                f"The arguments of {call.name!r} were not a JSON object: {call.invalid_arguments[:200]!r}. "
                "Call it again with valid JSON."
            )
        try:
            arguments = tool.arguments.model_validate(dict(call.arguments))
        except ValidationError as error:
            raise ToolFailed(
                f"The arguments of {call.name!r} do not fit: {problems_of(error)}. "
                "Correct them and call it again."
            ) from error
        if self._guard is not None:
            scope = replace(scope, is_approved=await self._guard().before(call, tool, arguments))
        seconds = self._timeout_seconds if tool.timeout_seconds is None else tool.timeout_seconds
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await tool.run(arguments, scope)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise ToolFailed(
                f"The tool {call.name!r} was stopped after {seconds:.15g} seconds. "
                "What it did until then stays done. Ask it for less at once, or do without it."
            ) from error

    def _message(
        self, call: ToolCall, text: str, images: Sequence[Image], *, is_error: bool
    ) -> ToolResultMessage:
        shown: list[Image] = []
        for number, image in enumerate(images, 1):
            problem = self._image_problem(image)
            if not problem and len(shown) == MOST_IMAGES:
                problem = f"a result may show {MOST_IMAGES} at most"
            if problem:
                text += f"\n[Image {number} is not shown: {problem}.]"
            else:
                shown.append(image)
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=(Text(text=text), *shown),
            is_error=is_error,
            timestamp_ms=self._now_ms(),
        )


def _scope(call_id: str, progress: Callable[[str], None]) -> CallScope:
    loop, here, cancelled = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def send(line: str) -> None:
        if not cancelled.is_set():
            progress(line)

    def report(text: str) -> None:
        line = " ".join(text.split())
        if threading.get_ident() == here:
            send(line)
            return
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(send, line)

    return CallScope(call_id=call_id, progress=report, cancelled=cancelled)


@lru_cache(maxsize=4_096)  # most chats have the same tools
def _spec(name: str, description: str, arguments: type[ToolArguments]) -> ToolSpec:
    return ToolSpec(name=name, description=description, parameters=_schema(arguments))


@lru_cache(maxsize=4_096)
def _schema(arguments: type[ToolArguments]) -> Mapping[str, Any]:
    # Cached because building it takes longer than the rest of a turn, and chats describe a tool differently.
    schema = arguments.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for prop in schema.get("properties", {}).values():
        if isinstance(prop, dict):  # a foreign schema may have `true` here
            prop.pop("title", None)
    return schema


def problems_of(error: ValidationError) -> str:
    """The problems with the path of each field, without the values."""
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)
    )


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:120]


R = TypeVar("R")


async def on_its_own_thread(function: Callable[[], R]) -> R:
    """Runs a function on its own thread and returns its result.

    A function that hangs blocks no other thread, and does not keep the program from ending.
    """
    done: Future[R] = Future()
    done.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(function))
        except StopIteration as error:
            # A future rejects this exception, so its caller would wait forever.
            done.set_exception(RuntimeError(f"it raised StopIteration({error})"))
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)

    threading.Thread(target=run, name="tool", daemon=True).start()
    return await asyncio.wrap_future(done)
