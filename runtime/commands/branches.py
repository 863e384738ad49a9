"""`/rewind`, `/fork` and `/label`: going back, going on in a copy, and naming a place. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nacre.prompts import render
from nacre.runtime.commands.branch_points import (
    HERE,
    BranchPoint,
    Leaving,
    branch_points,
    is_name,
    is_spoken,
    leaving,
    moment_of,
    preview_text,
    rewound_text,
)
from nacre.runtime.commands.command import CommandRun, Outcome, said
from nacre.runtime.lanes.flush_records import FLUSH_ENTRY, has_unflushed_messages
from nacre.runtime.lanes.open_session import OpenSession
from nacre.sessions.compaction.facts import file_operations
from nacre.sessions.contracts.messages import Message
from nacre.sessions.disk.whole_results import WholeResults
from nacre.sessions.entries.entries import Entry, Label
from nacre.sessions.entries.owner import SessionOwner, begun_private
from nacre.sessions.index.changes import next_session, without_usage
from nacre.sessions.index.index import SessionRecord
from nacre.sessions.journal.journal import Journal


@dataclass(frozen=True, kw_only=True)
class Place:
    """An entry to go back to; `None` is before the first one."""

    entry_id: str | None


async def rewind(run: CommandRun) -> Outcome:
    """`/rewind [place] [note]`: the answer, after the session went back there."""
    session, now = run.turn.session, run.turn.parts.now()
    word, note = [*run.rest.split(None, 1), "", ""][:2]
    place = _place(session, word) if word else None
    if place is None:
        return run.said(_preview(session, word, now))
    if place.entry_id == session.journal.tree.leaf_id:
        return run.said("This is where the conversation is; nothing was changed.")
    journal = session.journal
    going = leaving(session.branch, _target(session, place))
    await run.turn.save_notes()
    left_at, flush = journal.tree.leaf_id, _flush_of(session, going)
    _, modified = file_operations(None, going.messages)
    files = sorted(modified)
    told = [note.strip(), render("session/branch_left_files", files=", ".join(files)) if files else ""]
    await journal.rewind(place.entry_id, summary="\n\n".join(filter(None, told)))
    await _tell_what_was_saved(journal, flush)
    count, line = session.compaction_count, session.line.record
    await run.turn.parts.sessions.index.update(
        session.key, lambda record: replace(without_usage(record or line), compaction_count=count)
    )
    return run.said(rewound_text(going, last_said=_last_said(session), return_id=left_at, files=files))


async def fork(run: CommandRun) -> Outcome:
    """`/fork [place]`: the key names a new session now, a copy up to that place."""
    session, parts = run.turn.session, run.turn.parts
    index, word = parts.sessions.index, run.rest.strip()
    here = word.lower() == HERE and session.has_messages
    place = Place(entry_id=session.journal.tree.leaf_id) if here else _place(session, word) if word else None
    if place is None:
        return run.said(_preview(session, word, parts.now()))
    new_session_id = parts.new_id()
    if not here:
        await run.turn.save_notes()
    flush = _flush_of(session, leaving(session.branch, _target(session, place)))
    at_ms = session.now_ms()

    def forked(record: SessionRecord | None) -> SessionRecord:
        return replace(
            next_session(record or session.line.record, session_id=new_session_id, at_ms=at_ms),
            last_interaction_at_ms=at_ms,
            system_sent=place.entry_id is not None,
        )

    path = index.transcript_path(forked(None))
    # The files first: should the index refuse, the session that is there goes on.
    await session.journal.fork(path, session_id=new_session_id, leaf_id=place.entry_id)
    await WholeResults(session.journal.path).copy_to(path)
    forked_journal = await parts.sessions.journals.open(path, session_id=new_session_id)
    await _tell_whose_it_is(forked_journal, session)
    await _tell_what_was_saved(forked_journal, flush)
    await index.update(session.key, forked)
    text = (
        f"🍴 This chat goes on in the new session {new_session_id}. "
        f"The session {session.session_id} stays as it is; /resume {session.session_id} goes back to it."
    )
    return run.turn, said(session, text, session_id=new_session_id)


async def label(run: CommandRun) -> Outcome:
    """`/label name`: the answer, after the present place was given that name."""
    session, journal, name = run.turn.session, run.turn.session.journal, run.rest.strip()
    if not is_name(name):
        return run.said(
            "A name is one word of at most 40 letters, digits, dots and dashes, for example: /label draft"
        )
    if journal.tree.leaf_id is None or not session.has_messages:
        return run.said("Nothing has been said here yet, so there is no place to name.")
    place_id = journal.tree.leaf_id
    before_id = journal.tree.labelled(name)
    if before_id is not None:
        await journal.append(Label(target_id=before_id))
    await journal.append(Label(target_id=place_id, label=name))
    moved = " It named another place before." if before_id is not None else ""
    return run.said(f"🏷 This place is called {name}; /rewind {name} comes back to it.{moved}")


def _target(session: OpenSession, place: Place) -> Sequence[Entry]:
    return session.journal.branch(place.entry_id) if place.entry_id is not None else ()


def _flush_of(session: OpenSession, going: Leaving) -> Entry | None:
    """The flush that saved all that going there leaves in view, if there was one."""
    return None if session.flushes.has_unflushed_messages or going.regained else session.flushes.last


async def _tell_what_was_saved(journal: Journal, flush: Entry | None) -> None:
    """What is in view now was saved on the branch that was left, so it is not saved again."""
    if flush is not None and has_unflushed_messages(journal.branch()):
        await journal.append_custom(FLUSH_ENTRY, flush.custom_data(FLUSH_ENTRY))


async def _tell_whose_it_is(forked: Journal, session: OpenSession) -> None:
    """A fork from before the entry that tells whose the session is must not become somebody else's."""
    if begun_private(forked.tree) is None:
        is_private = begun_private(session.journal.tree) is True
        owner = SessionOwner(key=session.key, chat_kind=session.policy.chat_kind, is_private=is_private)
        await forked.append(owner.to_record())


def _place(session: OpenSession, word: str) -> Place | None:
    """What a word names: a number of the preview, a name, or an entry's id."""
    points = branch_points(session.branch)
    if word.isdecimal() and 1 <= int(word) <= len(points):
        return Place(entry_id=points[int(word) - 1].before_id)
    named = session.journal.tree.labelled(word)
    if named is not None:
        return Place(entry_id=named)
    return Place(entry_id=word) if any(entry.id == word for entry in session.journal.tree.entries) else None


def _preview(session: OpenSession, word: str, now: datetime) -> str:
    points: list[BranchPoint] = branch_points(session.branch)
    entries = {entry.id: entry for entry in session.journal.tree.entries}
    names = {
        name: moment_of(entry) for entry in entries.values() if (name := session.journal.tree.label(entry.id))
    }
    text = preview_text(points, names, zone=now.tzinfo)
    return f"There is no place {word!r} in this conversation.\n{text}" if word else text


def _last_said(session: OpenSession) -> Message | None:
    spoken = (entry for entry in reversed(session.branch) if is_spoken(entry))
    return next((entry.body for entry in spoken if isinstance(entry.body, Message)), None)
