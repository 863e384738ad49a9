"""A session that is over: the event that tells of it, its transcript, and the notes that are saved first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.lanes.journals import Journals
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.parts import TurnParts, prepare
from nacre.sessions.disk.endings import EndedSession, EndReason
from nacre.sessions.entries.entries import Entry
from nacre.sessions.entries.owner import begun_private
from nacre.sessions.index.index import SessionIndex, SessionRecord


@dataclass(frozen=True, kw_only=True)
class SessionEnded:
    """The event `session_end`: a session is over, for whichever reason; the action is the reason.

    `transcript` is its file, which stays where it is, and `entries` its present branch. `is_private`
    says that nobody but the owner wrote in it. `channel` is where the message came from that ended it.
    """

    type: ClassVar[str] = "session_end"
    reason: EndReason
    session_key: str
    session_id: str
    transcript: Path
    entries: Sequence[Entry]
    is_private: bool
    channel: str
    ended_at: datetime

    @property
    def action(self) -> str:
        """The reason."""
        return self.reason


async def ended_session(
    ended: EndedSession, *, index: SessionIndex, journals: Journals, now: Clock
) -> OpenSession | None:
    """A session that is over, with the policy that it had; `None` when its transcript is gone.

    Raises:
        SessionError: the transcript cannot be read.
    """
    record = SessionRecord(
        session_id=ended.session_id, updated_at_ms=ended.ended_at_ms, session_file=ended.transcript
    )
    path = index.transcript_path(record)
    if not path.is_file():
        return None
    journal = await journals.open(path, session_id=ended.session_id)
    private = begun_private(journal.tree) is True
    policy = ChatPolicy(
        chat_kind="direct" if private else "group", is_owner=private, session_key_is_private=private
    )
    return OpenSession(ended.key, policy=policy, journal=journal, record=record, index=index, now=now)


async def save_notes(session: OpenSession, *, channel: str, parts: TurnParts, emit: Emit) -> None:
    """The flush before a session is left, if anything was said in it since the last one."""
    if session.has_messages and session.has_unflushed_messages:
        inbound = Inbound(text="", chat_kind="direct", channel=channel)
        await (await prepare(session, inbound, parts, emit)).window.flush_before_leaving()
