"""Hooks: what others do when something happens in an agent. Knows which names there are, and no meaning.

A handler is registered for a name (`session_end`) or for one action of it (`session_end:daily`). What it
raises is logged and stops neither the others nor the agent, and none may take longer than its time.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
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
    Event,
    FlushEnded,
    TextStreamed,
)
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import Answering, Ask, ModelRequest
from nacre.runtime.hooks import events as told
from nacre.runtime.hooks.events import (
    AfterCompaction,
    AfterFlush,
    Ask as AskOwner,
    BeforeCompaction,
    BeforeFlush,
    Deny,
)
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import on_its_own_thread
from nacre.sessions.contracts.messages import AssistantMessage, Usage

log = logging.getLogger(__name__)


MAX_ADDED_CHARS = 8_000
"""Most of one handler's text that enters a prompt."""


async def arrived(hooks: Hooks, chat: ToolChat, inbound: Inbound) -> Inbound:
    """The message as the `inbound` handlers leave it; each reads what the one before it made of it.

    Raises:
        MessageRefused: a handler said no, with its reason.
    """
    if not hooks.hears("inbound"):
        return inbound
    for call in hooks.calls(told.MessageArrived(chat=chat, inbound=inbound)):
        answer = await call(told.MessageArrived(chat=chat, inbound=inbound))
        if isinstance(answer.value, told.Deny):
            raise MessageRefused(answer.value.reason)
        if isinstance(answer.value, str):
            inbound = replace(inbound, text=answer.value)
        else:
            _told_when_odd(answer, "inbound")
    return inbound


async def leaving(hooks: Hooks, chat: ToolChat, reply: Reply) -> Reply | None:
    """The reply as the `outbound` handlers leave it; `None` when one of them holds it back."""
    calls = hooks.calls(told.ReplyLeaves(chat=chat, reply=reply)) if hooks.hears("outbound") else ()
    for call in calls:
        answer = await call(told.ReplyLeaves(chat=chat, reply=reply))
        if isinstance(answer.value, told.Deny):
            log.info("the hook %s held back a reply of %s", answer.handler, chat.session_key)
            return None
        if isinstance(answer.value, str):
            reply = replace(reply, text=answer.value)
        else:
            _told_when_odd(answer, "outbound")
    return reply if reply.text.strip() else None


def without_text(hooks: Hooks, emit: Emit) -> Emit:
    """`emit`, which hears no streamed words where a handler may change the reply or hold it back."""
    if not hooks.hears("outbound"):
        return emit

    def emit_others(event: Event) -> None:
        if not isinstance(event, TextStreamed):
            emit(event)

    return emit_others


async def guarded(hooks: Hooks, event: told.BeforeTool) -> told.Deny | told.Ask | None:
    """What the `before_tool` handlers say. The first no is final; a question stands unless one says no.

    A handler that fails is a guard that could not look, so it says no.
    """
    asks: told.Ask | None = None
    for call in hooks.calls(event):
        answer = await call(event)
        if answer.problem:
            return told.Deny(f"{answer.problem}. What it guards is not done without it.")
        if isinstance(answer.value, told.Deny):
            return answer.value
        if isinstance(answer.value, told.Ask):
            asks = asks or answer.value
        elif answer.value is not None:
            kind = type(answer.value).__name__
            log.error("the hook %s answered before_tool with a %s", answer.handler, kind)
            return told.Deny(
                f"The hook {answer.handler} answered with a {kind}, and not with Deny, Ask or nothing. "
                "What it guards is not done without it."
            )
    return asks


@asynccontextmanager
async def around_turn(
    hooks: Hooks, chat: ToolChat, *, model_name: str, usage: Callable[[], Usage | None]
) -> AsyncIterator[Callable[[Reply | None], None]]:
    """Runs the handlers of `before_turn` and `after_turn` around a block, however the block ends.

    Gives the function with which the block says what its reply is.
    """
    reply: Reply | None = None

    def replied(said: Reply | None) -> None:
        nonlocal reply
        reply = said

    if not hooks.hears("before_turn", "after_turn"):
        yield replied
        return
    await hooks.trigger(told.BeforeTurn(chat=chat, model_name=model_name))
    problem: BaseException | None = None
    try:
        yield replied
    except BaseException as error:
        problem = error
        raise
    finally:
        await hooks.trigger(
            told.AfterTurn(chat=chat, model_name=model_name, reply=reply, error=problem, usage=usage())
        )


