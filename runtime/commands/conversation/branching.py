"""Rewinding, forking and labeling a session. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.commands.conversation.history import (
    Leaving,
    SessionMessage,
    SessionTurn,
    is_name,
    is_spoken,
    leaving,
    message_of,
)
from nacre.runtime.contracts.errors import PlaceUnknown, PrivacyError
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY, OpenSession, has_unflushed_messages
from nacre.runtime.turn.turn import Turn
from nacre.sessions.compaction.facts import file_operations
from nacre.sessions.contracts.errors import SessionKeyInvalid
from nacre.sessions.contracts.keys import canonical_key, is_private_key, owners_key
from nacre.sessions.entries.entries import Entry, Label, SessionOwner, started_in_private
from nacre.sessions.index.record import (
    SessionRecord,
    model_override,
    next_session,
    unknown_usage,
    with_model_override,
)
from nacre.sessions.stores.store import Transcript


class Rewound(Record):
    """The result of a rewind.

    `left` and `regained` count the messages that left or returned to view. `last_said` is the last message in
    view, or `None` at the beginning. Going to `return_place` undoes the rewind; it is `None` if the session
    was at that place already and nothing changed. `files` are the workspace files that the abandoned branch
    had changed; they stay unchanged.
    """

    left: int
    regained: int
    last_said: SessionMessage | None
    return_place: str | None
    files: tuple[str, ...]


class Forked(Record):
    """A copy of a session, and the key that refers to it."""

    key: str
    session_id: str


async def rewind(turn: Turn, place: str | SessionTurn, *, note: str = "") -> Rewound:
    """Returns the session to a place, and tells the model the note and which files had changed.

    A place is a turn (the session returns to before it), or a label or an entry id (it returns to after that
    entry). Notes of what is left are saved first.

    Raises:
        PlaceUnknown: the session has no such place.
        SessionError: the disk refused; the session is unchanged.
    """
    session, journal = turn.session, turn.session.journal
    target_id = entry_at(session, place)
    if target_id == journal.tree.leaf_id:
        return Rewound(left=0, regained=0, last_said=_last_said(session), return_place=None, files=())
    going = leaving(session.branch, _target(session, target_id))
    await turn.save_notes()
    left_at, flush = journal.tree.leaf_id, _flush_of(session, going)
    _, modified = file_operations(None, going.messages)
    files = sorted(modified)
    parts = [note.strip(), render("session/branch_left_files", files=", ".join(files)) if files else ""]
    await journal.rewind(target_id, summary="\n\n".join(filter(None, parts)))
    await _copy_flush_record(journal, flush)
    count, line = session.compaction_count, session.line.record
    await turn.parts.sessions.index.update(
        session.key, lambda record: replace(record or line, **unknown_usage(), compaction_count=count)
    )
    return Rewound(
        left=going.left,
        regained=going.regained,
        last_said=_last_said(session),
        return_place=left_at,
        files=tuple(files),
    )


async def fork(turn: Turn, place: str | SessionTurn | None = None, *, key: str = "") -> Forked:
    """Copies the session up to a place, or all of it; the session itself does not change.

    The session's key refers to the copy from now on, or the new `key` does, which must not have a session
    yet. Places are the same as for `rewind`.

    Raises:
        PlaceUnknown: the session has no such place, or no messages yet.
        SessionKeyInvalid: the key is invalid or has a session.
        PrivacyError: a private session would be copied to a key that is not private.
        SessionError: the disk refused; the session is unchanged.
    """
    session, parts = turn.session, turn.parts
    if place is None and not session.has_messages:
        raise PlaceUnknown("Nothing has been said here yet, so there is nothing to copy.")
    target_id = session.journal.tree.leaf_id if place is None else entry_at(session, place)
    new_key = await _free_key(turn, key) if key else session.key
    index, new_session_id = parts.sessions.index, parts.new_id()
    if place is not None:
        await turn.save_notes()
    flush = _flush_of(session, leaving(session.branch, _target(session, target_id)))
    at_ms = session.now_ms()

    def forked(record: SessionRecord | None) -> SessionRecord:
        if key and record is not None:
            raise _taken(new_key)
        line = session.line.record
        if key:  # the origin of this session's messages does not apply to the other key
            named = SessionRecord(session_id=new_session_id, updated_at_ms=at_ms, session_started_at_ms=at_ms)
            named = with_model_override(named, model_override(line))
        else:
            named = next_session(record or line, session_id=new_session_id, at_ms=at_ms)
        return replace(named, last_interaction_at_ms=at_ms, system_sent=target_id is not None)

    copy = forked(None)
    # The transcript first: if the index refuses, the existing session continues.
    name = parts.sessions.store.transcript_name(copy)
    await session.journal.fork(name, session_id=new_session_id, leaf_id=target_id)
    forked_journal = await parts.sessions.journals.open(copy)
    if started_in_private(forked_journal.tree) is None:  # else it could become somebody else's session
        is_private = started_in_private(session.journal.tree) is True
        owner = SessionOwner(key=session.key, chat_kind=session.policy.chat_kind, is_private=is_private)
        await forked_journal.append(owner.to_record())
    await _copy_flush_record(forked_journal, flush)
    await index.update(new_key, forked)
    return Forked(key=new_key, session_id=new_session_id)


async def label(turn: Turn, name: str) -> bool:
    """Labels the current place; returns whether the label moved from another place.

    Raises:
        PlaceUnknown: the label is invalid, or there are no messages yet.
    """
    session, journal = turn.session, turn.session.journal
    if not is_name(name):
        raise PlaceUnknown(
            f"{name!r} is not a valid label. Use one word of at most 40 letters, digits, dots and dashes."
        )
    place_id = journal.tree.leaf_id
    if place_id is None or not session.has_messages:
        raise PlaceUnknown("Nothing has been said here yet, so there is no place to name.")
    before_id = journal.tree.labeled(name)
    if before_id is not None:
        await journal.append(Label(target_id=before_id))
    await journal.append(Label(target_id=place_id, label=name))
    return before_id is not None


def entry_at(session: OpenSession, place: str | SessionTurn) -> str | None:
    """The entry id of a place; `None` is before the first entry.

    Raises:
        PlaceUnknown: there is no such place.
    """
    tree = session.journal.tree
    if isinstance(place, SessionTurn):
        entry_id = place.before_id
        if entry_id is None or entry_id in tree:
            return entry_id
        raise PlaceUnknown(
            f"The turn {place.text[:40]!r} does not belong to the session {session.session_id}."
        )
    named = tree.labeled(place)
    if named is not None:
        return named
    if place in tree:
        return place
    raise PlaceUnknown(f"There is no place {place!r} in this conversation.")


async def _free_key(turn: Turn, text: str) -> str:
    main_key = turn.parts.settings.session.main_key
    named = owners_key if turn.session.policy.is_private else canonical_key
    key = named(text, agent_id=turn.parts.agent_id, main_key=main_key)
    if turn.session.policy.is_private and not is_private_key(key, main_key=main_key):
        raise PrivacyError(
            f"A private session cannot be copied to {key!r}, which would not be private. "
            "Give it a plain name, such as 'idea'."
        )
    if await turn.parts.sessions.index.get(key) is not None:
        raise _taken(key)
    return key


def _taken(key: str) -> SessionKeyInvalid:
    return SessionKeyInvalid(f"There is a session {key!r} already. Give the copy another key.")


def _target(session: OpenSession, entry_id: str | None) -> Sequence[Entry]:
    return session.journal.tree.branch(entry_id) if entry_id is not None else ()


def _flush_of(session: OpenSession, going: Leaving) -> Entry | None:
    """The flush that saved everything still in view after this change, if any."""
    return None if session.flushes.has_unflushed_messages or going.regained else session.flushes.last


async def _copy_flush_record(journal: Transcript, flush: Entry | None) -> None:
    """Records that what is in view was saved on the abandoned branch, so that it is not saved again."""
    if flush is not None and has_unflushed_messages(journal.tree.branch()):
        await journal.append_custom(FLUSH_ENTRY, flush.custom_data(FLUSH_ENTRY))


def _last_said(session: OpenSession) -> SessionMessage | None:
    return next((message_of(entry) for entry in reversed(session.branch) if is_spoken(entry)), None)
