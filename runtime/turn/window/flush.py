"""The silent turn before a compaction: the model writes down what must last, into today's log only.

Whatever it answers is never delivered. What it may touch is enforced here, not by its prompt: one
tool, one file, append only. When the model cannot be asked, the offline responder extracts notes
from the same conversation instead.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath

from pydantic import Field

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.text.markdown_blocks import without_kind
from nacre.memory.workspace.workspace import MEMORY_FOLDER, daily_log_path, workspace_gone
from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.contracts.events import FlushEnded, FlushStatus
from nacre.runtime.contracts.model import Ask, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.hooks.hooks import WindowHooks
from nacre.runtime.open_sessions.open_session import OpenSession, UnfinishedFlush
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.runtime.tools.file_tools import DATE_PLACEHOLDER, FLUSH_HEADING
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput
from nacre.runtime.turn.loop.loop import run_loop, run_tool
from nacre.runtime.turn.window.window_parts import WindowTurn
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
    user_message,
)
from nacre.sessions.view.sent_view import estimate_message_tokens

log = logging.getLogger(__name__)

MAX_FLUSH_STEPS = 6


@dataclasses.dataclass
class FlushConversation:
    """The flush turn as the loop sees it: the session's context, then the flush prompt.

    Its messages are kept in the journal for the record, outside of what later turns see. `refused` is what
    the last tool call was told when it failed; empty when it did not, or when none was made.
    """

    session: OpenSession
    system: SystemPrompt
    messages: list[Message]
    notes: Tool
    max_output_tokens: int
    refused: str = ""

    async def request(self) -> ModelRequest:
        """The whole context so far."""
        return ModelRequest(
            system=self.system,
            messages=tuple(self.messages),
            tools=(self.notes.spec(),),
            max_output_tokens=self.max_output_tokens,
            purpose="flush",
        )

    async def make_room(self, _overflow: ContextOverflow) -> bool:
        """A flush does not compact: it is what comes before that."""
        return False

    async def record(self, message: Message) -> None:
        """Keeps the message for the record and for the next step."""
        await self.session.flushes.keep_message(message)
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self.refused = message_text(message) if message.is_error else ""

    async def take_in(self) -> None:
        """Nobody speaks into a flush."""

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps a broken answer for the record alone."""
        await self.session.flushes.keep_message(answer)

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self.session.now_ms()


class FlushLimits(Record):
    """`fitting_tokens` bounds the messages that the model gets, `None` gives it all; the newest are kept."""

    max_output_tokens: int
    fitting_tokens: int | None
    count_tokens: Callable[[str], int]


async def run_flush(
    session: OpenSession,
    *,
    system: SystemPrompt,
    notes: NotesFile,
    settings: MemoryFlushSettings,
    ask: Ask,
    ask_offline: Ask,
    limits: FlushLimits,
    is_forced: bool = False,
) -> FlushEnded:
    """Runs one flush and records the attempt; never raises for a model that fails.

    The offline responder stands in for a model that fails, or whose notes could not be used. It reads
    everything, and beside a model that succeeded what this one was not given.
    """
    everything = session.view.messages()

    async def asked(of: Ask, messages: Sequence[Message]) -> str:
        try:
            if not messages:
                raise ContextOverflow("The newest turn alone is too long for the model's window.")
            refused = await _ask_for_notes(session, system, notes, settings, of, messages, limits)
        except ModelError as error:
            log.warning("memory flush of %s failed: %s", session.key, error)
            return str(error)
        if refused and not notes.wrote and not notes.problem:
            log.warning("the notes of %s could not be used: %s", session.key, refused)
            return f"The model's notes could not be used: {refused}"
        return ""

    status: FlushStatus = "written"
    fitting = await asyncio.to_thread(fitting_messages, everything, limits)
    problem = last_problem = await asked(ask, fitting)
    if problem and not notes.wrote:
        status, last_problem = (
            "fallback",
            await asked(ask_offline, [*_left_out(session, everything), *everything]),
        )
    elif left_out := _left_out(session, fitting):
        last_problem = await asked(ask_offline, left_out)
    return await _recorded(
        session, notes, status, problem=problem, has_failed=bool(last_problem), is_forced=is_forced
    )


async def run_extract(
    session: OpenSession,
    *,
    system: SystemPrompt,
    notes: NotesFile,
    settings: MemoryFlushSettings,
    ask_offline: Ask,
    limits: FlushLimits,
) -> FlushEnded:
    """Notes by extraction of what was said since the last flush, for a cycle that has had its own.

    It costs no model call. The attempt is recorded, and does not count as the cycle's.
    """
    problem = ""
    try:
        said = session.flushes.unflushed_messages()
        await _ask_for_notes(session, system, notes, settings, ask_offline, said, limits)
    except ModelError as error:
        problem = str(error)
    return await _recorded(
        session, notes, "written", problem=problem, has_failed=bool(problem), is_forced=True
    )


