"""Tools: what one is, and how calls become results. No tool's failure ever ends a turn."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.ids import NewId
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
"""How `read` is told that a path names a whole result of this session, and no file of the workspace."""

MAX_RESULT_CHARS = 16_000
WINDOW_SHARE = 0.3
STEP_SHARE = 0.5
CHARS_PER_TOKEN = 4
MIN_RESULT_CHARS = 2_000
LAST_RESORT_CHARS = 400
"""What is kept of each further result once a step has used up its share."""

MAX_PAGE_CHARS = 14_000
MAX_TAIL_CHARS = 4_000
TAIL_SHARE = 0.3

_IMPORTANT_TAIL = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|traceback|panic|abort(?:ed)?|exit (?:code|status)|errno"
    r"|total|totals|summary|result|passed|done|finished|completed?)\b|[}\]]\s*\Z",
    re.IGNORECASE,
)


class ResultLimits(Record):
    """Most of one result, and of all results of one step: the answers to the calls of one message.

    `page_chars` is what `read` shows at once, so little that a page is not cut again.
    """

    result_chars: int
    result_tokens: int
    step_tokens: int
    page_chars: int


def result_limits(budget: ContextBudget) -> ResultLimits:
    """The limits in a window."""
    result_tokens = int(budget.window_tokens * WINDOW_SHARE)
    return ResultLimits(
        result_chars=min(MAX_RESULT_CHARS, result_tokens * CHARS_PER_TOKEN),
        result_tokens=result_tokens,
        step_tokens=int(budget.compact_at * STEP_SHARE),
        # a token is seldom less than a character, also in Chinese
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
        """The results of so many calls are next."""
        self._calls_left = calls
        self._tokens_left = self._limits.step_tokens

    async def fitted(self, message: ToolResultMessage) -> ToolResultMessage:
        """The message as it is to be stored; the same one when it fits. Images stay: they had a limit before.

        A whole result that cannot be kept costs no turn: its note says that the rest is gone.
        """
        self._calls_left = max(0, self._calls_left - 1)
        text = message_text(message)
        # each result still to come is left its least part
        reserved_tokens = self._calls_left * MIN_RESULT_CHARS // CHARS_PER_TOKEN
        room_tokens = min(self._limits.result_tokens, self._tokens_left - reserved_tokens)
        limit_chars, tokens = await asyncio.to_thread(
            fitting_chars, text, self._limits.result_chars, room_tokens, self._count_tokens
        )
        self._tokens_left -= tokens
        if limit_chars >= len(text):
            return message
        name, problem = await self._kept(text)
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

    async def _kept(self, text: str) -> tuple[str, str]:
        name = self._new_id()
        try:
            await self._whole.keep(name, text)
        except (SessionError, ValueError) as error:
            log.warning("a whole tool result could not be kept: %s", error)
            return "", "The rest could not be kept on disk"
        return name, ""


def fitting_chars(
    text: str, limit_chars: int, room_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[int, int]:
    """How many characters of a text may stay, and about how many tokens these take.

    At least `MIN_RESULT_CHARS` while there is room at all, and `LAST_RESORT_CHARS` when there is none.
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
    """The beginning of a text, its end where that tells how it went, and a note of what is between.

    `path` is where `read` finds the whole; without one `problem` says why there is none.
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
    """How much of a text is left out between its beginning and its end, and how to read on; see `cut`."""
    left_out = f"{len(text) - head_chars - tail_chars} of {len(text)} characters left out here"
    return f"[... {left_out}. {_how_to_go_on(text[:head_chars], path, problem, len(text))} ...]"


def _how_to_go_on(head: str, path: str, problem: str, text_chars: int) -> str:
    if not path:
        return f"{problem}; ask for less at once to see more."
    line = head.count("\n") + 1
    char = len(head) - (head.rfind("\n") + 1)
    more = f", char={char + 1}" if char else ""
    kept = f" The first {MAX_KEPT_CHARS} characters are kept." if text_chars > MAX_KEPT_CHARS else ""
    return f'To go on: read with path="{path}", from={line}{more}.{kept}'


MOST_IMAGES = 4
"""So many images of one result are shown: each costs as much as a page of text, in every later request."""


class ToolFailed(Exception):
    """A tool could not do what it was asked; the text is a sentence for the model."""


class ToolArguments(BaseModel):
    """Base of every tool's arguments: unknown names are refused, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ToolOutput(Record):
    """A tool's answer: `text` for the model, `summary` one short line for a person watching.

    `images` are shown behind the text to a model that takes them; else the text says that they are not.
    """

    text: str
    summary: str = ""
    images: tuple[Image, ...] = ()


class CallScope(Record):
    """One call while it runs. `cancelled` is set when nobody waits for its result any more.

    `progress` takes one short line for a person who watches; both may be used from any thread. `is_approved`:
    the owner was shown this call, and let it run.
    """

    call_id: str
    progress: Callable[[str], None]
    cancelled: threading.Event
    is_approved: bool = False


