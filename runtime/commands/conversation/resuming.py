"""Going back to an earlier session of the same key. The one that is left can be gone back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import RECOVERED, canonical_key
from nacre.sessions.index.record import SessionRecord, resumed_session
from nacre.sessions.upkeep.stored_session import StoredSession, find_session

LISTED = 10
"""How many earlier sessions are listed; older ones are named by their ids."""


async def earlier_sessions(session: OpenSession, parts: TurnParts) -> list[StoredSession]:
    """The sessions that this chat can go back to, the latest active first.

    Only sessions of this key; in the owner's private chat also transcripts that say of no key that they
    are its.
    """
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

    return [item for item in await parts.sessions.store.sessions(with_earlier=True) if is_offered(item)]


async def with_words(sessions: Sequence[StoredSession], parts: TurnParts) -> list[tuple[StoredSession, str]]:
    """The latest `LISTED` sessions in which somebody said something, each with what was said last."""
    return await parts.sessions.store.last_messages(sessions, most=LISTED)


def earlier_named(name: str, earlier: Sequence[StoredSession], turn: Turn) -> StoredSession:
    """The earlier session that an id, or the beginning of one, means.

    Raises:
        SessionNotFound: none, or several.
    """
    found = find_session(earlier, name, agent_id=turn.parts.agent_id)
    if found.session_id.lower().startswith(name.strip().lower()):
        return found
    raise SessionNotFound(f"{name!r} is no id of a session of {turn.session.key}.")


async def resume(turn: Turn, earlier: StoredSession) -> OpenSession:
    """The session that the key names now: the earlier one, or a fresh one if that may not be shown here.

    Notes of the session that is left are saved first, as before `/new`.

    Raises:
        SessionError: the disk refused; the session is as it was.
    """
    session = turn.session
    await turn.save_notes()
    at_ms = session.now_ms()

    def switched(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        left = records.get(session.key, session.line.record)
        # Its line under a key that no chat has: of a transcript that was found, or a former main key.
        former = {key: None for key in (earlier.key,) if earlier.is_current and key in records}
        return {**former, session.key: resumed_session(left, earlier.record, at_ms=at_ms)}

    await turn.parts.sessions.index.edit(switched)
    return await turn.parts.sessions.open(session.route)
