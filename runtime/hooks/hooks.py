"""Hooks: handlers for the events of an agent.

A handler is registered for a name (`session_end`) or for one action of it (`session_end:daily`). Its
exceptions are logged and stop neither the other handlers nor the agent. Its run time is limited.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, overload

from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.errors import MessageRefused, ModelError
from nacre.runtime.contracts.events import (
    CompactionEnded,
    CompactionReason,
    Emit,
    FlushEnded,
    TextStreamed,
)
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import Answering, Ask, ModelRequest
from nacre.runtime.contracts.outbound import Part
from nacre.runtime.hooks import events as ev
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import on_its_own_thread
from nacre.sessions.contracts.messages import AssistantMessage, Usage

log = logging.getLogger(__name__)

MAX_ADDED_CHARS = 8_000
"""The most characters of one handler's text that enter a prompt."""


async def run_inbound_hooks(hooks: Hooks, chat: ToolChat, inbound: Inbound) -> Inbound:
    """Returns the message after the `inbound` handlers; each receives the previous one's result.

    Raises:
        MessageRefused: a handler refused it; the message is its reason.
    """
    if not hooks.hears("inbound"):
        return inbound
    for call in hooks.calls(ev.MessageArrived(chat=chat, inbound=inbound)):
        answer = await call(ev.MessageArrived(chat=chat, inbound=inbound))
        if isinstance(answer.value, ev.Deny):
            raise MessageRefused(answer.value.reason)
        if isinstance(answer.value, str):
            inbound = replace(inbound, text=answer.value)
        else:
            _log_invalid_answer(answer, "inbound")
    return inbound


async def run_outbound_hooks(hooks: Hooks, chat: ToolChat, reply: Reply) -> Reply | None:
    """Returns the reply after the `outbound` handlers, or `None` if one of them blocked it."""
    calls = hooks.calls(ev.ReplyLeaves(chat=chat, reply=reply)) if hooks.hears("outbound") else ()
    for call in calls:
        answer = await call(ev.ReplyLeaves(chat=chat, reply=reply))
        if isinstance(answer.value, ev.Deny):
            log.info("the hook %s blocked a reply of %s", answer.handler, chat.session_key)
            return None
        if isinstance(answer.value, str):
            reply = replace(reply, text=answer.value)
        else:
            _log_invalid_answer(answer, "outbound")
    return reply if reply.text.strip() else None


def without_streamed_text(hooks: Hooks, emit: Emit) -> Emit:
    """`emit` without streamed text if a handler may change or block the reply."""
    if not hooks.hears("outbound"):
        return emit

    return lambda event: None if isinstance(event, TextStreamed) else emit(event)


async def run_tool_hooks(hooks: Hooks, event: ev.BeforeTool) -> ev.Deny | ev.Ask | None:
    """Returns the decision of the `before_tool` handlers. A refusal takes precedence ended a question.

    A handler that fails refuses, because it could not check the call.
    """
    asks: ev.Ask | None = None
    for call in hooks.calls(event):
        answer = await call(event)
        if answer.problem:
            return ev.Deny(f"{answer.problem}. The call does not run without its answer.")
        if isinstance(answer.value, ev.Deny):
            return answer.value
        if isinstance(answer.value, ev.Ask):
            asks = asks or answer.value
        elif answer.value is not None:
            kind = type(answer.value).__name__
            log.error("the hook %s returned a %s from before_tool", answer.handler, kind)
            return ev.Deny(
                f"The hook {answer.handler} returned a {kind} instead of Deny, Ask or None. "
                "The call does not run without its answer."
            )
    return asks


