"""The silent turn before a compaction: the model appends lasting notes to today's log.

Its answer is never delivered. The code, not the prompt, limits what the model can do: one tool, one file,
append only. When no model can be asked, the offline responder extracts notes from the same conversation.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path, PurePosixPath

from pydantic import Field

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.text.markdown_blocks import without_kind
from nacre.memory.workspace.workspace import MEMORY_FOLDER, daily_log_path, workspace_gone
from nacre.prompts import render
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.contracts.events import Emit, FlushEnded, FlushStatus
from nacre.runtime.contracts.model import Ask, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.hooks.hooks import WindowHooks
from nacre.runtime.open_sessions.open_session import OpenSession, UnfinishedFlush
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.runtime.tools.file_tools import DATE_PLACEHOLDER, FLUSH_HEADING
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput
from nacre.runtime.turn.context import TurnContext
from nacre.runtime.turn.loop import run_loop, run_tool
from nacre.runtime.turn.system_prompt import joined
from nacre.runtime.turn.turn_parts import TurnParts
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
    """The flush as `run_loop` sees it: the session's context, then the flush prompt.

    Its messages are recorded in the journal, but later turns do not see them. `failure` is the result of the
    last tool call if that failed, and empty otherwise.
    """

    session: OpenSession
    system: SystemPrompt
    messages: list[Message]
    tool: Tool
    max_output_tokens: int
    failure: str = ""

    def __post_init__(self) -> None:
        self.toolbox = Toolbox([self.tool], now_ms=self.session.now_ms)
        self.now_ms = self.session.now_ms

    async def request(self) -> ModelRequest:
        return ModelRequest(
            system=self.system,
            messages=tuple(self.messages),
            tools=(self.tool.spec(),),
            max_output_tokens=self.max_output_tokens,
            purpose="flush",
        )

    async def make_room(self, _overflow: ContextOverflow) -> bool:
        """Returns `False`: a flush comes before a compaction and cannot compact."""
        return False

    async def record(self, message: Message) -> None:
        await self.session.flushes.keep_message(message)
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self.failure = message_text(message) if message.is_error else ""

    async def record_joined_messages(self) -> None:
        """Does nothing: no message can join a flush."""

    async def set_aside(self, answer: AssistantMessage) -> None:
        await self.session.flushes.keep_message(answer)

    async def run(self, ask: Ask) -> AssistantMessage:
        """Asks for notes until the model stops calling the tool. Raises `ModelError`."""
        return await run_loop(
            self, ask=ask, toolbox=self.toolbox, emit=lambda _event: None, max_steps=MAX_FLUSH_STEPS
        )


class SessionFlush:
    """Saves notes of one session before its history leaves the window. `hooks` run for each attempt."""

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        budget: ContextBudget,
        context: TurnContext,
        emit: Emit,
        hooks: WindowHooks,
    ) -> None:
        self._session = session
        self._parts = parts
        self._settings = parts.settings.agent.compaction.memory_flush
        self._budget = budget
        self._context = context
        self._emit = emit
        self._hooks = hooks

    @property
    def is_forced(self) -> bool:
        """Whether the session has grown by `forceFlushTranscriptBytes` since the last flush."""
        limit_bytes = self._settings.force_flush_transcript_bytes
        if not limit_bytes or not self._budget.flush_enabled:
            return False
        return self._session.flushes.unflushed_bytes >= limit_bytes

    async def run(self, tokens: int, *, has_overflowed: bool = False, is_forced: bool = False) -> None:
        """Asks a model for notes of a context of `tokens` tokens, and records the attempt.

        A flush that was cut off is resumed instead. A forced flush does not use up the cycle's attempt. The
        offline responder replaces a model that fails or whose notes cannot be used; it also reads what did
        not fit into a model's request. If the log cannot be written, no model is asked, a notice tells the
        owner once, and nothing is recorded, so that the next turn tries again.
        """
        parts, budget = self._parts, self._budget
        if not self._may_write(self._notes_file(parts.now()).path):
            return
        await self._hooks.flush_begins()
        await self._context.bring_up_to_date()
        # The provider refuses, or will refuse, the whole context: only its newest half is sent.
        is_too_long = has_overflowed or tokens > budget.window_tokens - budget.summary_tokens
        most_tokens = budget.compact_at // 2 if is_too_long else None
        ask = self._hooks.ask(
            parts.models.asking(parts.flush_model, self._emit),
            model_name=(parts.flush_model or parts.model).name,
        )
        unfinished = self._session.flushes.unfinished
        if unfinished is not None and await self._has_resumed(unfinished, ask, most_tokens):
            return
        everything = self._session.view.messages()
        fitting = await asyncio.to_thread(self._fitting, everything, most_tokens)
        status: FlushStatus = "written"
        notes = self._notes_file(parts.now())
        problem = last_problem = await self._attempt(notes, ask, fitting)
        if problem and not notes.wrote:
            status = "fallback"
            messages = [*self._left_out(everything), *everything]
            last_problem = await self._attempt(notes, parts.offline.stream, messages)
        elif left_out := self._left_out(fitting):
            last_problem = await self._attempt(notes, parts.offline.stream, left_out)
        await self._record(notes, status, problem=problem, has_failed=bool(last_problem), is_forced=is_forced)

    async def cover_rest(self) -> None:
        """Extracts notes of what was said since the last flush, if anything was."""
        if self._session.flushes.has_unflushed_messages:
            await self._extract()

    async def cover_before(self, first_kept_entry_id: str) -> None:
        """Extracts notes of what was said after the cycle's flush, if some of it precedes that entry.

        A compaction is about to hide it, and no flush has seen it.
        """
        if self._session.flushes.has_unflushed_before(first_kept_entry_id):
            await self._extract()

    async def cover_hidden(self) -> None:
        """Extracts notes of what was said since the last flush, if a limit of turns hides some of it."""
        turns = self._session.view.history_turns
        if turns and turns > 0 and self._session.flushes.unflushed_turns(most=turns + 1) > turns:
            await self._extract()

    async def _extract(self) -> None:
        # Needs no model call and does not use up the cycle's attempt.
        notes = self._notes_file(self._parts.now())
        if not self._budget.flush_enabled or not self._may_write(notes.path):
            return
        await self._hooks.flush_begins()
        messages = self._session.flushes.unflushed_messages()
        problem = await self._attempt(notes, self._parts.offline.stream, messages)
        await self._record(notes, "written", problem=problem, has_failed=bool(problem), is_forced=True)

    async def _attempt(self, notes: NotesFile, ask: Ask, messages: Sequence[Message]) -> str:
        """Asks for notes of `messages`. Returns why there are none, or an empty string."""
        session = self._session
        try:
            _check_fits(messages)
            conversation = await self._conversation(notes, messages)
            prompt = _flush_prompt(self._settings, notes)
            await conversation.record(user_message(prompt, timestamp_ms=session.now_ms()))
            answer = await conversation.run(ask)
        except ModelError as error:
            log.warning("memory flush of %s failed: %s", session.key, error)
            return str(error)
        failure = conversation.failure
        if answer.stop_reason == "length":
            failure = answer.error_message or "The answer was cut off before its notes were written."
        if failure and not notes.wrote and not notes.problem:
            log.warning("the notes of %s could not be used: %s", session.key, failure)
            return f"The model's notes could not be used: {failure}"
        return ""

    async def _has_resumed(self, unfinished: UnfinishedFlush, ask: Ask, most_tokens: int | None) -> bool:
        """Completes and records a flush that was cut off; `False` if it had written nothing."""
        parts, session = self._parts, self._session
        began = stored_moment(unfinished.messages[0].timestamp_ms, parts.now().tzinfo)
        notes = self._notes_file(began or parts.now())
        before = self._fitting(session.view.messages_without(unfinished.later_entry_ids), most_tokens)
        conversation = await self._conversation(notes, [*before, *unfinished.messages])
        for call in _open_calls(unfinished):
            outcome = await run_tool(conversation.toolbox, call, lambda _event: None)
            await conversation.record(outcome.message)
        added = conversation.messages[len(before) :]
        if all(result.is_error for result in added if isinstance(result, ToolResultMessage)):
            return False
        notes.wrote = True
        problem, last = "", conversation.messages[-1]
        try:
            _check_fits(before)
            if not isinstance(last, AssistantMessage) or last.tool_calls:
                await conversation.run(ask)
        except ModelError as error:
            log.warning("the resumed memory flush of %s failed: %s", session.key, error)
            problem = str(error)
        status: FlushStatus = "proposed" if notes.waits else "written"
        await session.flushes.record(
            status, path=notes.path, problem=problem, is_forced=False, is_resumed=True
        )
        await self._ended(notes, status, problem)
        return True

    async def _conversation(self, notes: NotesFile, messages: Sequence[Message]) -> FlushConversation:
        if own := self._settings.system_prompt.strip():
            text = _owners_text(own, Path(notes.path).stem)
        else:
            text = render("flush/system", path=notes.path)
        system = await self._context.system()
        return FlushConversation(
            session=self._session,
            system=SystemPrompt(stable=system.stable, changing=joined(system.changing, text)),
            messages=list(messages),
            tool=notes.tool(),
            max_output_tokens=self._budget.summary_tokens,
        )

    async def _record(
        self, notes: NotesFile, status: FlushStatus, *, problem: str, has_failed: bool, is_forced: bool
    ) -> None:
        # `status` holds if anything was written.
        if not notes.wrote:
            status = "failed" if has_failed or notes.problem else "nothing"
        elif notes.waits:
            status = "proposed"
        problem = "; ".join(text for text in (problem, notes.problem) if text)
        await self._session.flushes.record(status, path=notes.path, problem=problem, is_forced=is_forced)
        await self._ended(notes, status, problem)

    async def _ended(self, notes: NotesFile, status: FlushStatus, problem: str) -> None:
        if notes.wrote:
            self._parts.on_notes(notes.path)
        ended = FlushEnded(status=status, path=notes.path, problem=problem, notes=notes.added)
        self._emit(ended)
        await self._hooks.flush_ended(ended)

    def _left_out(self, sent: Sequence[Message]) -> list[Message]:
        """What was said since the last flush and is not among the messages that are `sent`."""
        same = set(map(id, sent))
        others = [
            message for message in self._session.flushes.unflushed_messages() if id(message) not in same
        ]
        known = {_identity(message) for message in sent} if others else set()
        return [message for message in others if _identity(message) not in known]

    def _fitting(self, messages: Sequence[Message], most_tokens: int | None) -> Sequence[Message]:
        """The newest whole turns of at most `most_tokens`; none if the newest alone is longer."""
        if most_tokens is None:
            return messages
        tokens, start = 0, len(messages)
        for index in range(len(messages) - 1, -1, -1):
            tokens += estimate_message_tokens(messages[index], self._parts.count_tokens)
            if tokens > most_tokens:
                break
            if isinstance(messages[index], UserMessage):
                start = index
        return messages[start:]

    def _may_write(self, path: str) -> bool:
        """Whether the log can be written. If not, a notice tells the owner once a session."""
        parts, session = self._parts, self._session
        if not session.policy.may_write(PurePosixPath(path)):
            reason = "the settings make the workspace read-only (agents.defaults.sandbox.workspaceAccess)."
        elif parts.workspace.is_there and not parts.workspace.may_change(path):
            reason = f"{path} cannot be written: it is mounted read-only, or its permissions forbid it."
        else:
            return True
        notice = f"No notes are saved of this conversation: {reason}"
        parts.notice_log.once(session.session_id, (notice,), self._emit)
        return False

    def _notes_file(self, now: datetime) -> NotesFile:
        parts, session = self._parts, self._session
        is_private = session.policy.is_private
        workspace = session.sources(parts.sources).workspace(
            parts.workspace,
            "flush",
            entry_ids=lambda: session.flushes.unflushed_range,
            words_of=_said,
        )
        messages = session.flushes.unflushed_messages()
        people = [each for each in messages if isinstance(each, UserMessage)]
        said = [stored_moment(each.timestamp_ms, now.tzinfo) for each in people]
        # A session often ends with the first message of a later day; a day in the heading dates its lines.
        at = min(said[-1] or now, now) if said else now
        of_day = "" if at.date() == now.date() else f" of {at.date()}"
        return NotesFile(
            workspace,
            daily_log_path(now.date(), folder=MEMORY_FOLDER if is_private else session.policy.notes_folder),
            heading=f"{FLUSH_HEADING}{of_day}, {at:%H:%M}"
            if is_private
            else f"## Notes from {session.key}{of_day}",
            # Pages are the owner's alone, so other chats are not asked for lines of them.
            is_for_bank=parts.settings.memory.bank.enabled and is_private,
            # In a conversation of several days, "tomorrow" is ambiguous.
            today=at.date() if all(each and each.date() >= at.date() for each in said[:1]) else None,
            said_on=at.date(),
        )


class AppendArguments(ToolArguments):
    """Arguments of the flush's only tool."""

    path: str = Field(default="", description="Today's log; any other path is redirected to it.")
    text: str = Field(description="Markdown to append: short bullets, each understandable on its own.")