def asking(ask: Ask, hooks: Hooks, chat: ToolChat, *, model_name: str) -> Ask:
    """`ask` with the handlers of `before_model` and `after_model` around it; itself where there are none."""
    if not hooks.hears("before_model", "after_model"):
        return ask

    async def asked(request: ModelRequest) -> AsyncIterator[Answering]:
        request = await _with_added_text(hooks, chat, request, model_name)

        async def over(answer: AssistantMessage | None, error: ModelError | None) -> None:
            await hooks.trigger(
                told.AfterModel(chat=chat, model_name=model_name, request=request, answer=answer, error=error)
            )

        try:
            async for item in ask(request):
                if isinstance(item, AssistantMessage):
                    await over(item, None)
                yield item
        except ModelError as error:
            await over(None, error)
            raise

    return asked


async def _with_added_text(
    hooks: Hooks, chat: ToolChat, request: ModelRequest, model_name: str
) -> ModelRequest:
    """Added texts go behind the conversation: what stands before them stays in a provider's cache."""
    event = told.BeforeModel(chat=chat, model_name=model_name, request=request)
    texts: list[str] = []
    for call in hooks.calls(event):
        answer = await call(event)
        if isinstance(answer.value, str):
            text = answer.value.strip()
            if len(text) > MAX_ADDED_CHARS:
                log.warning("%d of %d characters of %s went in", MAX_ADDED_CHARS, len(text), answer.handler)
                text = f"{text[:MAX_ADDED_CHARS]} […]"
            if text:
                texts.append(render("tail/hook_text", name=answer.handler, text=quoted(text)))
        else:
            _told_when_odd(answer, event.type)
    if not texts:
        return request
    tail = "\n\n".join([*([request.system.tail] if request.system.tail else []), *texts])
    return replace(request, system=replace(request.system, tail=tail))


def _told_when_odd(answer: Answer, name: str) -> None:
    if answer.value is not None:
        kind = type(answer.value).__name__
        log.error("the hook %s answered %s with a %s, which does nothing", answer.handler, name, kind)


class HeardWindow:
    """Tells the handlers of an agent what the window of one chat does."""

    def __init__(self, hooks: Hooks, chat: ToolChat) -> None:
        self._hooks = hooks
        self._chat = chat

    def ask(self, ask: Ask, *, model_name: str) -> Ask:
        """`ask` as hooks hear it."""
        return asking(ask, self._hooks, self._chat, model_name=model_name)

    async def flush_begins(self) -> None:
        if self._hooks.hears("before_flush"):
            await self._hooks.trigger(BeforeFlush(chat=self._chat))

    async def flush_ended(self, ended: FlushEnded) -> None:
        if self._hooks.hears("after_flush"):
            await self._hooks.trigger(AfterFlush(chat=self._chat, ended=ended))

    async def compaction_begins(self, reason: CompactionReason, tokens: int) -> None:
        if self._hooks.hears("before_compaction"):
            await self._hooks.trigger(BeforeCompaction(chat=self._chat, reason=reason, tokens=tokens))

    async def compaction_ended(self, ended: CompactionEnded, summary: str) -> None:
        if self._hooks.hears("after_compaction"):
            await self._hooks.trigger(AfterCompaction(chat=self._chat, ended=ended, summary=summary))


TIMEOUT_SECONDS = 30.0
"""How long one handler may take unless the owner says otherwise."""

E = TypeVar("E")
R = TypeVar("R")

Handler: TypeAlias = Callable[[E], R | Awaitable[R]]
"""Gets the event; a coroutine function runs in the turn's task, a plain one on a thread of its own.

One for `session_end` may be called a second time with the same event, after a crash.
"""
Registers: TypeAlias = Callable[[Handler[E, R]], Handler[E, R]]
Hears: TypeAlias = Handler[E, None]
Off: TypeAlias = Callable[[], None]
"""Takes a handler back; safe to repeat."""

Guarding: TypeAlias = Deny | AskOwner | None
Filtering: TypeAlias = str | Deny | None
Ending: TypeAlias = Literal[
    "session_end", "session_end:new", "session_end:reset", "session_end:daily", "session_end:idle"
]
Table: TypeAlias = Handler[E, R] | Sequence[Handler[E, R]]

