"""One turn: from a message to the reply.

    write_down ─► answer ─► loop: request ─► ask ─► record ─► tools ─► request ─► … ─► reply
                                   │
                                   └─ the window makes room; logs and notes are recalled

Whatever is said is on disk before the next step begins. Promises are kept in `promises.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import (
    ConfigError,
    ContextOverflow,
    MessageRefused,
    TurnCancelled,
    TurnTimedOut,
    UsageLimitReached,
)
from nacre.runtime.contracts.events import CompactionEnded, Emit, MessageJoined, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Attachment, Quoted, Reply, Trigger
from nacre.runtime.contracts.model import ModelParameters, ModelRequest, takes_images
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.hooks.hooks import around_turn, run_inbound_hooks, with_model_hooks
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.context import TurnContext, recalled
from nacre.runtime.turn.inbound_message import message_of, unread_message
from nacre.runtime.turn.loop import TurnBounds, paused, run_loop
from nacre.runtime.turn.output import OutputCheck
from nacre.runtime.turn.promises import due_reminders, keep_promise, reminder_text, tick_reminders, writes
from nacre.runtime.turn.system_prompt import recall_is_due
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.runtime.turn.window import Window
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_text,
    speaker_label,
)

log = logging.getLogger(__name__)

MOST_SHORTENINGS = 3
"""How often a turn shortens messages after a provider calls its request too long."""

BROKEN_ANSWER_ENTRY = "nacre.broken_answer"


class Turn:
    """One turn of an open session. Commands and the end of a session use one as well.

    `parts` is shared by the agent's turns, `emit` receives the events, `bounds` limits the turn. `words` are
    the message that it answers and the messages that joined it; `trigger` names the cause of a message that
    nobody sent. `usage` sums the tokens and the cost of the turn's answers; it is `None` until a provider
    reports any.
    """

    def __init__(
        self, session: OpenSession, parts: TurnParts, emit: Emit, bounds: TurnBounds | None = None
    ) -> None:
        self.session = session
        self.parts = parts
        self.emit = emit
        self.bounds = bounds or TurnBounds()
        self.now_ms = session.now_ms
        self.usage: Usage | None = None
        self._problem = ""
        self.words = ""
        self.trigger: Trigger = ""
        self._asked: Candidate | None = None
        self._context: TurnContext | None = None
        self._window: Window | None = None
        self._deadline = asyncio.timeout(None)
        self._texts_before_tools: list[str] = []
        self._has_overflowed = False
        self._unsaved = ""
        self._reminders: tuple[str, ...] = ()
        self._shortenings = 0

    def of_session(self, session: OpenSession) -> Turn:
        return Turn(session, self.parts, self.emit, self.bounds)

    def with_models(self, models: ModelChain) -> Turn:
        """A turn of the same session that asks other models."""
        if models is self.parts.models:
            return self
        return Turn(self.session, replace(self.parts, models=models), self.emit, self.bounds)

    async def write_down(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        inbound_id: str = "",
        *,
        quoted: Sequence[Quoted] = (),
    ) -> None:
        """Writes a message to disk, with the readable text of its attachments."""
        self.words = text
        origin, is_owner = self.session.route.origin, self.session.policy.is_owner is True
        speaker = ""
        if not self.trigger:
            speaker = speaker_label(origin.sender_name, origin.sender_id, is_owner=is_owner)
        await self._write(
            text, attachments, inbound_id, quoted, origin.sender_id, speaker, is_said=not self.trigger
        )

    async def _write(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        inbound_id: str,
        quoted: Sequence[Quoted],
        sender_id: str,
        speaker: str,
        *,
        is_said: bool = True,
    ) -> None:
        session, now_ms = self.session, self.now_ms()
        write: Callable[[UserMessage], Awaitable[object]] = session.say if is_said else session.journal.append

        async def put(message: UserMessage) -> None:
            if not session.policy.is_private:
                label = speaker if session.policy.audience == "group" else ""
                message = replace(message, sender=sender_id.strip(), speaker=label)
            await write(message)

        try:
            message = await message_of(
                text,
                attachments,
                quoted=quoted,
                takes_images=takes_images(self.parts.model),
                voice_notes=self.parts.voice_notes,
                timestamp_ms=now_ms,
                inbound_id=inbound_id,
            )
        except asyncio.CancelledError:
            if not inbound_id:  # whoever handed in a message with an id can hand it in again
                await put(unread_message(text, attachments, quoted=quoted, timestamp_ms=now_ms))
            raise
        await put(message)

    async def answer(self) -> Reply | None:
        """The reply to the message, or `None` for silence. On errors, all that was said is on disk.

        Raises:
            ModelError: no model answered.
            TurnTimedOut: the answer took too long.
            UsageLimitReached, TurnCancelled: the turn ended before its answer.
            OutputInvalid: no answer had the requested type.
        """
        session, parts = self.session, self.parts
        agent, chat, model_name = parts.settings.agent, parts.chat(session), parts.model.name
        output, self._unsaved = parts.options.output, self.words
        async with around_turn(parts.hooks, chat, model_name=model_name, usage=lambda: self.usage) as replied:
            if parts.sub_agent is None:
                for source in parts.tool_sources:
                    await source.ready(session.policy)
            if parts.sub_agent is None and not self.trigger:
                self._reminders = await due_reminders(session, parts, self.words)
            context = await self.context()
            self._deadline = asyncio.timeout(agent.timeout_seconds)
            try:
                async with self._limits():
                    answer = await run_loop(
                        self,
                        ask=with_model_hooks(
                            parts.models.ask(self.emit), parts.hooks, chat, model_name=model_name
                        ),
                        toolbox=context.toolbox,
                        emit=self.emit,
                        max_steps=agent.max_steps,
                        bounds=self.bounds,
                        output=None if output is None else OutputCheck(output, session.journal.append),
                    )
                await session.line.save_pending()
            finally:
                await session.line.try_save_pending()
            reply = self.reply(answer, self._texts_before_tools)
            if self._reminders:
                await tick_reminders(parts, self._reminders)
            if parts.sub_agent is None and not self.trigger:
                said = reply.text if reply else ""
                parts.memory.capture(context.chat, self.words, said)
                if kept := await keep_promise(session, parts, self._unsaved, said):
                    self.emit(Warned(message=kept))
                    reply = reply and replace(reply, notice=kept)
            replied(reply)
        return reply

    @asynccontextmanager
    async def _limits(self) -> AsyncIterator[None]:
        """Limits the turn's time, lets messages join it, and turns its early end into an error."""
        line = self.session.line
        try:
            with self.bounds.joining.open():
                async with self._deadline:
                    yield
        except (asyncio.CancelledError, TurnCancelled, UsageLimitReached):
            await line.save_abort()
            raise
        except TimeoutError as error:
            if not self._deadline.expired():
                raise
            await line.save_abort()
            raise TurnTimedOut(
                f"The turn was stopped after {self.parts.settings.agent.timeout_seconds:.15g} seconds. "
                "Everything until then is kept: ask to go on, "
                "ask for less at once, or raise agents.defaults.timeoutSeconds."
            ) from error
        except ContextOverflow as overflow:
            raise ContextOverflow(
                f"{overflow} If your last message is very long, send less of it, or put it into a file of "
                "the workspace; /new begins a new session.",
                detail=overflow.detail,
            ) from overflow

    async def save_notes(self) -> None:
        """Flushes before the session ends, if anything was said since the last flush."""
        if self.session.flushes.has_unflushed_messages:
            await (await self.window()).flush_before_leaving()

    async def compact(self, *, focus: str = "") -> CompactionEnded:
        """Saves notes, then replaces old history with a summary; `focus` says what it must keep.

        If nothing was replaced, the result's `problem` says why.

        Raises:
            SessionError: the transcript cannot be written.
        """
        window = await self.window()
        await window.flush_before_leaving()
        return await window.compact("manual", focus=focus)

    async def window(self) -> Window:
        """The session's window in the model that is asked first."""
        if self._window is None:
            self._window = await self._window_in((await self._asked_first()).budget)
        return self._window

    async def context(self) -> TurnContext:
        if self._context is None:
            self._context = TurnContext(
                self.session,
                self.parts,
                await self._asked_first(),
                self.emit,
                words=self.words,
                reminders=reminder_text(self._reminders) if self._reminders else "",
                pause=lambda: paused(self._deadline),
                run_sub_agent=partial(self.parts.run_sub_agent, self),
            )
        return self._context

    async def _asked_first(self) -> Candidate:
        if self._asked is None:
            self._asked = await self.parts.models.current()
        return self._asked

    async def _window_in(self, budget: ContextBudget) -> Window:
        if self.parts.sub_agent is not None:
            budget = replace(budget, flush_enabled=False)  # its caller knows what is worth a note
        return Window(self.session, self.parts, budget, await self.context(), self.emit)

    # The loop's `Conversation`.

    async def request(self) -> ModelRequest:
        """The whole context, after the window has made room."""
        with paused(self._deadline):
            await (await self.window()).fit()
        session, context = self.session, await self.context()
        output = self.parts.options.output
        if recall_is_due(session.branch):
            await self.recall()
        await context.bring_up_to_date()
        choice, names = self._parameters.tool_choice, [spec.name for spec in context.specs]
        if choice not in ("", "auto", "none", "required", *names):
            raise ConfigError(f"tool_choice={choice!r} is not a tool of this chat: {', '.join(names)}.")
        return ModelRequest(
            system=await context.system(),
            messages=session.view.messages(),
            tools=context.specs,
            purpose="background" if self.trigger else "turn",
            output=output.schema if output is not None and context.output is None else None,
            parameters=self._parameters,
        )

    @cached_property
    def _parameters(self) -> ModelParameters:
        given, settings = self.parts.options.parameters, self.parts.settings.agent.params
        if given is not None:
            return given
        return ModelParameters(temperature=settings.temperature, reasoning_effort=settings.reasoning_effort)

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Shortens large messages, or flushes and compacts once a turn; `False` after that.

        The overflow may say how large the window is. A window of unknown size is assumed to be no larger than
        the refused request, because with the default size the next request would be refused as well.
        """
        if self._has_overflowed:
            return False
        log.warning("the window of %s overflowed: %s", self.session.key, overflow)
        window = await self._window_in((await self.parts.models.current()).budget)
        if overflow.window_tokens is not None:
            window = await self._window_in(self.parts.models.budget_of(overflow.window_tokens))
        elif window.budget.window_source == "fallback":
            window = await self._window_in(window.budget.within((await window.measure()).tokens))
        self._window = window
        with paused(self._deadline):
            if await self._was_shortened(window):
                return True
            self._has_overflowed = True
            ended = await window.compact("overflow")
        return not ended.problem

    async def _was_shortened(self, window: Window) -> bool:
        if self._shortenings == MOST_SHORTENINGS:
            return False
        self._shortenings += 1
        tokens = (await window.measure()).tokens
        if not await window.shorten(tokens, was_refused=True):
            return False
        return (await window.measure()).tokens <= window.budget.compact_at

    async def record(self, message: Message) -> None:
        """Writes the message to disk; a tool's result is cut to what fits."""
        context = await self.context()
        if isinstance(message, ToolResultMessage):
            self._unsaved = "" if writes(message) else self._unsaved
            await self.session.journal.append(await context.results.fitted(message))
            await context.guard.recorded(message.tool_call_id)
            return
        mirror = None
        if isinstance(message, AssistantMessage) and not (message.tool_calls or message.is_broken_off):
            window_tokens, count = self.parts.models.window_tokens_of(message), self.session.compaction_count
            mirror = self.session.line.answered(message, window_tokens=window_tokens, compactions=count)
        await self.session.journal.append(message, mirror=mirror)
        if isinstance(message, AssistantMessage):
            context.results.begin_step(len(message.tool_calls))
            if message.tool_calls and self._parameters.tool_choice:
                self._parameters = replace(self._parameters, tool_choice="")
            if message.usage is not None:
                self.spend(message.usage)
            if message_text(message).strip():
                self._texts_before_tools.append(message_text(message))

    async def record_joined_messages(self) -> None:
        """Writes the messages that arrived while tools ran, if the hooks let them through."""
        for joining in self.bounds.joining.take():
            try:
                inbound = await run_inbound_hooks(self.parts.hooks, self.parts.chat(self.session), joining)
            except MessageRefused as refused:
                log.info("a message does not join the turn of %s: %s", self.session.key, refused)
                continue
            sender_id, joining_id = joining.sender_id, joining.inbound_id
            speaker = speaker_label(joining.sender_name, sender_id, is_owner=joining.is_owner is True)
            await self._write(
                inbound.text, inbound.attachments, joining_id, inbound.quoted, sender_id, speaker
            )
            self.words, self._unsaved = (f"{said}\n{inbound.text}" for said in (self.words, self._unsaved))
            self.emit(MessageJoined(inbound_id=joining_id))

    async def set_aside(self, answer: AssistantMessage) -> None:
        await self.session.journal.append_custom(BROKEN_ANSWER_ENTRY, answer.to_json())

    async def recall(self) -> None:
        """Adds the logs and notes of the last days to the transcript, if the chat may see them."""
        if self.parts.sub_agent is None and self.session.policy.loads_daily_logs:
            await recalled(self.session, self.parts, self.emit)

    def spend(self, usage: Usage) -> None:
        """Adds the usage of a model call or of a sub-agent."""
        self.usage = usage if self.usage is None else self.usage + usage

    def ending(self, reply: Reply | None) -> ReplyReady | Silence:
        if reply is not None:
            return ReplyReady(reply=reply)
        session = self.session
        return Silence(
            session_key=session.key, session_id=session.session_id, usage=self.usage, problem=self._problem
        )

    def reply(self, answer: AssistantMessage, texts: Sequence[str]) -> Reply | None:
        """The reply with an answer's final text, or with the last of the `texts` before its tool calls."""
        final, output, value = message_text(answer), self.parts.options.output, None
        if output is not None:
            text, value = final, output.value(final)
        elif is_silent(final):
            return None
        else:
            text = without_token(final).strip() or (without_token(texts[-1]).strip() if texts else "")
        if not text:
            self._problem = "The model ended its turn without a word. Ask again, perhaps in other words."
            self.emit(Warned(message=self._problem))
            return None
        return Reply(
            text=text,
            session_key=self.session.key,
            session_id=self.session.session_id,
            usage=self.usage,
            output=value,
        )