class NotesFile:
    """Today's log as a flush may change it: append only, and never the same block twice.

    Each block is added under `heading`, a Markdown line. `is_for_bank` asks for lines from which pages are
    made. `today` is the day that words such as "tomorrow" refer to, if it is certain; their date is added.
    `said_on` is the day of the last message. `problem` says why the last write failed. `added` is the text
    that was written or, if the log `waits`, that needs the owner's approval.
    """

    def __init__(
        self,
        workspace: Workspace,
        path: str,
        *,
        heading: str,
        is_for_bank: bool,
        said_on: date,
        today: date | None = None,
    ) -> None:
        self.path = path
        self.said_on = said_on
        self._today = today
        self.is_for_bank = is_for_bank
        self.wrote = False
        self.waits = False
        self.problem = ""
        self.added = ""
        self._heading = heading
        self._workspace = workspace

    def tool(self) -> Tool:
        """The `append` tool, which writes to this log whatever path the model names."""
        return Tool(
            name="append",
            description=f"Append Markdown to {self.path}. Text that it already contains is not added again.",
            arguments=AppendArguments,
            run=self._append,
        )

    async def _append(self, arguments: AppendArguments, _scope: CallScope) -> ToolOutput:
        if not arguments.text.strip():
            raise ToolFailed("The text is empty, so there is nothing to append.")
        try:
            if not self._workspace.is_there:
                raise FileNotFoundError(workspace_gone(self._workspace))
            outcome = await self._workspace.append(
                self.path, _dated(arguments.text, self._today), heading=self._heading
            )
        except WaitsForReview as waiting:
            self.wrote, self.waits, self.problem = True, True, ""
            self.added += waiting.text
            return ToolOutput(text=f"Proposed for {self.path}; it is added once the owner approves it.")
        except (OSError, PathOutsideRoot, FileBusy) as error:
            # The system's message names the whole path, which other people in a chat must not read.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problem = f"{self.path} could not be written: {reason}"
            raise ToolFailed(self.problem) from error
        if not outcome.written:
            return ToolOutput(
                text=outcome.left_out or f"Nothing new: {self.path} already contains all of it."
            )
        self.wrote, self.problem = True, ""
        self.added += outcome.written
        return ToolOutput(text=f"Appended to {self.path}.{outcome.left_out}")


