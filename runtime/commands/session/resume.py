"""`/resume` lists a chat's earlier sessions and returns to one."""

from __future__ import annotations

from datetime import UTC, datetime

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome, said
from nacre.runtime.commands.contract.wording import counted, shortened
from nacre.runtime.commands.conversation.branch_points import is_spoken
from nacre.runtime.commands.conversation.resuming import earlier_named, earlier_sessions, resume, with_words
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.upkeep.stored_session import LEAST_ID_CHARS, StoredSession

SHOWN_CHARS = 60
SHORT_ID_CHARS = 8


async def _resume(run: CommandRun) -> Outcome:
    name, turn, session = run.rest, run.turn, run.turn.session
    earlier = await earlier_sessions(session, turn.parts)
    listed = await with_words(earlier, turn.parts)
    if not name:
        return run.said(_list_text(listed, session, turn.parts.now()))
    if name == session.session_id:
        return run.said("This is the session that goes on already.")
    try:
        chosen = _chosen(name, [item for item, _ in listed], earlier, turn)
    except SessionNotFound:
        return run.said(f"This chat has no earlier session {name!r}. /resume lists them.")
    reopened = await resume(turn, chosen)
    text = "That session was private and is not shown here; a fresh one has begun."
    if reopened.session_id == chosen.session_id:
        count = sum(map(is_spoken, reopened.branch))
        text = (
            f"↩️ Back in the session of {_day(chosen, turn.parts.now())} · {counted(count, 'message')}. "
            f"The one that you left: /resume {session.session_id[:SHORT_ID_CHARS]}"
        )
    # The reply names the new session; the turn stays where the command was given.
    return turn, said(reopened, text)


def _chosen(
    name: str, listed: list[StoredSession], earlier: list[StoredSession], turn: Turn
) -> StoredSession:
    # An id may begin with digits too, but never with so few.
    if name.isdecimal() and len(name) < LEAST_ID_CHARS and 1 <= int(name) <= len(listed):
        return listed[int(name) - 1]
    return earlier_named(name, earlier, turn)


def _list_text(listed: list[tuple[StoredSession, str]], session: OpenSession, now: datetime) -> str:
    if not listed:
        return "This chat has no earlier session to go back to."
    lines = ["Earlier sessions of this chat; /resume and a number or an id goes back:"]
    for number, (item, words) in enumerate(listed, start=1):
        # Readers in a group need not have been part of that session.
        shown = f" · {shortened(words, SHOWN_CHARS)}" if session.policy.is_private else ""
        lines.append(f"{number}. {_day(item, now)} · {item.session_id[:SHORT_ID_CHARS]}{shown}")
    return "\n".join(lines)


def _day(session: StoredSession, now: datetime) -> str:
    try:
        return f"{datetime.fromtimestamp(session.active_at_ms / 1000, now.tzinfo or UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "an unknown day"


RESUME = Command(
    name="resume",
    arguments="[id]",
    help="go back to an earlier session, by its id or number; alone it lists them",
    run=_resume,
)