HookTable = TypedDict(
    "HookTable",
    {
        "before_turn": Table[told.BeforeTurn, None],
        "after_turn": Table[told.AfterTurn, None],
        "before_model": Table[told.BeforeModel, str | None],
        "after_model": Table[told.AfterModel, None],
        "before_tool": Table[told.BeforeTool, Guarding],
        "after_tool": Table[told.AfterTool, None],
        "before_flush": Table[told.BeforeFlush, None],
        "after_flush": Table[told.AfterFlush, None],
        "before_compaction": Table[told.BeforeCompaction, None],
        "after_compaction": Table[told.AfterCompaction, None],
        "session_end": Table[told.SessionEnded, None],
        "session_end:new": Table[told.SessionEnded, None],
        "session_end:reset": Table[told.SessionEnded, None],
        "session_end:daily": Table[told.SessionEnded, None],
        "session_end:idle": Table[told.SessionEnded, None],
        "inbound": Table[told.MessageArrived, Filtering],
        "outbound": Table[told.ReplyLeaves, Filtering],
    },
    total=False,
)
"""Handlers by name, one or several each, as `Agent.open(hooks=...)` takes them."""

HOOK_NAMES: tuple[str, ...] = tuple(HookTable.__annotations__)


class AnyEvent(Protocol):
    """What every event tells: its name."""

    @property
    def type(self) -> str:
        """The name, such as `session_end`."""


class Answer(Record):
    """What one handler returned. `problem` is a sentence when it failed, and then `value` is `None`."""

    handler: str
    value: object = None
    problem: str = ""