def _said(line: str) -> str:
    from nacre.memory.text.days.query_dates import without_dates  # reads the words of many languages

    return without_kind(without_dates(line))


def _dated(text: str, today: date | None) -> str:
    if today is None:
        return text
    from nacre.memory.text.days.query_dates import with_dates

    return "\n".join(
        with_dates(line, today) if line.lstrip()[:2] in ("- ", "* ") else line for line in text.split("\n")
    )


def _check_fits(messages: Sequence[Message]) -> None:
    if not messages:
        raise ContextOverflow("The newest turn alone is too long for the model's window.")


def _identity(message: Message) -> tuple[type[Message], int, str]:
    # A view may show an answer without its calls; it is the same answer.
    return type(message), message.timestamp_ms, message_text(message)


def _open_calls(unfinished: UnfinishedFlush) -> tuple[ToolCall, ...]:
    calls: dict[str, ToolCall] = {}
    for message in unfinished.messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            calls.pop(message.tool_call_id, None)
    return tuple(calls.values())


def _flush_prompt(settings: MemoryFlushSettings, notes: NotesFile) -> str:
    day = Path(notes.path).stem
    if settings.prompt.strip():
        parts = [_owners_text(settings.prompt, day), render("flush/rules", path=notes.path)]
    else:
        parts = [render("flush/request", date=str(notes.said_on), path=notes.path)]
    return "\n\n".join([*parts, render("flush/retain")] if notes.is_for_bank else parts)


def _owners_text(text: str, day: str) -> str:
    text = text.strip().replace(DATE_PLACEHOLDER, day)
    if SILENT_TOKEN in text:
        return text
    return f"{text}\n\nIf there is nothing to tell anybody, begin your answer with {SILENT_TOKEN}."