@asynccontextmanager
async def around_turn(
    hooks: Hooks, chat: ToolChat, *, model_name: str, usage: Callable[[], Usage | None]
) -> AsyncIterator[Callable[[Reply | None], None]]:
    """Runs the handlers of `before_turn` and `after_turn` around a block, however the block ends.

    Yields the function with which the block reports its reply.
    """
    reply: Reply | None = None

    def report(answer: Reply | None) -> None:
        nonlocal reply
        reply = answer

    if not hooks.hears("before_turn", "after_turn"):
        yield report
        return

    def ended(error: BaseException | None) -> AnyEvent:
        return ev.AfterTurn(chat=chat, model_name=model_name, reply=reply, error=error, usage=usage())

    async with observed(hooks, ev.BeforeTurn(chat=chat, model_name=model_name), ended):
        yield report


@asynccontextmanager
async def observed(
    hooks: Hooks, begins: AnyEvent, ended: Callable[[BaseException | None], AnyEvent]
) -> AsyncIterator[None]:
    """Triggers an event before a block and another one after it, however the block ends."""
    await hooks.trigger(begins)
    problem: BaseException | None = None
    try:
        yield
    except BaseException as error:
        problem = error
        raise
    finally:
        await hooks.trigger(ended(problem))


def around_delivery(hooks: Hooks, part: Part) -> AbstractAsyncContextManager[None]:
    """Runs the handlers of `before_delivery` and `after_delivery` around the sending of a part."""
    return observed(
        hooks, ev.BeforeDelivery(part=part), lambda error: ev.AfterDelivery(part=part, error=error)
    )


def around_answer(hooks: Hooks, messages: tuple[Inbound, ...]) -> AbstractAsyncContextManager[None]:
    """Runs the handlers of `before_answer` and `after_answer` around what a gateway does for messages."""
    return observed(
        hooks,
        ev.BeforeAnswer(messages=messages),
        lambda error: ev.AfterAnswer(messages=messages, error=error),
    )


def with_model_hooks(ask: Ask, hooks: Hooks, chat: ToolChat, *, model_name: str) -> Ask:
    """`ask` with the handlers of `before_model` and `after_model` around it; unchanged without handlers."""
    if not hooks.hears("before_model", "after_model"):
        return ask

    async def ask_with_hooks(request: ModelRequest) -> AsyncIterator[Answering]:
        request = await _with_added_text(hooks, chat, request, model_name)

        async def ended(answer: AssistantMessage | None, error: ModelError | None) -> None:
            await hooks.trigger(
                ev.AfterModel(chat=chat, model_name=model_name, request=request, answer=answer, error=error)
            )

        try:
            async for item in ask(request):
                if isinstance(item, AssistantMessage):
                    await ended(item, None)
                yield item
        except ModelError as error:
            await ended(None, error)
            raise

    return ask_with_hooks


async def _with_added_text(
    hooks: Hooks, chat: ToolChat, request: ModelRequest, model_name: str
) -> ModelRequest:
    """Added texts follow the conversation, so that what precedes them stays in the provider's cache."""
    event = ev.BeforeModel(chat=chat, model_name=model_name, request=request)
    texts: list[str] = []
    for call in hooks.calls(event):
        answer = await call(event)
        if isinstance(answer.value, str):
            text = answer.value.strip()
            if len(text) > MAX_ADDED_CHARS:
                log.warning("used %d of %d characters of %s", MAX_ADDED_CHARS, len(text), answer.handler)
                text = f"{text[:MAX_ADDED_CHARS]} […]"
            if text:
                texts.append(render("tail/hook_text", name=answer.handler, text=quoted(text)))
        else:
            _log_invalid_answer(answer, event.type)
    if not texts:
        return request
    tail = "\n\n".join([*([request.system.tail] if request.system.tail else []), *texts])
    return replace(request, system=replace(request.system, tail=tail))


def _log_invalid_answer(answer: HandlerAnswer, name: str) -> None:
    if answer.value is not None:
        kind = type(answer.value).__name__
        log.error("the hook %s returned from %s a %s, which has no effect", answer.handler, name, kind)


