"""Starting and resuming the session of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.runtime.commands.conversation.chosen_models import ChosenModels, NamedModel
from nacre.runtime.contracts.inbound import Attachment, Quoted
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import RECOVERED, EndReason, canonical_key
from nacre.sessions.index.record import SessionRecord, resumed_session
from nacre.sessions.upkeep.stored_session import StoredSession, find_session


async def begin_fresh(
    left: Turn,
    reason: EndReason,
    *,
    lifecycle: Lifecycle,
    chosen: ChosenModels,
    named: NamedModel | None = None,
    text: str = "",
    attachments: tuple[Attachment, ...] = (),
    quoted: tuple[Quoted, ...] = (),
) -> Turn:
    """Returns the turn of the new session, with the user's message in it.

    The message is on disk before the notes of the old session are saved, because saving calls a model. The
    notes are saved before the answer, which reads them in the daily log. A session without messages is
    already new. A named model applies to the chat from now on, including later resets.

    Raises:
        SessionError: the disk refused; the old session continues.
    """
    turn = left
    if left.session.has_messages:
        turn = left.of_session(await lifecycle.begin_next(left.session, reason, left.emit))
    if named is not None:
        await turn.session.line.choose_model(named.name)
    if text or attachments or quoted:
        await turn.write_down(text, attachments, quoted=quoted)
    if turn is not left:
        await left.save_notes()
    return chosen.applied(turn)


LISTED = 10
"""The number of earlier sessions that are listed; older ones are named by their ids."""


async def earlier_sessions(session: OpenSession, parts: TurnParts) -> list[StoredSession]:
    """The sessions that this chat can resume, latest activity first.

    These are sessions of this key, and in the owner's private chat also transcripts without a key.
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


def earlier_named(name: str, earlier: Sequence[StoredSession], turn: Turn) -> StoredSession:
    """Finds an earlier session by its id or the beginning of its id.

    Raises:
        SessionNotFound: there is none, or there are several.
    """
    found = find_session(earlier, name, agent_id=turn.parts.agent_id)
    if found.session_id.lower().startswith(name.strip().lower()):
        return found
    raise SessionNotFound(f"{name!r} is not the id of a session of {turn.session.key}.")


async def resume(turn: Turn, earlier: StoredSession) -> OpenSession:
    """Resumes an earlier session and returns it, or a new session if it may not be shown here.

    Notes of the current session are saved first, as before `/new`.

    Raises:
        SessionError: the disk refused; the session is unchanged.
    """
    session = turn.session
    await turn.save_notes()
    at_ms = session.now_ms()

    def switched(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        left = records.get(session.key, session.line.record)
        # Removes its record under a key without a chat: of a recovered transcript, or a former main key.
        former = {key: None for key in (earlier.key,) if earlier.is_current and key in records}
        return {**former, session.key: resumed_session(left, earlier.record, at_ms=at_ms)}

    await turn.parts.sessions.index.edit(switched)
    return await turn.parts.sessions.open(session.route)
