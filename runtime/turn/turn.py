"""The story of one turn, in order: write down, recall, measure, talk, answer.

The session's lane is held by the caller. Every file is touched through the session and the memory
room; nothing here decides what a chat may see (`policy.py`) or when history is compacted
(`window.py`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from nacre.runtime.contracts.errors import ContextOverflow, TurnTimedOut
from nacre.runtime.contracts.events import Emit, Warned
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.recall.recent_notes import recalled_notes
from nacre.runtime.turn.inbound_message import inbound_message
from nacre.runtime.turn.loop.deadline import paused
from nacre.runtime.turn.loop.loop import run_loop
from nacre.runtime.turn.loop.sent_messages import model_messages
from nacre.runtime.turn.parts import Prepared, TurnParts, prepare
from nacre.runtime.turn.window.session_pruning import prune
from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolResultMessage, message_text

log = logging.getLogger(__name__)

BROKEN_ANSWER_ENTRY = "nacre.broken_answer"


async def run_turn(
    session: OpenSession, inbound: Inbound, text: str, parts: TurnParts, emit: Emit
) -> Reply | None:
    """One turn: from a person's words to the reply, or `None` for silence.

    Raises:
        ModelError: no answer could be had; the words and all that followed are on disk.
        TurnTimedOut: the answer took too long; the same holds.
    """
    await write_down(session, inbound, text)
    return await answer_turn(session, inbound, parts, emit)


async def write_down(session: OpenSession, inbound: Inbound, text: str) -> None:
    """Puts a person's words, and what came with them, on disk."""
    await session.say(inbound_message(text, inbound.attachments, timestamp_ms=session.now_ms()))


async def answer_turn(session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit) -> Reply | None:
    """The rest of a turn whose words are on disk; see `run_turn`."""
    prepared = await prepare(session, inbound, parts, emit)
    agent = parts.settings.agent
    deadline = asyncio.timeout(agent.timeout_seconds)
    conversation = TurnConversation(session, prepared, parts, emit, deadline)
    try:
        async with deadline:
            answer = await run_loop(
                conversation,
                ask=parts.ask(emit),
                toolbox=prepared.toolbox,
                emit=emit,
                max_steps=agent.max_steps,
            )
    except asyncio.CancelledError:
        await session.mark_aborted()
        raise
    except TimeoutError as error:
        if not deadline.expired():
            raise
        await session.mark_aborted()
        raise TurnTimedOut(
            f"The turn was stopped after {agent.timeout_seconds:g} seconds. "
            "What was said and done until then is kept: ask to go on, "
            "ask for less at once, or raise agents.defaults.timeoutSeconds."
        ) from error
    except ContextOverflow as overflow:
        raise ContextOverflow(
            f"{overflow} If your last message is very long, send less of it, or put it into a file of the "
            "workspace; /new begins a fresh session.",
            detail=overflow.detail,
        ) from overflow
    await session.settle(answer, window_tokens=parts.models.window_tokens_of(answer))
    return _reply(session, answer, conversation.said, emit)


class TurnConversation:
    """The session as the loop sees it."""

    def __init__(
        self,
        session: OpenSession,
        prepared: Prepared,
        parts: TurnParts,
        emit: Emit,
        deadline: asyncio.Timeout,
    ) -> None:
        self.said: list[str] = []
        self._session = session
        self._prepared = prepared
        self._parts = parts
        self._emit = emit
        self._deadline = deadline
        self._overflowed = False

    async def request(self) -> ModelRequest:
        """The whole context, after old tool results were pruned and the window has made room."""
        await self._prune()
        with paused(self._deadline):
            await self._prepared.window.keep()
        if self._session.wants_recall:
            await recall(self._session, self._parts, self._emit)
        return ModelRequest(
            system=self._prepared.system,
            messages=model_messages(
                self._session.transcript, is_compacted=self._session.compaction_count > 0
            ),
            tools=self._prepared.specs,
        )

    async def _prune(self) -> None:
        settings = self._parts.settings.agent.context_pruning
        if settings.mode == "off":
            return
        window = self._prepared.window
        await prune(
            self._session,
            settings=settings,
            budget=window.budget,
            tokens=(await window.measure()).tokens,
            count_tokens=self._parts.count_tokens,
        )

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Flushes and compacts once a turn; a second overflow is the caller's to tell.

        A window that nobody knows is taken for no larger than what it refused: the size assumed for it
        would keep too much, and be refused again.
        """
        if self._overflowed:
            return False
        self._overflowed = True
        log.warning("the window of %s overflowed: %s", self._session.key, overflow)
        window = self._prepared.window
        if overflow.window_tokens is not None:
            budget = self._parts.models.budget_of(overflow.window_tokens)
            self._prepared = replace(self._prepared, window=self._prepared.window_of(budget))
        elif window.budget.window_source == "fallback":
            budget = window.budget.within((await window.measure()).tokens)
            self._prepared = replace(self._prepared, window=self._prepared.window_of(budget))
        with paused(self._deadline):
            ended = await self._prepared.window.compact("overflow")
        return not ended.problem

    async def record(self, message: Message) -> None:
        """Puts the message on disk, a tool's result no longer than fits."""
        if isinstance(message, ToolResultMessage):
            message = await self._prepared.results.fitted(message)
        await self._session.write(message)
        if isinstance(message, AssistantMessage):
            self._prepared.results.begin_step(len(message.tool_calls))
            if message_text(message).strip():
                self.said.append(message_text(message))

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps the beginning of an answer that comes anew, where no model sees it."""
        await self._session.journal.append_custom(BROKEN_ANSWER_ENTRY, answer.to_json())

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self._session.now_ms()


async def recall(session: OpenSession, parts: TurnParts, emit: Emit) -> None:
    """Puts logs and notes of the last days into the transcript; one that cannot be read costs no turn."""
    if not session.policy.loads_daily_logs:
        return
    if parts.memory is not None:
        parts.memory.session_started()
    agent = parts.settings.agent
    if not agent.startup_context.enabled:
        return
    try:
        notes = await recalled_notes(
            parts.workspace,
            now=parts.now(),
            limits=agent.startup_context,
            log_chars=agent.daily_log_max_chars,
        )
    except OSError as error:
        emit(Warned(message=f"The daily logs could not be read, so they are not in the context: {error}."))
        return
    if notes:
        await session.write_recall(notes)


def _reply(session: OpenSession, answer: AssistantMessage, said: list[str], emit: Emit) -> Reply | None:
    """The final words; if there are none, what was said before the last tool call."""
    final = message_text(answer)
    if is_silent(final):
        return None
    text = without_token(final).strip() or (without_token(said[-1]).strip() if said else "")
    if not text:
        emit(Warned(message="The model ended its turn without a word."))
        return None
    return Reply(text=text, session_key=session.key, session_id=session.session_id)