class WindowHooks:
    """Runs the hooks of a chat's flushes and compactions."""

    def __init__(self, hooks: Hooks, chat: ToolChat) -> None:
        self._hooks = hooks
        self._chat = chat

    def ask(self, ask: Ask, *, model_name: str) -> Ask:
        """`ask` with the hooks of model calls."""
        return with_model_hooks(ask, self._hooks, self._chat, model_name=model_name)

    async def flush_begins(self) -> None:
        if self._hooks.hears("before_flush"):
            await self._hooks.trigger(ev.BeforeFlush(chat=self._chat))

    async def flush_ended(self, ended: FlushEnded) -> None:
        if self._hooks.hears("after_flush"):
            await self._hooks.trigger(ev.AfterFlush(chat=self._chat, ended=ended))

    async def compaction_begins(self, reason: CompactionReason, tokens: int) -> None:
        if self._hooks.hears("before_compaction"):
            await self._hooks.trigger(ev.BeforeCompaction(chat=self._chat, reason=reason, tokens=tokens))

    async def compaction_ended(self, ended: CompactionEnded, summary: str) -> None:
        if self._hooks.hears("after_compaction"):
            await self._hooks.trigger(ev.AfterCompaction(chat=self._chat, ended=ended, summary=summary))


TIMEOUT_SECONDS = 30.0
"""The default time limit of one handler."""

E = TypeVar("E")
R = TypeVar("R")

Handler: TypeAlias = Callable[[E], R | Awaitable[R]]
"""Receives the event. A coroutine function runs in the turn's task, a plain function on its own thread.

A handler for `session_end` may be called again with the same event after a crash.
"""
Decorator: TypeAlias = Callable[[Handler[E, R]], Handler[E, R]]
Observer: TypeAlias = Handler[E, None]
Off: TypeAlias = Callable[[], None]
"""Unregisters a handler; safe to repeat."""

ToolDecision: TypeAlias = ev.Deny | ev.Ask | None
TextDecision: TypeAlias = str | ev.Deny | None
SessionEndName: TypeAlias = Literal[
    "session_end", "session_end:new", "session_end:reset", "session_end:daily", "session_end:idle"
]
Table: TypeAlias = Handler[E, R] | Sequence[Handler[E, R]]

HookTable = TypedDict(
    "HookTable",
    {
        "before_turn": Table[ev.BeforeTurn, None],
        "after_turn": Table[ev.AfterTurn, None],
        "before_model": Table[ev.BeforeModel, str | None],
        "after_model": Table[ev.AfterModel, None],
        "before_tool": Table[ev.BeforeTool, ToolDecision],
        "after_tool": Table[ev.AfterTool, None],
        "before_flush": Table[ev.BeforeFlush, None],
        "after_flush": Table[ev.AfterFlush, None],
        "before_compaction": Table[ev.BeforeCompaction, None],
        "after_compaction": Table[ev.AfterCompaction, None],
        "session_end": Table[ev.SessionEnded, None],
        "session_end:new": Table[ev.SessionEnded, None],
        "session_end:reset": Table[ev.SessionEnded, None],
        "session_end:daily": Table[ev.SessionEnded, None],
        "session_end:idle": Table[ev.SessionEnded, None],
        "inbound": Table[ev.MessageArrived, TextDecision],
        "outbound": Table[ev.ReplyLeaves, TextDecision],
        "before_answer": Table[ev.BeforeAnswer, None],
        "after_answer": Table[ev.AfterAnswer, None],
        "before_delivery": Table[ev.BeforeDelivery, None],
        "after_delivery": Table[ev.AfterDelivery, None],
    },
    total=False,
)
"""Handlers by name, one or several each, as accepted by `Agent.open(hooks=...)`."""

HOOK_NAMES: tuple[str, ...] = tuple(HookTable.__annotations__)


class AnyEvent(Protocol):
    """Any event."""

    @property
    def type(self) -> str:
        """The name, such as `session_end`."""


