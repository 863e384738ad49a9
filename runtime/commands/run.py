"""What chat commands do. `/new` and `/compact` save notes first; none of them asks for an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from nacre import __version__
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.runtime.commands.branches import fork, label, rewind
from nacre.runtime.commands.chosen_models import ChosenModels
from nacre.runtime.commands.fresh import begin_fresh
from nacre.runtime.commands.resume import resume
from nacre.runtime.commands.status import StatusFacts, compaction_text, status_text
from nacre.runtime.contracts.commands import HELP_TEXT, Command
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.endings.lifecycle import last_said_at, started_at
from nacre.runtime.lanes.flush_records import FLUSH_ENTRY
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.parts import TurnParts, prepare
from nacre.sessions.contracts.freshness import NextReset
from nacre.sessions.disk.endings import EndReason


async def run_command(
    command: Command,
    session: OpenSession,
    inbound: Inbound,
    parts: TurnParts,
    chosen: ChosenModels,
    emit: Emit,
    *,
    begin_next: Callable[[EndReason], Awaitable[OpenSession]],
    reopen: Callable[[], Awaitable[OpenSession]],
    next_reset: NextReset | None,
) -> Reply | None:
    """Runs one command and gives its reply; `/new` with text goes on as a turn of the new session."""
    if command.name == "help":
        return _said(session, HELP_TEXT)
    if command.name == "unknown":
        return _said(session, f"There is no command {command.rest}. These are the commands:\n{HELP_TEXT}")
    if command.name == "status":
        return _said(session, await _status(session, inbound, parts, emit, next_reset))
    if command.name == "resume":
        return _said(*await resume(command.rest, session, inbound, parts, emit, reopen=reopen))
    if command.name == "compact":
        return await _compact(command.rest, session, inbound, parts, emit)
    if command.name in ("rewind", "fork", "label"):
        return await _branch(command, session, inbound, parts, emit)
    return await begin_fresh(command, session, inbound, parts, chosen, emit, begin_next=begin_next)


async def _branch(
    command: Command, session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit
) -> Reply:
    """`/rewind`, `/fork` and `/label`."""

    async def save_notes() -> None:
        await (await prepare(session, inbound, parts, emit)).window.flush_before_leaving()

    rest, index, now = command.rest, parts.index, parts.now()
    if command.name == "label":
        return _said(session, await label(session, rest))
    if command.name == "rewind":
        return _said(session, await rewind(session, rest, index=index, now=now, save_notes=save_notes))
    text, session_id = await fork(
        session,
        rest,
        index=index,
        journals=parts.journals,
        new_session_id=parts.new_id(),
        now=now,
        save_notes=save_notes,
    )
    return replace(_said(session, text), session_id=session_id)


async def _compact(focus: str, session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit) -> Reply:
    if not session.has_messages:
        return _said(session, "⚙️ Compaction skipped: nothing has been said in this session yet.")
    window = (await prepare(session, inbound, parts, emit)).window
    await window.flush_before_leaving()
    ended = await window.compact("manual", focus=focus)
    return _said(session, compaction_text(ended, window.budget))


async def _status(
    session: OpenSession, inbound: Inbound, parts: TurnParts, emit: Emit, next_reset: NextReset | None
) -> str:
    measure = await (await prepare(session, inbound, parts, emit)).window.measure()
    asked = await parts.models.current()
    files, chunks, mode, problem = await _memory_facts(session, parts)
    return status_text(
        StatusFacts(
            version=__version__,
            model_name=parts.model.name,
            answering_name=asked.model.name,
            session_key=session.key,
            session_id=session.session_id,
            tokens=measure.tokens,
            tokens_are_reported=measure.usage_tokens > 0,
            budget=asked.budget,
            compactions=session.compaction_count,
            last_flush=_last_flush(session, parts.now()),
            workspace=str(parts.workspace) if session.policy.is_private else "",
            memory_files=files,
            memory_chunks=chunks,
            memory_mode=mode,
            memory_problem=problem,
            now=parts.now(),
            started_at=started_at(session) if session.has_messages else None,
            last_said_at=last_said_at(session) if session.has_messages else None,
            next_reset=next_reset,
        )
    )


async def _memory_facts(session: OpenSession, parts: TurnParts) -> tuple[int, int, str, str]:
    if parts.unindexed is not None:
        return 0, 0, "no", parts.unindexed.problem
    if parts.memory is None:
        return 0, 0, "no", "memory search is switched off"
    if not session.policy.offers_memory_tools:
        return 0, 0, "no", "private memory is not available in this chat"
    try:
        status = await parts.memory.status()
    except MemoryIndexError as error:
        return 0, 0, "no", str(error)
    return status.files, status.chunks, status.mode, status.last_sync_problem


def _last_flush(session: OpenSession, now: datetime) -> str:
    flush = session.last_flush
    if flush is None:
        return "never in this session"
    at = datetime.fromisoformat(flush.timestamp).astimezone(now.tzinfo)
    data = flush.custom_data(FLUSH_ENTRY) or {}
    return f"{at.strftime('%Y-%m-%d %H:%M')} ({data.get('status', 'unknown')})"


def _said(session: OpenSession, text: str) -> Reply:
    return Reply(text=text, session_key=session.key, session_id=session.session_id, is_command=True)
