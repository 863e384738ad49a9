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
from pathlib import Path

from nacre.prompts import render
from nacre.records.record import Record
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.contracts.events import FlushEnded, FlushStatus
from nacre.runtime.contracts.model import Ask, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.runtime.tools.file_tools.files import DATE_PLACEHOLDER
from nacre.runtime.tools.toolbox import Tool, Toolbox
from nacre.runtime.turn.loop.loop import run_loop
from nacre.runtime.turn.window.notes_file import NotesFile
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    message_text,
    user_message,
)
from nacre.sessions.view.tokens import estimate_message_tokens

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
    """What the model's last call was told when it failed; empty when it did not fail."""
    tool = notes.tool()
    conversation = FlushConversation(
        session=session,
        system=flush_system(system, settings, notes.path),
        messages=list(messages),
        notes=tool,
        max_output_tokens=limits.max_output_tokens,
    )
    await conversation.record(user_message(_flush_prompt(settings, notes), timestamp_ms=session.now_ms()))
    await run_loop(
        conversation,
        ask=ask,
        toolbox=Toolbox([tool], now_ms=session.now_ms),
        emit=lambda _event: None,
        max_steps=MAX_FLUSH_STEPS,
    )
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
