"""`agent.sessions`: an agent's sessions as objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from nacre.record import Record
from nacre.runtime.agent.answering import owner_message
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.agent.opening.sub_agents import is_sub_agent_key
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.conversation.session import Session
from nacre.runtime.contracts.errors import TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import CompactionEnded, Event, FlushEnded, Warned
from nacre.runtime.contracts.inbound import CHAT_KINDS, Attachment, Inbound, Reply
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.open_sessions.routing import Route
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import TurnOptions
from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.contracts.keys import is_private_key, owners_key
from nacre.sessions.index.record import Origin, SessionRecord

log = logging.getLogger(__name__)

T = TypeVar("T")
Say = Callable[[Inbound, TurnOptions], Awaitable[Reply[Any] | None]]


class SessionInfo(Record):
    """A session in a list. `chat_kind` and `channel` say where its messages come from, `name` is the
    chat's display name; they are empty if unknown.
    """

    key: str
    session_id: str
    active_at: datetime
    chat_kind: str
    channel: str
    name: str


class Sessions:
    def __init__(self, parts: AgentParts, say: Say, is_closed: Callable[[], bool]) -> None:
        self._parts = parts
        self._say = say
        self._is_closed = is_closed

    async def get(self, key: str = "main") -> Session:
        """The session with this key; a plain name is a private session. The default is the owner's main
        session.

        Raises:
            SessionKeyInvalid: the text cannot be a key.
            SessionNotFound: the key has no session yet; its first message starts one.
        """
        key = owners_key(
            key, agent_id=self._parts.agent_id, main_key=self._parts.turn.settings.session.main_key
        )
        record = await self._record(key)
        return Session(key, record.session_id, self)

    async def list(self) -> tuple[SessionInfo, ...]:
        """The current session of each key, most recently active first."""
        found = await self._parts.turn.sessions.store.sessions(with_earlier=False)
        return tuple(
            SessionInfo(
                key=item.key,
                session_id=item.session_id,
                active_at=datetime.fromtimestamp(item.active_at_ms / 1000, UTC),
                chat_kind=item.record.chat_type or "",
                channel=_text(item.record.origin, "provider"),
                name=item.record.display_name or "",
            )
            for item in found
        )

    # What a `Session` asks of its agent.

    @property
    def chosen(self) -> ChosenModels:
        return self._parts.chosen

    @property
    def lifecycle(self) -> Lifecycle:
        return self._parts.lifecycle

    async def ask(
        self, key: str, text: str, attachments: tuple[Attachment, ...], options: TurnOptions, /
    ) -> Reply[Any] | None:
        return await self._say(owner_message(text, key, attachments), options)

    async def run(self, key: str, work: Callable[[Turn], Awaitable[T]], /) -> T:
        """Calls `work` on the open session of a key, while no other turn runs there."""
        if self._is_closed():
            raise TurnBroken("This agent is closed. Open a new one.")
        task = self._parts.running.start(key, self._run_in_turn(key, work))
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise TurnCancelled(f"The work on the session {key!r} was stopped.") from None

    async def _run_in_turn(self, key: str, work: Callable[[Turn], Awaitable[T]]) -> T:
        parts = self._parts
        async with parts.locks.enter(key, on_wait=log.info):
            session = await parts.turn.sessions.open(self._route(key, await self._record(key)))
            try:
                return await work(parts.chosen.applied(Turn(session, parts.turn, _log_event)))
            finally:
                parts.lifecycle.finish(key)

    async def _record(self, key: str) -> SessionRecord:
        record = await self._parts.turn.sessions.index.get(key)
        if record is None:
            raise SessionNotFound(
                f"There is no session {key!r}. agent.sessions.list() has all sessions; the first "
                "message starts one: agent.ask('…', session=KEY)."
            )
        return record

    def _route(self, key: str, record: SessionRecord) -> Route:
        """The route of the session's latest message, with its owner as the sender."""
        # A sub-agent's session may have begun in private; its transcript says whether it did.
        is_private = is_sub_agent_key(key) or is_private_key(
            key, main_key=self._parts.turn.settings.session.main_key
        )
        usual = "direct" if is_private else "group"
        chat_kind = record.chat_type if record.chat_type in CHAT_KINDS else usual
        origin = record.origin
        sent_to, sent_by = _text(origin, "to"), _text(origin, "from")
        return Route(
            key=key,
            policy=ChatPolicy(
                chat_kind=chat_kind,
                is_owner=True,
                session_key_is_private=is_private,
                notes_folder=notes_folder_of(key),
            ),
            origin=Origin(
                chat_kind=chat_kind,
                channel=_text(origin, "provider"),
                account=_text(origin, "accountId"),
                chat_id=record.group_id or (sent_to if sent_to != sent_by else ""),
                thread_id=_text(origin, "threadId"),
                sender_id=sent_by,
                chat_name=_text(origin, "label"),
            ),
        )


def _text(origin: Mapping[str, Any] | None, name: str) -> str:
    value = (origin or {}).get(name)
    return value if isinstance(value, str) else ""


def _log_event(event: Event) -> None:
    """Logs problems, because nobody receives the events of a call."""
    if isinstance(event, Warned):
        log.warning("%s", event.message)
    elif isinstance(event, FlushEnded | CompactionEnded) and event.problem:
        log.warning("%s", event.problem)
