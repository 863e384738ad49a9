"""From a route to its open session: found in the index or begun, with the privacy that it began with."""

from __future__ import annotations

from collections.abc import Callable

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess
from nacre.runtime.lanes.journals import Journals
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.lanes.routing import Route
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.entries.entries import SessionOwner, begun_private
from nacre.sessions.index.record import Origin, SessionRecord, next_session, with_origin
from nacre.sessions.stores.store import SessionStore, Transcript


class SessionOpener:
    """Opens the sessions of one agent, for whoever holds their lane.

    `history_turns` says how many turns of a route's session a model is sent; `None` is all. `access` says
    what a session of this key may do with the workspace.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        now: Clock,
        new_id: NewId,
        history_turns: Callable[[Route], int | None] = lambda _route: None,
        access: Callable[[str], WorkspaceAccess] = lambda _key: "rw",
    ) -> None:
        self.store = store
        self.index = store.index
        self.journals = Journals(store)
        self._now = now
        self._new_id = new_id
        self._history_turns = history_turns
        self._access = access

    async def open(self, route: Route, *, fresh: bool = False) -> OpenSession:
        """The session of a route, or a new one; `fresh` begins a new one under the same key.

        The index learns of a new session before its file exists, so a file is never without a key.

        A session is the owner's alone from its first turn on, or never. One in which others have spoken
        shows the owner no private memory, because they read its answers; and whoever comes with a
        private session's key and is not the owner gets a fresh session instead of its transcript.

        Raises:
            SessionError: the index or the transcript cannot be read or written.
        """
        record, journal = await self._journal(route, fresh=fresh)
        notices: tuple[str, ...] = ()
        if record.system_sent and not journal.tree.entries:
            notices = (
                f"The transcript {journal.name} of this session is gone, so it begins anew; "
                "of what was said before, only the notes are left.",
            )
        policy = route.policy
        in_private = begun_private(journal.tree)
        if in_private and not policy.is_private:
            record, journal = await self._journal(route, fresh=True)
            in_private = None
        if in_private is None:
            owner = SessionOwner(key=route.key, chat_kind=policy.chat_kind, is_private=policy.is_private)
            await journal.append(owner.to_record())
        return OpenSession(
            route,
            journal,
            record,
            index=self.index,
            now=self._now,
            history_turns=self._history_turns(route),
            is_read_by_others=in_private is False,
            access=self._access(route.key),
            notices=notices,
        )

    async def open_ended(self, ended: EndedSession) -> OpenSession | None:
        """A session that has ended, with the policy that it had; `None` when its transcript is gone.

        Raises:
            SessionError: the transcript cannot be read.
        """
        record = SessionRecord(
            session_id=ended.session_id, updated_at_ms=ended.ended_at_ms, session_file=ended.transcript
        )
        if not await self.store.has_transcript(record):
            return None
        journal = await self.journals.open(record)
        private = begun_private(journal.tree) is True
        chat_kind = "direct" if private else "group"
        policy = ChatPolicy(chat_kind=chat_kind, is_owner=private, session_key_is_private=private)
        origin = Origin(chat_kind=chat_kind, channel=ended.channel)
        route = Route(key=ended.key, policy=policy, origin=origin)
        access = self._access(ended.key)
        return OpenSession(route, journal, record, index=self.index, now=self._now, access=access)

    async def _journal(self, route: Route, *, fresh: bool) -> tuple[SessionRecord, Transcript]:
        record = await self._record(route, fresh=fresh)
        return record, await self.journals.open(record)

    async def _record(self, route: Route, *, fresh: bool) -> SessionRecord:
        """The key's line in the index, a new one where there is none or a fresh session is wanted."""
        there = await self.index.get(route.key)
        if there is None or not await self.store.has_transcript(there):
            there = await self.index.found_again(route.key)
        if not fresh and there is not None and there is with_origin(there, route.origin):
            return there

        def begun(record: SessionRecord | None) -> SessionRecord:
            at_ms = epoch_ms(self._now())
            if record is None:
                record = SessionRecord(
                    session_id=self._new_id(),
                    updated_at_ms=at_ms,
                    session_started_at_ms=at_ms,
                    compaction_count=0,
                )
            elif fresh:
                record = next_session(record, session_id=self._new_id(), at_ms=at_ms)
            return with_origin(record, route.origin)

        record = await self.index.update(route.key, begun)
        if record is None:
            raise RuntimeError(f"the index gave no record for {route.key!r} although one was written")
        return record
