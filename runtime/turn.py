"""The story of one turn, in order: write down, recall, measure, talk, answer.

The session's lane is held by the caller. Every file is touched through the session and the memory
room; nothing here decides what a chat may see (`policy.py`) or when history is compacted
(`window.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from nacre.memory.engine import MemoryEngine
from nacre.runtime.budget import ContextBudget
from nacre.runtime.clock import Clock
from nacre.runtime.compactor import SummaryModel, summary_limits
from nacre.runtime.context import changing_part, daily_logs, model_messages, system_prompt
from nacre.runtime.errors import ContextOverflow
from nacre.runtime.events import ModelRetried, Warned
from nacre.runtime.file_tools import file_tools
from nacre.runtime.ids import NewId
from nacre.runtime.inbound import Inbound, Reply
from nacre.runtime.inbound_message import inbound_message
from nacre.runtime.journals import Journals
from nacre.runtime.loop import Ask, Emit, held_to_contract, run_loop
from nacre.runtime.memory_tools import memory_tools
from nacre.runtime.model import ChatModel, ModelRequest, SystemPrompt, ToolSpec
from nacre.runtime.notices import Told
from nacre.runtime.open_session import OpenSession
from nacre.runtime.policy import ChatPolicy
from nacre.runtime.retry import stream_with_retries
from nacre.runtime.settings import Settings
from nacre.runtime.silence import is_silent, without_token
from nacre.runtime.tools import Tool, Toolbox
from nacre.runtime.window import Window, WindowParts
from nacre.sessions.index import SessionIndex
from nacre.sessions.messages import AssistantMessage, Message, message_text

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TurnParts:
    """What every turn of an agent shares. Built once, in `app.py`."""

    settings: Settings
    budget: ContextBudget
    model: ChatModel
    summary_model: ChatModel | None
    flush_model: ChatModel | None
    offline: ChatModel
    memory: MemoryEngine | None
    index: SessionIndex
    journals: Journals
    workspace: Path
    lock_dir: Path
    now: Clock
    new_id: NewId
    sleep: Callable[[float], Awaitable[None]]
    count_tokens: Callable[[str], int]
    told: Told = field(default_factory=Told)

    def ask(self, emit: Emit, model: ChatModel | None = None) -> Ask:
        """Asks a model, the session's by default, again where a failure passes; retries are told."""
        asked = model or self.model

        def on_retry(attempt: int, delay_seconds: float, problem: str) -> None:
            emit(ModelRetried(attempt=attempt, delay_seconds=delay_seconds, problem=problem))

        return lambda request: held_to_contract(
            stream_with_retries(asked, request, sleep=self.sleep, on_retry=on_retry),
            model_name=asked.name,
        )

    def cites(self, policy: ChatPolicy) -> bool:
        """Whether search results name their source in this chat."""
        mode = self.settings.memory.citations
        return mode == "on" or (mode == "auto" and policy.is_private)

    def on_notes(self, path: str) -> None:
        """A tool wrote a file: the index has something to read."""
        log.info("%s was written", path)
        if self.memory is not None:
            self.memory.mark_dirty()

    def on_said(self) -> None:
        """A turn is over: where conversations are searched, the next search looks how far they have grown."""
        if self.memory is not None and "sessions" in self.settings.agent.memory_search.sources:
            self.memory.mark_dirty()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A session ready to talk: its tools, its system prompt and its window."""

    toolbox: Toolbox
    specs: tuple[ToolSpec, ...]
    system: SystemPrompt
    window: Window


async def prepare(session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit) -> Prepared:
    """Puts together what the model reads before the conversation, and the window around both."""
    cites = parts.cites(session.policy)
    toolbox = Toolbox(_tools(session.policy, parts, cites=cites), now_ms=session.now_ms)
    specs = toolbox.specs()
    if not parts.workspace.is_dir():
        log.warning("the workspace %s is gone", parts.workspace)
        name = parts.workspace.name
        emit(Warned(message=f"The workspace folder {name!r} is gone: no note can be read or written."))
    system, notices = await system_prompt(
        workspace=parts.workspace,
        policy=session.policy,
        settings=parts.settings.agent,
        tools=specs,
        cites=cites,
        changing=changing_part(
            now=parts.now(),
            channel=inbound.channel,
            chat_kind=session.policy.chat_kind,
            model_name=parts.model.name,
        ),
    )
    parts.told.once(session.session_id, notices, emit)
    window = Window(session, _window_parts(parts, emit), system=system, tools=specs, emit=emit)
    return Prepared(toolbox=toolbox, specs=specs, system=system, window=window)


async def run_turn(
    session: OpenSession, inbound: Inbound, text: str, parts: TurnParts, emit: Emit
) -> Reply | None:
    """One turn: from a person's words to the reply, or `None` for silence.

    Raises:
        ModelError: no answer could be had; the words and all that followed are on disk.
    """
    await write_down(session, inbound, text)
    return await answer_turn(session, inbound, parts, emit)


async def write_down(session: OpenSession, inbound: Inbound, text: str) -> None:
    """Puts a person's words, and what came with them, on disk."""
    await session.say(inbound_message(text, inbound.attachments, timestamp_ms=session.now_ms()))