class Tool(Record):
    """A tool in one chat: its name, what the model reads about it, its arguments, and the work.

    `run` gets a validated instance of `arguments` and raises `ToolFailed` with a sentence when it
    cannot do the work. `timeout_seconds` is how long a call may take, `None` as long as the toolbox allows.
    `needs_approval` says whether the owner approves a call first; a function says it of the
    arguments, and why if it gives a text.
    """

    name: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Any, CallScope], Awaitable[ToolOutput]]
    timeout_seconds: float | None = None
    needs_approval: bool | Callable[[Any], bool | str] = False

    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return ToolSpec(name=self.name, description=self.description, parameters=_schema(self.arguments))


class ToolOutcome(Record):
    """One finished call: the message for the transcript and the line for a person."""

    message: ToolResultMessage
    summary: str


class ToolGuard(Protocol):
    """What stands before and behind each call of a toolbox."""

    async def before(self, call: ToolCall, tool: Tool, arguments: BaseModel, /) -> bool:
        """Returns when the call may run, and whether the owner approved it; its arguments fit.

        Raises:
            ToolFailed: it is not run; the text tells the model why.
        """

    async def after(self, call: ToolCall, outcome: ToolOutcome, /) -> None:
        """Hears how a call ended, also one that was not run."""


class Toolbox:
    """A fixed set of tools with unique names; a call that takes longer than `timeout_seconds` is stopped.

    `guard` is asked before each call and told behind it. `image_problem` says why an image is not shown to
    the model, empty where it is.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        now_ms: Callable[[], int],
        timeout_seconds: float | None = None,
        guard: ToolGuard | None = None,
        image_problem: Callable[[Image], str] = lambda _image: "this model is shown none",
    ) -> None:
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError(f"tool names must differ, got {[tool.name for tool in tools]}")
        self._now_ms = now_ms
        self._timeout_seconds = timeout_seconds
        self._guard = guard
        self._image_problem = image_problem

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, in the order they were given."""
        return tuple(tool.spec() for tool in self._tools.values())

    async def run(
        self, call: ToolCall, *, progress: Callable[[str], None] = lambda _text: None
    ) -> ToolOutcome:
        """Runs one call. Anything that goes wrong becomes an error result; only cancelling gets out.

        `progress` is called on the event loop's thread, with each line that the tool tells until it has
        ended or was stopped.
        """
        scope = _scope(call.id, progress)
        images: tuple[Image, ...] = ()
        try:
            output = await self._output(call, scope)
            text, summary, is_error = output.text, output.summary or _first_line(output.text), False
            images = output.images
        except ToolFailed as failure:
            text, summary, is_error = str(failure), _first_line(str(failure)), True
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # A broken tool must not end the turn, nor the program; the trace goes to the log.
            log.exception("tool %s failed", call.name)
            text = f"The tool {call.name!r} failed: {type(error).__name__}: {error}"
            summary, is_error = _first_line(text), True
        finally:
            scope.cancelled.set()
        message = self._message(call, text, images, is_error=is_error)
        outcome = ToolOutcome(message=message, summary=summary)
        if self._guard is not None:
            await self._guard.after(call, outcome)
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
            raise ToolFailed(_argument_problems(call.name, error)) from error
        if self._guard is not None:
            scope = replace(scope, is_approved=await self._guard.before(call, tool, arguments))
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
                "What it had done by then stays done. Ask it for less at once, or do without it."
            ) from error

    def _message(
        self, call: ToolCall, text: str, images: Sequence[Image], *, is_error: bool
    ) -> ToolResultMessage:
        shown: list[Image] = []
        for number, image in enumerate(images, 1):
            problem = self._image_problem(image)
            if not problem and len(shown) == MOST_IMAGES:
                problem = f"{MOST_IMAGES} of one result are shown at most"
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
    """A call that tells its lines on this event loop's thread, in their order, and none after its end."""
    loop, here, cancelled = asyncio.get_running_loop(), threading.get_ident(), threading.Event()

    def tell(line: str) -> None:
        if not cancelled.is_set():
            progress(line)

    def told(text: str) -> None:
        line = " ".join(text.split())
        if threading.get_ident() == here:
            tell(line)
            return
        with suppress(RuntimeError):  # the event loop is closed: nobody watches any more
            loop.call_soon_threadsafe(tell, line)

    return CallScope(call_id=call_id, progress=told, cancelled=cancelled)


@cache
def _schema(arguments: type[ToolArguments]) -> Mapping[str, Any]:
    """The JSON schema of a class of arguments; made once, because it takes longer than the rest of a turn."""
    schema = arguments.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for prop in schema.get("properties", {}).values():
        if isinstance(prop, dict):  # a foreign schema may say `true` of one
            prop.pop("title", None)
    return schema


def _argument_problems(tool_name: str, error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)
    )
    return f"The arguments of {tool_name!r} do not fit: {problems}. Correct them and call it again."


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:120]
