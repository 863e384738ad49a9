"""A flush that was cut off, by a kill or a stop, goes on where it was: its notes are not asked for anew.

What it was about to write stands in the transcript before it is written. So the same words are appended, or
found to stand there, and the model goes on behind them; asked anew it would say the same in other words.
"""

from __future__ import annotations

import logging

from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.contracts.events import FlushEnded, FlushStatus
from nacre.runtime.contracts.model import Ask, SystemPrompt
from nacre.runtime.lanes.flush_records import UnfinishedFlush
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.settings.sections.agents import MemoryFlushSettings
from nacre.runtime.tools.toolbox import Toolbox
from nacre.runtime.turn.loop.loop import run_loop, run_tool
from nacre.runtime.turn.window.flush import (
    MAX_FLUSH_STEPS,
    FlushConversation,
    FlushLimits,
    fitting_messages,
    flush_system,
)
from nacre.runtime.turn.window.notes_file import NotesFile
from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolCall, ToolResultMessage

log = logging.getLogger(__name__)


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