class HandlerAnswer(Record):
    """The return value of one handler. If it failed, `problem` is a sentence and `value` is `None`."""

    handler: str
    value: object = None
    problem: str = ""


class Hooks:
    """The handlers of one agent, each limited to `timeout_seconds`."""

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._handlers: dict[str, list[Handler[Any, Any]]] = {}
        self._timeout_seconds = timeout_seconds

    # For each name: the form with a handler, and the form for `@agent.hooks.on("name")`.
    # fmt: off
    @overload
    def on(self, name: Literal["before_turn"], handler: Observer[ev.BeforeTurn], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_turn"], /) -> Decorator[ev.BeforeTurn, None]: ...
    @overload
    def on(self, name: Literal["after_turn"], handler: Observer[ev.AfterTurn], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_turn"], /) -> Decorator[ev.AfterTurn, None]: ...
    @overload
    def on(self, name: Literal["before_model"], handler: Handler[ev.BeforeModel, str | None], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_model"], /) -> Decorator[ev.BeforeModel, str | None]: ...
    @overload
    def on(self, name: Literal["after_model"], handler: Observer[ev.AfterModel], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_model"], /) -> Decorator[ev.AfterModel, None]: ...
    @overload
    def on(self, name: Literal["before_tool"], handler: Handler[ev.BeforeTool, ToolDecision], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_tool"], /) -> Decorator[ev.BeforeTool, ToolDecision]: ...
    @overload
    def on(self, name: Literal["after_tool"], handler: Observer[ev.AfterTool], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_tool"], /) -> Decorator[ev.AfterTool, None]: ...
    @overload
    def on(self, name: Literal["before_flush"], handler: Observer[ev.BeforeFlush], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_flush"], /) -> Decorator[ev.BeforeFlush, None]: ...
    @overload
    def on(self, name: Literal["after_flush"], handler: Observer[ev.AfterFlush], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_flush"], /) -> Decorator[ev.AfterFlush, None]: ...
    @overload
    def on(self, name: Literal["before_compaction"], handler: Observer[ev.BeforeCompaction], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_compaction"], /) -> Decorator[ev.BeforeCompaction, None]: ...
    @overload
    def on(self, name: Literal["after_compaction"], handler: Observer[ev.AfterCompaction], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_compaction"], /) -> Decorator[ev.AfterCompaction, None]: ...
    @overload
    def on(self, name: SessionEndName, handler: Observer[ev.SessionEnded], /) -> Off: ...
    @overload
    def on(self, name: SessionEndName, /) -> Decorator[ev.SessionEnded, None]: ...
    @overload
    def on(self, name: Literal["inbound"], handler: Handler[ev.MessageArrived, TextDecision], /) -> Off: ...
    @overload
    def on(self, name: Literal["inbound"], /) -> Decorator[ev.MessageArrived, TextDecision]: ...
    @overload
    def on(self, name: Literal["outbound"], handler: Handler[ev.ReplyLeaves, TextDecision], /) -> Off: ...
    @overload
    def on(self, name: Literal["outbound"], /) -> Decorator[ev.ReplyLeaves, TextDecision]: ...
    @overload
    def on(self, name: Literal["before_answer"], handler: Observer[ev.BeforeAnswer], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_answer"], /) -> Decorator[ev.BeforeAnswer, None]: ...
    @overload
    def on(self, name: Literal["after_answer"], handler: Observer[ev.AfterAnswer], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_answer"], /) -> Decorator[ev.AfterAnswer, None]: ...
    @overload
    def on(self, name: Literal["before_delivery"], handler: Observer[ev.BeforeDelivery], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_delivery"], /) -> Decorator[ev.BeforeDelivery, None]: ...
    @overload
    def on(self, name: Literal["after_delivery"], handler: Observer[ev.AfterDelivery], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_delivery"], /) -> Decorator[ev.AfterDelivery, None]: ...
    # fmt: on

    def on(self, name: str, handler: Handler[Any, Any] | None = None, /) -> Off | Decorator[Any, Any]:
        """Registers a handler and returns a function that unregisters it. Without a handler, a decorator.

        Raises:
            ValueError: the name is unknown; the message suggests a similar one.
        """
        checked_name(name)

        def register(handler: Handler[Any, Any]) -> Handler[Any, Any]:
            self.add(name, handler)
            return handler

        return register if handler is None else self.add(name, handler)

    def add(self, name: str, handler: Handler[Any, Any]) -> Off:
        """Registers a handler for a name that is known only at run time, such as an extension's.

        Raises:
            ValueError: the name is unknown.
        """
        self._handlers.setdefault(checked_name(name), []).append(handler)

        def off() -> None:
            if handler in (handlers := self._handlers.get(name, [])):
                handlers.remove(handler)

        return off

    def take_over(self, others: Hooks) -> None:
        """Adds the handlers of `others`. Handlers that are later registered with it are added here too."""
        for name, handlers in others._handlers.items():
            self._handlers.setdefault(name, []).extend(handlers)
        others._handlers = self._handlers

    def hears(self, *names: str) -> bool:
        """Whether any of the names has a handler. Without handlers, this is all that a turn pays."""
        return any(map(self._handlers.get, names))

    async def trigger(self, event: AnyEvent) -> tuple[str, ...]:
        """Runs the name's handlers and then the action's, each in the order of registration.

        Returns one sentence for each handler that failed.
        """
        return tuple([answer.problem for call in self.calls(event) if (answer := await call(event)).problem])

    def calls(self, event: AnyEvent) -> Iterator[Callable[[AnyEvent], Awaitable[HandlerAnswer]]]:
        """Yields the handlers of an event; each is called with the event or a changed one."""
        action = getattr(event, "action", "")
        names = (event.type, f"{event.type}:{action}") if action else (event.type,)
        for handler in [handler for name in names for handler in self._handlers.get(name, ())]:
            yield partial(self._answer, handler)

    async def _answer(self, handler: Handler[Any, Any], event: AnyEvent) -> HandlerAnswer:
        name = getattr(handler, "__qualname__", type(handler).__name__)
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - an object with an async `__call__`
        )
        deadline = asyncio.timeout(self._timeout_seconds)
        try:
            async with deadline:
                value = handler(event) if is_async else await on_its_own_thread(partial(handler, event))
                return HandlerAnswer(handler=name, value=await value if inspect.isawaitable(value) else value)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Foreign code may raise anything.
            log.exception("the hook %s failed on %s", name, event.type)
            if isinstance(error, TimeoutError) and deadline.expired():
                problem = f"The hook {name} took longer than {self._timeout_seconds:.15g} seconds"
            else:
                problem = f"The hook {name} failed with {type(error).__name__}: {error}"
            return HandlerAnswer(handler=name, problem=problem)


def checked_name(name: str) -> str:
    """Returns the name of a hook if it exists.

    Raises:
        ValueError: the name is unknown; the message suggests a similar one.
    """
    if not name.strip():
        raise ValueError("A hook needs the name of an event, such as 'session_end'.")
    if name not in HOOK_NAMES:
        near = difflib.get_close_matches(name, HOOK_NAMES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"The names are: {', '.join(HOOK_NAMES)}."
        raise ValueError(f"There is no hook named {name!r}. {hint}")
    return name


def register_all(hooks: Hooks, table: HookTable | Mapping[str, object]) -> None:
    """Registers the handlers of a table in their order.

    Raises:
        ValueError: a name is unknown, or a handler is not callable.
    """
    for name, value in table.items():
        handlers = [value] if callable(value) else value
        if not isinstance(handlers, list | tuple):
            raise ValueError(f"The hook {name!r} has the value {value!r}. Use a function or a list.")
        for handler in handlers:
            if not callable(handler):
                raise ValueError(f"The hook {name!r} has the value {handler!r}, which is not callable.")
            hooks.add(name, handler)