async def _recorded(
    session: OpenSession,
    notes: NotesFile,
    status: FlushStatus,
    *,
    problem: str,
    has_failed: bool,
    is_forced: bool,
) -> FlushEnded:
    """Records an attempt; `status` is what it is called if anything was written."""
    if not notes.wrote:
        status = "failed" if has_failed or notes.problem else "nothing"
    elif notes.waits:
        status = "proposed"
    problem = "; ".join(text for text in (problem, notes.problem) if text)
    await session.flushes.record(status, path=notes.path, problem=problem, is_forced=is_forced)
    return FlushEnded(status=status, path=notes.path, problem=problem, notes=notes.added)


def _left_out(session: OpenSession, given: Sequence[Message]) -> list[Message]:
    """What was said since the last flush and is not among the messages that a model is given."""
    known = {_said(message) for message in given}
    return [message for message in session.flushes.unflushed_messages() if _said(message) not in known]


def _said(message: Message) -> tuple[type[Message], int, str]:
    """Who said what, and when: an answer that a view shows without its calls is the same answer."""
    return type(message), message.timestamp_ms, message_text(message)


async def _ask_for_notes(
    session: OpenSession,
    system: SystemPrompt,
    notes: NotesFile,
    settings: MemoryFlushSettings,
    ask: Ask,
    messages: Sequence[Message],
    limits: FlushLimits,
) -> str:
    """What the model's last call was told when it failed, or why its answer has no end; else empty."""
    tool = notes.tool()
    conversation = FlushConversation(
        session=session,
        system=flush_system(system, settings, notes.path),
        messages=list(messages),
        notes=tool,
        max_output_tokens=limits.max_output_tokens,
    )
    await conversation.record(user_message(_flush_prompt(settings, notes), timestamp_ms=session.now_ms()))
    answer = await run_loop(
        conversation,
        ask=ask,
        toolbox=Toolbox([tool], now_ms=session.now_ms),
        emit=lambda _event: None,
        max_steps=MAX_FLUSH_STEPS,
    )
    if answer.stop_reason == "length":
        return answer.error_message or "The answer was cut off before its notes were written."
    return conversation.refused


def fitting_messages(messages: Sequence[Message], limits: FlushLimits) -> Sequence[Message]:
    """The newest whole turns within the limit; none when the newest alone is longer."""
    if limits.fitting_tokens is None:
        return messages
    tokens, start = 0, len(messages)
    for index in range(len(messages) - 1, -1, -1):
        tokens += estimate_message_tokens(messages[index], limits.count_tokens)
        if tokens > limits.fitting_tokens:
            break
        if isinstance(messages[index], UserMessage):
            start = index
    return messages[start:]


def _flush_prompt(settings: MemoryFlushSettings, notes: NotesFile) -> str:
    day = Path(notes.path).stem
    if settings.prompt.strip():
        asked = [_owners_text(settings.prompt, day), render("flush/rules", path=notes.path)]
    else:
        asked = [render("flush/request", date=day, path=notes.path)]
    return "\n\n".join([*asked, render("flush/retain")] if notes.is_for_bank else asked)


def flush_system(system: SystemPrompt, settings: MemoryFlushSettings, path: str) -> SystemPrompt:
    """The system prompt of a conversation, with what a flush into `path` is."""
    if settings.system_prompt.strip():
        text = _owners_text(settings.system_prompt, Path(path).stem)
    else:
        text = render("flush/system", path=path)
    return SystemPrompt(
        stable=system.stable, changing="\n\n".join(part for part in (system.changing, text) if part)
    )


def _owners_text(text: str, day: str) -> str:
    """The owner's words with today's date in place of `YYYY-MM-DD`, and the silent token explained."""
    text = text.strip().replace(DATE_PLACEHOLDER, day)
    if SILENT_TOKEN in text:
        return text
    return f"{text}\n\nIf there is nothing to tell anybody, begin your answer with {SILENT_TOKEN}."