class Hooks:
    """The handlers of one agent, each of which may take `timeout_seconds`."""

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._handlers: dict[str, list[Handler[Any, Any]]] = {}
        self._timeout_seconds = timeout_seconds

    # For each name the form with a handler, and the one for `@agent.hooks.on("name")`.
    # fmt: off
    @overload
    def on(self, name: Literal["before_turn"], handler: Hears[told.BeforeTurn], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_turn"], /) -> Registers[told.BeforeTurn, None]: ...
    @overload
    def on(self, name: Literal["after_turn"], handler: Hears[told.AfterTurn], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_turn"], /) -> Registers[told.AfterTurn, None]: ...
    @overload
    def on(self, name: Literal["before_model"], handler: Handler[told.BeforeModel, str | None], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_model"], /) -> Registers[told.BeforeModel, str | None]: ...
    @overload
    def on(self, name: Literal["after_model"], handler: Hears[told.AfterModel], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_model"], /) -> Registers[told.AfterModel, None]: ...
    @overload
    def on(self, name: Literal["before_tool"], handler: Handler[told.BeforeTool, Guarding], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_tool"], /) -> Registers[told.BeforeTool, Guarding]: ...
    @overload
    def on(self, name: Literal["after_tool"], handler: Hears[told.AfterTool], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_tool"], /) -> Registers[told.AfterTool, None]: ...
    @overload
    def on(self, name: Literal["before_flush"], handler: Hears[told.BeforeFlush], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_flush"], /) -> Registers[told.BeforeFlush, None]: ...
    @overload
    def on(self, name: Literal["after_flush"], handler: Hears[told.AfterFlush], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_flush"], /) -> Registers[told.AfterFlush, None]: ...
    @overload
    def on(self, name: Literal["before_compaction"], handler: Hears[told.BeforeCompaction], /) -> Off: ...
    @overload
    def on(self, name: Literal["before_compaction"], /) -> Registers[told.BeforeCompaction, None]: ...
    @overload
    def on(self, name: Literal["after_compaction"], handler: Hears[told.AfterCompaction], /) -> Off: ...
    @overload
    def on(self, name: Literal["after_compaction"], /) -> Registers[told.AfterCompaction, None]: ...
    @overload
    def on(self, name: Ending, handler: Hears[told.SessionEnded], /) -> Off: ...
    @overload
    def on(self, name: Ending, /) -> Registers[told.SessionEnded, None]: ...
    @overload
    def on(self, name: Literal["inbound"], handler: Handler[told.MessageArrived, Filtering], /) -> Off: ...
    @overload
    def on(self, name: Literal["inbound"], /) -> Registers[told.MessageArrived, Filtering]: ...
    @overload
    def on(self, name: Literal["outbound"], handler: Handler[told.ReplyLeaves, Filtering], /) -> Off: ...
    @overload
    def on(self, name: Literal["outbound"], /) -> Registers[told.ReplyLeaves, Filtering]: ...
    # fmt: on

    def on(self, name: str, handler: Handler[Any, Any] | None = None, /) -> Off | Registers[Any, Any]:
        """Registers a handler; the call that is returned takes it back. Without one, a decorator.

        Raises:
            ValueError: there is no such name; the text says which one may be meant.
        """
        checked_name(name)

        def register(handler: Handler[Any, Any]) -> Handler[Any, Any]:
            self.add(name, handler)
            return handler

        return register if handler is None else self.add(name, handler)

    def add(self, name: str, handler: Handler[Any, Any]) -> Off:
        """The same for a name that is known only when the program runs, as that of an extension's handler.

        Raises:
            ValueError: there is no such name.
        """
        self._handlers.setdefault(checked_name(name), []).append(handler)

        def off() -> None:
            if handler in (handlers := self._handlers.get(name, [])):
                handlers.remove(handler)

        return off

    def take_over(self, others: Hooks) -> None:
        """Adds the handlers of `others`; what is registered with it from now on is registered here."""
        for name, handlers in others._handlers.items():
            self._handlers.setdefault(name, []).extend(handlers)
        others._handlers = self._handlers

    def hears(self, *names: str) -> bool:
        """Whether there is a handler for one of the names. All that a turn pays where there is none."""
        return any(map(self._handlers.get, names))

    async def trigger(self, event: AnyEvent) -> tuple[str, ...]:
        """Runs the name's handlers and then the action's, each in the order of registration.

        Returns one sentence for each handler that failed.
        """
        return tuple([answer.problem for call in self.calls(event) if (answer := await call(event)).problem])

    def calls(self, event: AnyEvent) -> Iterator[Callable[[AnyEvent], Awaitable[Answer]]]:
        """The handlers of an event, one after the other; each is called with it, or with a changed one."""
        action = getattr(event, "action", "")
        names = (event.type, f"{event.type}:{action}") if action else (event.type,)
        for handler in [handler for name in names for handler in self._handlers.get(name, ())]:
            yield partial(self._answer, handler)

    async def _answer(self, handler: Handler[Any, Any], event: AnyEvent) -> Answer:
        name = getattr(handler, "__qualname__", type(handler).__name__)
        deadline = asyncio.timeout(self._timeout_seconds)
        try:
            async with deadline:
                return Answer(handler=name, value=await _returned(handler, event))
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Foreign code: whatever it raises is its own.
            log.exception("the hook %s failed on %s", name, event.type)
            if isinstance(error, TimeoutError) and deadline.expired():
                problem = f"The hook {name} took longer than {self._timeout_seconds:.15g} seconds"
            else:
                problem = f"The hook {name} failed with {type(error).__name__}: {error}"
            return Answer(handler=name, problem=problem)


async def _returned(handler: Handler[Any, Any], event: AnyEvent) -> object:
    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is a coroutine function
    )
    value = handler(event) if is_async else await on_its_own_thread(partial(handler, event))
    return await value if inspect.isawaitable(value) else value


def checked_name(name: str) -> str:
    """The name of a hook.

    Raises:
        ValueError: there is none of that name; the text says which one may be meant.
    """
    if not name.strip():
        raise ValueError("A hook needs the name of an event, such as 'session_end'.")
    if name not in HOOK_NAMES:
        near = difflib.get_close_matches(name, HOOK_NAMES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"The names are: {', '.join(HOOK_NAMES)}."
        raise ValueError(f"There is no hook named {name!r}. {hint}")
    return name


def register_all(hooks: Hooks, table: HookTable | Mapping[str, object]) -> None:
    """Registers the handlers of a table, each name's in their order.

    Raises:
        ValueError: a name is unknown, or what stands there cannot be called.
    """
    for name, given in table.items():
        handlers = [given] if callable(given) else given
        if not isinstance(handlers, list | tuple):
            raise ValueError(f"The hook {name!r} is given {given!r}. Give a function, or a list of them.")
        for handler in handlers:
            if not callable(handler):
                raise ValueError(f"The hook {name!r} is given {handler!r}, which cannot be called.")
            hooks.add(name, handler)
