"""`/status`: model, context, compactions, memory and age of a session, a line a topic."""

from __future__ import annotations

from datetime import datetime

from nacre import __version__
from nacre.runtime.commands.command import CommandRun, Outcome
from nacre.runtime.commands.wording import short_age, short_count
from nacre.runtime.endings.lifecycle import last_said_at, started_at
from nacre.runtime.lanes.flush_records import FLUSH_ENTRY
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.recall.memory_slot import NO_MEMORY
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.freshness import NextReset


async def status(run: CommandRun) -> Outcome:
    """`/status`: tokens are an estimate while no provider has reported any."""
    turn, now = run.turn, run.turn.parts.now()
    session = turn.session
    lines = [
        f"🐚 Nacre {__version__} · {now.strftime('%Y-%m-%d %H:%M')} {now.tzname()}",
        f"🧠 Model: {await _model(turn)}",
        f"📚 Context: {await _context(turn)}",
        f"🧹 Compactions: {session.compaction_count} · last flush: {_last_flush(session, now)}",
        f"📝 Memory: {await _memory(turn)}",
        f"🧵 Session: {session.key} · {session.session_id}",
        f"⏳ {_age(session, now, run.lifecycle.next_reset(session))}",
    ]
    if session.policy.is_private:  # where others read along: the path tells the owner's account name
        lines.append(f"📁 Workspace: {turn.parts.workspace}")
    return run.said("\n".join(lines))


async def _model(turn: Turn) -> str:
    """The model that the owner chose, and the one that is asked next while that one is left alone."""
    chosen, asked = turn.parts.model.name, (await turn.parts.models.current()).model.name
    return chosen if asked == chosen else f"{chosen} · left alone after a failure, {asked} answers"


async def _context(turn: Turn) -> str:
    window = await turn.window()
    measure, budget = await window.measure(), window.budget
    percent = round(100 * measure.tokens / budget.window_tokens)
    estimated = "" if measure.usage_tokens > 0 else " (estimated)"
    return (
        f"{short_count(measure.tokens)}/{short_count(budget.window_tokens)} ({percent}%){estimated}"
        f" · flush at {short_count(budget.flush_at)} · compact above {short_count(budget.compact_at)}"
    )


async def _memory(turn: Turn) -> str:
    if not turn.session.policy.offers_memory_tools:
        return f"{NO_MEMORY} · private memory is not available in this chat"
    return await turn.parts.memory.status()


def _last_flush(session: OpenSession, now: datetime) -> str:
    flush = session.flushes.last
    if flush is None:
        return "never in this session"
    at = datetime.fromisoformat(flush.timestamp).astimezone(now.tzinfo)
    data = flush.custom_data(FLUSH_ENTRY) or {}
    return f"{at.strftime('%Y-%m-%d %H:%M')} ({data.get('status', 'unknown')})"


def _age(session: OpenSession, now: datetime, coming: NextReset | None) -> str:
    """How old the session is, and when it ends by itself."""
    if not session.has_messages:
        return "Nothing has been said in this session yet"
    ages = [
        f"Begun {short_age(now - started_at(session))} ago",
        f"last words {short_age(now - last_said_at(session))} ago",
    ]
    if coming is None:
        return " · ".join([*ages, "no reset"])
    if coming.at.timestamp() <= now.timestamp():
        return " · ".join([*ages, f"{coming.cause} reset with the next message"])
    return " · ".join([*ages, f"{coming.cause} reset {coming.at.strftime('%Y-%m-%d %H:%M')}"])