class SessionFlush:
    """Saves notes of one session; `heard` tells hooks."""

    def __init__(self, turn: WindowTurn, heard: WindowHooks) -> None:
        self._turn = turn
        self._session = turn.session
        self._parts = turn.parts
        self._budget = turn.budget
        self._heard = heard

    @property
    def is_forced(self) -> bool:
        """Whether much was said since the last flush."""
        limit_bytes = self._parts.settings.memory_flush.force_flush_transcript_bytes
        if not limit_bytes or not self._budget.flush_enabled:
            return False
        return self._session.flushes.unflushed_bytes >= limit_bytes

    async def run(self, tokens: int, *, has_overflowed: bool = False, is_forced: bool = False) -> None:
        """Asks a model for notes of a context of `tokens` tokens; a forced flush is not the cycle's.

        One that was cut off goes on instead. Nobody is asked for notes that could not be written: the owner
        is told once, and nothing is recorded, so that a flush comes when they can be.
        """
        parts, budget = self._parts, self._budget
        if not self._may_write(self._notes_file(parts.now()).path):
            return
        await self._heard.flush_begins()
        await self._turn.frame.drop_deleted()
        # A context that the provider refuses, or will, is not sent again: its newest half is.
        is_too_long = has_overflowed or tokens > budget.window_tokens - budget.summary_tokens
        limits = self._limits(budget.compact_at // 2 if is_too_long else None)
        ask = self._heard.ask(
            self._turn.models.asking(parts.flush_model, self._turn.emit),
            model_name=(parts.flush_model or self._turn.models.first.model).name,
        )
        if await self._has_resumed(ask, limits):
            return
        notes = self._notes_file(parts.now())
        ended = await run_flush(
            self._session,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask=ask,
            ask_offline=parts.offline.stream,
            limits=limits,
            is_forced=is_forced,
        )
        await self._ended(notes, ended)

    async def _has_resumed(self, ask: Ask, limits: FlushLimits) -> bool:
        unfinished = self._session.flushes.unfinished
        if unfinished is None:
            return False
        parts, begun_at_ms = self._parts, unfinished.messages[0].timestamp_ms
        notes = self._notes_file(stored_moment(begun_at_ms, parts.now().tzinfo) or parts.now())
        ended = await resume_flush(
            self._session,
            unfinished,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask=ask,
            limits=limits,
        )
        if ended is not None:
            await self._ended(notes, ended)
        return ended is not None

    async def cover_rest(self) -> None:
        """Extracts notes of what was said since the last flush, if anything was."""
        if self._session.flushes.has_unflushed_messages:
            await self._extract()

    async def cover_before(self, first_kept_entry_id: str) -> None:
        """Extracts notes of what was said after the cycle's flush, if some of it stands before that entry.

        It is about to leave the model's view, and no flush has seen it.
        """
        if self._session.flushes.has_unflushed_before(first_kept_entry_id):
            await self._extract()

    async def cover_hidden(self) -> None:
        """Extracts notes of what was said since the last flush, if a limit of turns hides some of it."""
        turns = self._session.view.history_turns
        if turns and turns > 0 and self._session.flushes.unflushed_turns(most=turns + 1) > turns:
            await self._extract()

    async def _extract(self) -> None:
        if not self._budget.flush_enabled:
            return
        parts, notes = self._parts, self._notes_file(self._parts.now())
        if not self._may_write(notes.path):
            return
        await self._heard.flush_begins()
        ended = await run_extract(
            self._session,
            system=await self._turn.frame.system(),
            notes=notes,
            settings=parts.settings.memory_flush,
            ask_offline=parts.offline.stream,
            limits=self._limits(None),
        )
        await self._ended(notes, ended)

    def _may_write(self, path: str) -> bool:
        """Whether notes can be written there; if not, that is told once in each session."""
        parts, session = self._parts, self._session
        if not session.policy.may_write(PurePosixPath(path)):
            reason = "the settings make the workspace read-only (agents.defaults.sandbox.workspaceAccess)."
        elif parts.workspace.is_there and not parts.workspace.may_change(path):
            reason = f"{path} may not be written: it is mounted read-only, or its permissions forbid it."
        else:
            return True
        parts.told.once(
            session.session_id, (f"No notes are saved of this conversation: {reason}",), self._turn.emit
        )
        return False

    def _notes_file(self, now: datetime) -> NotesFile:
        parts, policy = self._parts, self._session.policy
        folder = MEMORY_FOLDER if policy.is_private else policy.notes_folder
        sources = self._session.sources(parts.sources)
        return NotesFile(
            sources.workspace(
                parts.workspace,
                "flush",
                entry_ids=lambda: self._session.flushes.unflushed_range,
                words_of=without_kind,
            ),
            daily_log_path(now.date(), folder=folder),
            heading=f"{FLUSH_HEADING}, {now:%H:%M}"
            if policy.is_private
            else f"## Notes from {self._session.key}",
            # Pages are the owner's alone: nobody else's chat is asked for lines of them.
            is_for_bank=parts.has_bank and policy.is_private,
        )

    def _limits(self, fitting_tokens: int | None) -> FlushLimits:
        return FlushLimits(
            max_output_tokens=self._budget.summary_tokens,
            fitting_tokens=fitting_tokens,
            count_tokens=self._parts.count_tokens,
        )

    async def _ended(self, notes: NotesFile, ended: FlushEnded) -> None:
        if notes.wrote:
            self._parts.on_notes(notes.path)
        self._turn.emit(ended)
        await self._heard.flush_ended(ended)


class AppendArguments(ToolArguments):
    """Arguments of the flush turn's only tool."""

    path: str = Field(default="", description="Today's log; any other path is redirected to it.")
    text: str = Field(description="Markdown to append: short bullets, each understandable on its own.")


class NotesFile:
    """Today's log as a flush may touch it: append only, and never the same block twice.

    `problem` says why the last attempt to write failed; empty when it did not. `added` is what was
    written, or what `waits` for the owner before it is.

    Each block stands under `heading`, a Markdown line. `is_for_bank` is a log of which pages are made.
    """

    def __init__(self, workspace: Workspace, path: str, *, heading: str, is_for_bank: bool) -> None:
        self.path = path
        self.is_for_bank = is_for_bank
        self.wrote = False
        self.waits = False
        self.problem = ""
        self.added = ""
        self._heading = heading
        self._workspace = workspace

    def tool(self) -> Tool:
        """The `append` tool that writes here, whatever path the model names."""
        return Tool(
            name="append",
            description=f"Append Markdown to {self.path}. Text that already stands there is not added again.",
            arguments=AppendArguments,
            run=self._append,
        )

    async def _append(self, arguments: AppendArguments, _scope: CallScope) -> ToolOutput:
        if not arguments.text.strip():
            raise ToolFailed("The text is empty, so there is nothing to append.")
        try:
            if not self._workspace.is_there:
                raise FileNotFoundError(workspace_gone(self._workspace))
            outcome = await self._workspace.append(self.path, arguments.text, heading=self._heading)
        except WaitsForReview as waiting:
            self.wrote, self.waits, self.problem = True, True, ""
            self.added += waiting.text
            return ToolOutput(text=f"Noted for {self.path}; the owner looks at it before it stands there.")
        except (OSError, PathOutsideRoot, FileBusy) as error:
            # Without the system's words, which name the whole path: others may read along.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problem = f"{self.path} could not be written: {reason}"
            raise ToolFailed(self.problem) from error
        if not outcome.written:
            return ToolOutput(text=f"Nothing new: all of it already stands in {self.path}.")
        self.wrote, self.problem = True, ""
        self.added += outcome.written
        return ToolOutput(text=f"Appended to {self.path}.")


async def resume_flush(
    session: OpenSession,
    unfinished: UnfinishedFlush,
    *,
    system: SystemPrompt,
    notes: NotesFile,
    settings: MemoryFlushSettings,
    ask: Ask,
    limits: FlushLimits,
) -> FlushEnded | None:
    """Brings a flush to its end and records it for what was said before it was cut off.

    `None` when nothing of it is written; it is as if there had been none.
    """
    before = fitting_messages(session.view.messages_without(unfinished.later_entry_ids), limits)
    conversation = FlushConversation(
        session=session,
        system=flush_system(system, settings, notes.path),
        messages=[*before, *unfinished.messages],
        notes=notes.tool(),
        max_output_tokens=limits.max_output_tokens,
    )
    toolbox = Toolbox([conversation.notes], now_ms=session.now_ms)
    for call in _open_calls(unfinished):
        outcome = await run_tool(toolbox, call, lambda _event: None)
        await conversation.record(outcome.message)
    results = [item for item in conversation.messages[len(before) :] if isinstance(item, ToolResultMessage)]
    if all(result.is_error for result in results):
        return None
    notes.wrote = True
    problem = ""
    try:
        if not before:
            raise ContextOverflow("The newest turn alone is too long for the model's window.")
        if not _has_answered(conversation.messages[-1]):
            await run_loop(
                conversation, ask=ask, toolbox=toolbox, emit=lambda _event: None, max_steps=MAX_FLUSH_STEPS
            )
    except ModelError as error:
        log.warning("the memory flush of %s, which was cut off, ends with: %s", session.key, error)
        problem = str(error)
    status: FlushStatus = "proposed" if notes.waits else "written"
    await session.flushes.record(status, path=notes.path, problem=problem, is_forced=False, is_resumed=True)
    return FlushEnded(status=status, path=notes.path, problem=problem, notes=notes.added)


def _has_answered(last: Message) -> bool:
    return isinstance(last, AssistantMessage) and not last.tool_calls


def _open_calls(unfinished: UnfinishedFlush) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result yet."""
    calls: dict[str, ToolCall] = {}
    for message in unfinished.messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            calls.pop(message.tool_call_id, None)
    return tuple(calls.values())
