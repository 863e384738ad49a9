"""`/resume`: going back to an earlier session of the same key. The one that is left can be gone back to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from nacre.runtime.commands.branch_points import is_spoken
from nacre.runtime.commands.command import CommandRun, Outcome, said
from nacre.runtime.commands.wording import shortened
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import RECOVERED, canonical_key
from nacre.sessions.index.changes import resumed_session
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.upkeep.catalogue import (
    LEAST_ID_CHARS,
    StoredSession,
    find_session,
    last_words,
    stored_sessions,
)

LISTED = 10
"""How many earlier sessions `/resume` lists; older ones are named by their ids."""
SHOWN_CHARS = 60
SHORT_ID_CHARS = 8


async def resume(run: CommandRun) -> Outcome:
    """`/resume [id]`: the session that is gone back to; without a name, the list of what can be gone back to.

    Only sessions of this key are offered; in the owner's private chat also transcripts that say of no key
    that they are its. Notes of the session that is left are saved first, as before `/new`.

    Raises:
        SessionError: the disk refused; the session is as it was.
    """
    name, turn, session = run.rest, run.turn, run.turn.session
    earlier = await _earlier(session, turn.parts)
    listed = await asyncio.to_thread(_listed, earlier)
    if not name:
        return run.said(_list_text(listed, session, turn.parts.now()))
    if name == session.session_id:
        return run.said("This is the session that goes on already.")
    try:
        chosen = _chosen(name, [item for item, _ in listed], earlier, turn)
    except SessionNotFound:
        return run.said(f"This chat has no earlier session {name!r}. /resume lists them.")
    await turn.save_notes()
    at_ms = session.now_ms()

    def switched(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        left = records.get(session.key, session.line.record)
        # Its line under a key that no chat has: of a transcript that was found, or a former main key.
        former = {key: None for key in (chosen.key,) if chosen.is_current and key in records}
        return {**former, session.key: resumed_session(left, chosen.record, at_ms=at_ms)}

    await turn.parts.sessions.index.edit(switched)
    reopened = await turn.parts.sessions.open(session.route)
    text = "That session was private and is not shown here; a fresh one has begun."
    if reopened.session_id == chosen.session_id:
        count = sum(map(is_spoken, reopened.branch))
        text = (
            f"↩️ Back in the session of {_day(chosen, turn.parts.now())} · "
            f"{count} message{'' if count == 1 else 's'}. "
            f"The one that you left: /resume {session.session_id[:SHORT_ID_CHARS]}"
        )
    # The reply names the new session; the turn stays where the command was given.
    return turn, said(reopened, text)


async def _earlier(session: OpenSession, parts: TurnParts) -> list[StoredSession]:
    main_key = parts.settings.session.main_key

    def is_offered(item: StoredSession) -> bool:
        if item.session_id == session.session_id or not item.size_bytes:
            return False
        if item.key.startswith(RECOVERED):
            return session.policy.is_private
        try:
            key = canonical_key(item.key, agent_id=parts.agent_id, main_key=main_key)
        except SessionKeyInvalid:
            return False
        return key == session.key and (not item.is_current or item.key != session.key)

    return [item for item in await stored_sessions(parts.sessions.index) if is_offered(item)]


def _listed(sessions: list[StoredSession]) -> list[tuple[StoredSession, str]]:
    """The latest sessions in which somebody said something, each with what was said last."""
    found: list[tuple[StoredSession, str]] = []
    for item in sessions:
        words = _words(item.path)
        if words:
            found.append((item, words))
        if len(found) == LISTED:
            break
    return found


def _chosen(
    name: str, listed: list[StoredSession], sessions: list[StoredSession], turn: Turn
) -> StoredSession:
    # An id may begin with digits as well, but never with so few.
    if name.isdecimal() and len(name) < LEAST_ID_CHARS and 1 <= int(name) <= len(listed):
        return listed[int(name) - 1]
    found = find_session(sessions, name, agent_id=turn.parts.agent_id)
    if found.session_id.lower().startswith(name.strip().lower()):
        return found
    raise SessionNotFound(f"{name!r} is no id of a session of {turn.session.key}.")


def _list_text(listed: list[tuple[StoredSession, str]], session: OpenSession, now: datetime) -> str:
    if not listed:
        return "This chat has no earlier session to go back to."
    lines = ["Earlier sessions of this chat; /resume and a number or an id goes back:"]
    for number, (item, words) in enumerate(listed, start=1):
        # Who reads along in a group need not have been there.
        shown = f" · {words}" if session.policy.is_private else ""
        lines.append(f"{number}. {_day(item, now)} · {item.session_id[:SHORT_ID_CHARS]}{shown}")
    return "\n".join(lines)


def _words(path: Path | None) -> str:
    return shortened(last_words(path), SHOWN_CHARS) if path is not None else ""


def _day(session: StoredSession, now: datetime) -> str:
    try:
        return f"{datetime.fromtimestamp(session.active_at_ms / 1000, now.tzinfo or UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "an unknown day"
