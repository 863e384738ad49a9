"""The status of a session: its model, context and age."""

from __future__ import annotations

from datetime import datetime

from nacre.record import Record
from nacre.runtime.commands.conversation.history import last_usage_of
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle, last_said_at, started_at
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.keys import NextReset
from nacre.sessions.contracts.messages import Usage


class LastFlush(Record):
    """The latest attempt to save notes and its result, such as `written` or `failed`."""

    at: datetime
    status: str


class SessionStatus(Record):
    """The status of a session.

    `model_name` is the chosen model; `answering_model_name` is the model that is called next, which differs
    while the chosen one is paused after a failure. `context_tokens` is the size of the context, estimated if
    `is_estimated`. `started_at` and `last_said_at` are `None` without messages. `next_reset` is when the
    session ends by itself. `last_usage` is the provider's count for the newest answer of this branch, or
    `None`.
    """

    key: str
    session_id: str
    model_name: str
    answering_model_name: str
    context_tokens: int
    is_estimated: bool
    budget: ContextBudget
    compaction_count: int
    last_flush: LastFlush | None
    started_at: datetime | None
    last_said_at: datetime | None
    next_reset: NextReset | None
    last_usage: Usage | None


async def status_of(turn: Turn, lifecycle: Lifecycle) -> SessionStatus:
    """Measures a session without changing it. Raises `SessionError` if stored data cannot be read."""
    session, window = turn.session, await turn.window()
    measure = await window.measure()
    has_messages, flush = session.has_messages, session.flushes.last
    last_flush = None
    if flush is not None:
        status = str((flush.custom_data(FLUSH_ENTRY) or {}).get("status", "unknown"))
        last_flush = LastFlush(at=datetime.fromisoformat(flush.timestamp), status=status)
    return SessionStatus(
        key=session.key,
        session_id=session.session_id,
        model_name=turn.parts.model.name,
        answering_model_name=(await turn.parts.models.current()).model.name,
        context_tokens=measure.tokens,
        is_estimated=measure.usage_tokens <= 0,
        budget=window.budget,
        compaction_count=session.compaction_count,
        last_flush=last_flush,
        started_at=started_at(session) if has_messages else None,
        last_said_at=last_said_at(session) if has_messages else None,
        next_reset=lifecycle.next_reset(session),
        last_usage=last_usage_of(session.branch),
    )
