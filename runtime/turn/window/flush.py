"""The silent turn before a compaction: the model writes down what must last, into today's log only.

Whatever it answers is never delivered. What it may touch is enforced here, not by its prompt: one
tool, one file, append only. When the model cannot be asked, the offline responder extracts notes
from the same conversation instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.workspace.workspace import workspace_gone
from nacre.prompts import render
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.contracts.events import FlushEnded, FlushStatus
from nacre.runtime.contracts.model import Ask, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.settings.agents import MemoryFlushSettings
from nacre.runtime.tools.files import DATE_PLACEHOLDER
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput
from nacre.runtime.turn.loop.loop import run_loop
from nacre.runtime.turn.loop.sent_messages import model_messages
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, user_message
from nacre.sessions.view.tokens import estimate_message_tokens

log = logging.getLogger(__name__)

MAX_FLUSH_STEPS = 6


class AppendArguments(ToolArguments):
    """Arguments of the flush turn's only tool."""

    path: str = Field(default="", description="Today's log; any other path is redirected to it.")
    text: str = Field(description="Markdown to append: short bullets, each understandable on its own.")


class NotesFile:
    """Today's log as a flush may touch it: append only, and never the same block twice.

    `problem` says why the last attempt to write failed; empty when it did not.

    `origin` names the session in a heading above the notes when others than the owner speak in it.
    """

    def __init__(self, workspace: Workspace, path: str, *, origin: str = "") -> None:
        self.path = path
        self.wrote = False
        self.problem = ""
        self._origin = origin
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
        heading = f"## Notes from {self._origin}\n\n" if self._origin and arguments.text.strip() else ""
        try:
            if not self._workspace.is_there:
                raise FileNotFoundError(workspace_gone(self._workspace))
            outcome = await self._workspace.append(self.path, heading + arguments.text)
        except (OSError, PathOutsideRoot, FileBusy) as error:
            # Without the system's words, which name the whole path: others may read along.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problem = f"{self.path} could not be written: {reason}"
            raise ToolFailed(self.problem) from error
        if not outcome.written:
            return ToolOutput(text=f"Nothing new: all of it already stands in {self.path}.")
        self.wrote, self.problem = True, ""
        return ToolOutput(text=f"Appended to {self.path}.")


@dataclass
class FlushConversation:
    """The flush turn as the loop sees it: the session's context, then the flush prompt.

    Its messages are kept in the journal for the record, outside of what later turns see.
    """

    session: OpenSession
    system: SystemPrompt
    messages: list[Message]
    notes: Tool
    max_output_tokens: int

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

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps a broken answer for the record alone."""
        await self.session.flushes.keep_message(answer)

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self.session.now_ms()


@dataclass(frozen=True, kw_only=True)
class FlushLimits:
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

    The offline responder, which stands in for a model that fails, reads everything.
    """
    everything = model_messages(session.view.transcript(), is_compacted=session.compaction_count > 0)

    async def asked(of: Ask, messages: Sequence[Message]) -> str:
        try:
            if not messages:
                raise ContextOverflow("The newest turn alone is too long for the model's window.")
            await _ask_for_notes(session, system, notes, settings, of, messages, limits)
        except ModelError as error:
            log.warning("memory flush of %s failed: %s", session.key, error)
            return str(error)
        return ""

    status: FlushStatus = "written"
    problem = last_problem = await asked(ask, await asyncio.to_thread(_fitting, everything, limits))
    if problem and not notes.wrote:
        status, last_problem = "fallback", await asked(ask_offline, everything)
    if not notes.wrote:
        status = "failed" if last_problem or notes.problem else "nothing"
    problem = "; ".join(text for text in (problem, notes.problem) if text)
    await session.flushes.record(status, path=notes.path, problem=problem, is_forced=is_forced)
    return FlushEnded(status=status, path=notes.path, problem=problem)


async def _ask_for_notes(
    session: OpenSession,
    system: SystemPrompt,
    notes: NotesFile,
    settings: MemoryFlushSettings,
    ask: Ask,
    messages: Sequence[Message],
    limits: FlushLimits,
) -> None:
    tool = notes.tool()
    conversation = FlushConversation(
        session=session,
        system=_flush_system(system, settings, notes.path),
        messages=list(messages),
        notes=tool,
        max_output_tokens=limits.max_output_tokens,
    )
    await conversation.record(
        user_message(_flush_prompt(settings, notes.path), timestamp_ms=session.now_ms())
    )
    await run_loop(
        conversation,
        ask=ask,
        toolbox=Toolbox([tool], now_ms=session.now_ms),
        emit=lambda _event: None,
        max_steps=MAX_FLUSH_STEPS,
    )


def _fitting(messages: Sequence[Message], limits: FlushLimits) -> Sequence[Message]:
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


def _flush_prompt(settings: MemoryFlushSettings, path: str) -> str:
    day = Path(path).stem
    if not settings.prompt.strip():
        return render("flush/request", date=day, path=path)
    return _owners_text(settings.prompt, day) + "\n\n" + render("flush/rules", path=path)


def _flush_system(system: SystemPrompt, settings: MemoryFlushSettings, path: str) -> SystemPrompt:
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