async def answer_turn(session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit) -> Reply | None:
    """The rest of a turn whose words are on disk; see `run_turn`."""
    prepared = await prepare(session, inbound, parts, emit)
    conversation = TurnConversation(session, prepared, parts, emit)
    try:
        answer = await run_loop(
            conversation,
            ask=parts.ask(emit),
            toolbox=prepared.toolbox,
            emit=emit,
            max_steps=parts.settings.agent.max_steps,
        )
    except asyncio.CancelledError:
        await session.mark_aborted()
        raise
    except ContextOverflow as overflow:
        raise ContextOverflow(
            f"{overflow} If your last message is very long, send less of it, or put it into a file of the "
            "workspace; /new begins a fresh session.",
            detail=overflow.detail,
        ) from overflow
    await session.settle(answer, window_tokens=parts.budget.window_tokens)
    return _reply(session, answer, conversation.said, emit)


class TurnConversation:
    """The session as the loop sees it."""

    def __init__(self, session: OpenSession, prepared: Prepared, parts: TurnParts, emit: Emit) -> None:
        self.said: list[str] = []
        self._session = session
        self._prepared = prepared
        self._parts = parts
        self._emit = emit
        self._overflowed = False

    async def request(self) -> ModelRequest:
        """The whole context, after the window has made room for it."""
        await self._prepared.window.keep()
        if self._session.wants_recall:
            await _recall(self._session, self._parts, self._emit)
        return ModelRequest(
            system=self._prepared.system,
            messages=model_messages(
                self._session.transcript, is_compacted=self._session.compaction_count > 0
            ),
            tools=self._prepared.specs,
        )

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Flushes and compacts once a turn; a second overflow is the caller's to tell."""
        if self._overflowed:
            return False
        self._overflowed = True
        log.warning("the window of %s overflowed: %s", self._session.key, overflow)
        ended = await self._prepared.window.compact("overflow")
        return not ended.problem

    async def record(self, message: Message) -> None:
        """Puts the message on disk."""
        await self._session.write(message)
        if isinstance(message, AssistantMessage) and message_text(message).strip():
            self.said.append(message_text(message))

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self._session.now_ms()


def _tools(policy: ChatPolicy, parts: TurnParts, *, cites: bool) -> tuple[Tool, ...]:
    if not parts.workspace.is_dir():
        # A mount that is not there must not be grown anew: the notes on it would seem lost.
        return ()
    tools = file_tools(
        parts.workspace, policy, lock_dir=parts.lock_dir, on_changed=parts.on_notes, now=parts.now
    )
    if parts.memory is None or not policy.offers_memory_tools:
        return tools
    return (*tools, *memory_tools(parts.memory, cites=cites))


def _window_parts(parts: TurnParts, emit: Emit) -> WindowParts:
    settings = parts.settings.agent.compaction
    own = (parts.summary_model,) if parts.summary_model else ()

    def summary_model(model: ChatModel, ask: Ask) -> SummaryModel:
        window_tokens = model.context_window_tokens if model in own else None
        limits = summary_limits(parts.budget, settings, window_tokens=window_tokens)
        return SummaryModel(name=model.name, ask=ask, limits=limits)

    return WindowParts(
        budget=parts.budget,
        settings=settings,
        workspace=parts.workspace,
        lock_dir=parts.lock_dir,
        now=parts.now,
        count_tokens=parts.count_tokens,
        ask_for_notes=parts.ask(emit, parts.flush_model),
        ask_offline=parts.offline.stream,
        summary_models=tuple(summary_model(model, parts.ask(emit, model)) for model in (*own, parts.model)),
        extractor=summary_model(parts.offline, parts.offline.stream),
        on_notes=parts.on_notes,
    )


async def _recall(session: OpenSession, parts: TurnParts, emit: Emit) -> None:
    """Puts the daily logs into the transcript; a log that cannot be read must not cost the turn."""
    if not session.policy.loads_daily_logs:
        return
    if parts.memory is not None:
        parts.memory.session_started()
    try:
        logs = await daily_logs(
            parts.workspace, now=parts.now(), max_chars=parts.settings.agent.daily_log_max_chars
        )
    except OSError as error:
        emit(Warned(message=f"The daily logs could not be read, so they are not in the context: {error}."))
        return
    if logs:
        await session.write_recall(logs)


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
