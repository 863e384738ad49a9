"""One turn: from a person's words to the reply.

    write_down ─► answer ─► loop: request ─► ask ─► record ─► tools ─► request ─► … ─► reply
                                   │
                                   └─ the window makes room; logs and notes are recalled

Whatever is said stands on disk before the next step begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import ContextOverflow, TurnCancelled, TurnTimedOut, UsageLimitReached
from nacre.runtime.contracts.events import Emit, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Attachment, Quoted, Reply, Trigger
from nacre.runtime.contracts.model import Ask, ModelRequest
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.hooks.around import around_turn, asking
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.turn.context import TurnContext
from nacre.runtime.turn.entering import recalled, taken_in, written_down
from nacre.runtime.turn.loop.deadline import paused
from nacre.runtime.turn.loop.limits import TurnBounds
from nacre.runtime.turn.loop.loop import run_loop
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.prompt_parts.recent_notes import recall_is_due
from nacre.runtime.turn.window.window import Window
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    Usage,
    message_text,
)

log = logging.getLogger(__name__)

MOST_SHORTENINGS = 3
"""How often in a turn what a provider calls too long is halved where no compaction helps."""

BROKEN_ANSWER_ENTRY = "nacre.broken_answer"


class Turn:
    """An open session in the hands of its agent: what a message, a command or an ending is carried out on.

    `parts` is what the agent's turns share, `emit` hears what happens. `usage` sums the tokens and the cost
    of the turn's answers; `None` until a provider has reported any. `bounds` limit it; `words` it answers.
    `trigger` made these where nobody said them.
    """

    def __init__(
        self, session: OpenSession, parts: TurnParts, emit: Emit, bounds: TurnBounds | None = None
    ) -> None:
        self.session = session
        self.parts = parts
        self.emit = emit
        self.bounds = bounds or TurnBounds()
        self.usage: Usage | None = None
        self._asked: Candidate | None = None
        self._context: TurnContext | None = None
        self._window: Window | None = None
        self._deadline = asyncio.timeout(None)
        self._said: list[str] = []
        self.words = ""
        self.trigger: Trigger = ""
        self._has_overflowed = False
        self._shortenings = 0

    def of_session(self, session: OpenSession) -> Turn:
        """The same, of another session."""
        return Turn(session, self.parts, self.emit, self.bounds)

    def with_models(self, models: ModelChain) -> Turn:
        """The same, with other models."""
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
        """Puts a person's words, or what stands in their place, on disk with what came with them."""
        self.words = text
        await written_down(
            self.session,
            self.parts,
            text,
            attachments,
            quoted=quoted,
            inbound_id=inbound_id,
            sender=self.session.route.origin.sender_id,
            is_said=not self.trigger,
        )

    async def answer(self) -> Reply | None:
        """The reply to what was written down, or `None` for silence.

        Raises:
            ModelError: no answer could be had; the words and all that followed are on disk.
            TurnTimedOut: the answer took too long; the same holds.
            UsageLimitReached, TurnCancelled: the turn ended before its answer; the same holds.
        """
        heard, window = self.parts.hooks, self.parts.window
        chat = self.session.chat(window.workspace.place, window.sources)
        return await around_turn(
            heard, chat, self._answer, model_name=self.parts.model.name, usage=lambda: self.usage
        )

    async def _answer(self) -> Reply | None:
        session, agent = self.session, self.parts.settings.agent
        if self.parts.sub_agent is None:
            for source in self.parts.tool_sources:
                await source.ready(session.policy)
        context = await self.context()
        self._deadline = asyncio.timeout(agent.timeout_seconds)
        try:
            with self.bounds.joining.open():
                async with self._deadline:
                    answer = await run_loop(
                        self,
                        ask=self._ask(),
                        toolbox=context.toolbox,
                        emit=self.emit,
                        max_steps=agent.max_steps,
                        bounds=self.bounds,
                    )
        except (asyncio.CancelledError, TurnCancelled, UsageLimitReached):
            await session.line.aborted()
            raise
        except TimeoutError as error:
            if not self._deadline.expired():
                raise
            await session.line.aborted()
            raise TurnTimedOut(
                f"The turn was stopped after {agent.timeout_seconds:.15g} seconds. "
                "What was said and done until then is kept: ask to go on, "
                "ask for less at once, or raise agents.defaults.timeoutSeconds."
            ) from error
        except ContextOverflow as overflow:
            raise ContextOverflow(
                f"{overflow} If your last message is very long, send less of it, or put it into a file of "
                "the workspace; /new begins a fresh session.",
                detail=overflow.detail,
            ) from overflow
        else:
            window_tokens = self.parts.models.window_tokens_of(answer)
            await session.line.answered(
                answer, window_tokens=window_tokens, compactions=session.compaction_count
            )
        finally:
            await self.session.line.settle_if_it_can()
        reply = self.reply(answer, self._said)
        if self.parts.sub_agent is None and not self.trigger:
            self.parts.memory.capture(context.chat, self.words, reply.text if reply else "")
        return reply

    async def save_notes(self) -> None:
        """The flush before the session is left, if anything was said in it since the last one."""
        if self.session.flushes.has_unflushed_messages:
            await (await self.window()).flush_before_leaving()

    async def window(self) -> Window:
        """The session's window, that of the model which is asked first."""
        if self._window is None:
            self._window = await self._window_in((await self._asked_first()).budget)
        return self._window

    # What the loop asks of a conversation.

    async def request(self) -> ModelRequest:
        """The whole context, after the window has made room."""
        with paused(self._deadline):
            await (await self.window()).keep()
        session, context = self.session, await self.context()
        if recall_is_due(session.branch):
            await self.recall()
        await context.bring_up_to_date()
        return ModelRequest(
            system=await context.system(),
            messages=session.view.messages(),
            tools=context.specs,
            purpose="background" if self.trigger else "turn",
        )

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Shortens what is too large, or flushes and compacts once a turn; a second overflow is the caller's.

        A window that nobody knows is taken for no larger than what it refused: the size assumed for it
        would keep too much, and be refused again.
        """
        if self._has_overflowed:
            return False
        log.warning("the window of %s overflowed: %s", self.session.key, overflow)
        window = await self.window()
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
        """Whether less is sent now of what no compaction takes away, and all of it should fit."""
        if self._shortenings == MOST_SHORTENINGS:
            return False
        self._shortenings += 1
        tokens = (await window.measure()).tokens
        if not await window.shorten(tokens, was_refused=True):
            return False
        return (await window.measure()).tokens <= window.budget.compact_at

    async def record(self, message: Message) -> None:
        """Puts the message on disk, a tool's result no longer than fits."""
        results = (await self.context()).results
        if isinstance(message, ToolResultMessage):
            message = await results.fitted(message)
        await self.session.write(message)
        if isinstance(message, ToolResultMessage):
            await (await self.context()).guard.recorded(message.tool_call_id)
        if isinstance(message, AssistantMessage):
            results.begin_step(len(message.tool_calls))
            if message.usage is not None:
                self.spend(message.usage)
            if message_text(message).strip():
                self._said.append(message_text(message))

    async def take_in(self) -> None:
        """Puts on disk what was said into the turn while its tools ran."""
        await taken_in(self.session, self.parts, self.bounds.joining.take(), self.emit)

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps the beginning of an answer that comes anew, where no model sees it."""
        await self.session.journal.append_custom(BROKEN_ANSWER_ENTRY, answer.to_json())

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self.session.now_ms()

    async def recall(self) -> None:
        """Puts logs and notes of the last days into the transcript; what cannot be read costs no turn."""
        if self.parts.sub_agent is None and self.session.policy.loads_daily_logs:
            await recalled(self.session, self.parts, self.emit)

    def spend(self, usage: Usage) -> None:
        """Adds what a model call, or a sub-agent, has used."""
        self.usage = usage if self.usage is None else self.usage + usage

    def _ask(self) -> Ask:
        parts = self.parts
        chat = self.session.chat(parts.workspace.place, parts.window.sources)
        return asking(parts.models.ask(self.emit), parts.hooks, chat, model_name=parts.model.name)

    async def _asked_first(self) -> Candidate:
        if self._asked is None:
            self._asked = await self.parts.models.current()
        return self._asked

    async def context(self) -> TurnContext:
        """What every request of the turn carries besides the transcript."""
        if self._context is None:
            self._context = TurnContext(
                self.session,
                self.parts,
                await self._asked_first(),
                self.emit,
                words=self.words,
                pause=lambda: paused(self._deadline),
                run_sub_agent=partial(self.parts.run_sub_agent, self),
            )
        return self._context

    async def _window_in(self, budget: ContextBudget) -> Window:
        if self.parts.sub_agent is not None:
            budget = replace(budget, flush_enabled=False)  # its caller knows what is worth a note
        return Window((await self.context()).seen_by_window(budget))

    def ending(self, reply: Reply | None) -> ReplyReady | Silence:
        """The event that this turn ends with."""
        if reply is not None:
            return ReplyReady(reply=reply)
        session = self.session
        return Silence(session_key=session.key, session_id=session.session_id, usage=self.usage)

    def reply(self, answer: AssistantMessage, said: Sequence[str]) -> Reply | None:
        """The final words; if there are none, what was `said` last before a tool call."""
        final = message_text(answer)
        if is_silent(final):
            return None
        text = without_token(final).strip() or (without_token(said[-1]).strip() if said else "")
        if not text:
            self.emit(Warned(message="The model ended its turn without a word."))
            return None
        return Reply(
            text=text, session_key=self.session.key, session_id=self.session.session_id, usage=self.usage
        )
