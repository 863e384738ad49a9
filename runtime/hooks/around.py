"""What handlers' answers do: to a message, a model request, a tool call, a reply."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from nacre.prompts import quoted, render
from nacre.runtime.contracts.errors import MessageRefused, ModelError
from nacre.runtime.contracts.events import Emit, Event, TextStreamed
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import Answering, Ask, ModelRequest
from nacre.runtime.hooks import events as told
from nacre.runtime.hooks.hooks import Answer, Hooks
from nacre.runtime.tools.function import ToolChat
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


async def around_turn(
    hooks: Hooks,
    chat: ToolChat,
    work: Callable[[], Awaitable[Reply | None]],
    *,
    model_name: str,
    usage: Callable[[], Usage | None],
) -> Reply | None:
    """What `work` gives, with the handlers of `before_turn` and `after_turn` around it, however it ends."""
    if not hooks.hears("before_turn", "after_turn"):
        return await work()
    await hooks.trigger(told.BeforeTurn(chat=chat, model_name=model_name))
    reply: Reply | None = None
    problem: BaseException | None = None
    try:
        reply = await work()
    except BaseException as error:
        problem = error
        raise
    finally:
        await hooks.trigger(
            told.AfterTurn(chat=chat, model_name=model_name, reply=reply, error=problem, usage=usage())
        )
    return reply


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
