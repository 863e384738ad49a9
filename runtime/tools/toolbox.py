"""Tools: what one is, and how calls become results. No tool's failure ever ends a turn."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from nacre.records.record import Record
from nacre.runtime.contracts.model import ToolSpec
from nacre.sessions.contracts.messages import Image, Text, ToolCall, ToolResultMessage

log = logging.getLogger(__name__)

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
