"""One turn at a time in a session, whichever task or process asks.

Inside the process an asyncio lock, first come, first served; between processes the lane of a store, which
a killed process cannot leave behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nacre.records.record import Record
from nacre.runtime.contracts.errors import PrivacyError, SessionInUse
from nacre.runtime.contracts.events import Emit, Warned
from nacre.runtime.contracts.inbound import CHAT_KINDS, Inbound
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess, notes_folder_of
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.runtime.settings.settings import Settings
from nacre.sessions.contracts.keys import (
    GLOBAL_KEY,
    SessionRoute,
    canonical_key,
    is_private_key,
    key_agent,
    key_kind,
    owners_key,
    route_key,
)
from nacre.sessions.index.record import Origin

POLL_SECONDS = 0.05
NOTICE_AFTER_SECONDS = 2.0


class LaneLocks(Protocol):
    """What of a `SessionStore` keeps other processes out."""

    def lane(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""


class Lanes:
    """The lanes of one agent. `locks` keep other processes out; `sleep` waits between tries."""

    def __init__(
        self, locks: LaneLocks, *, sleep: Callable[[float], Awaitable[None]], wait_seconds: float
    ) -> None:
        self._between_processes = locks
        self._sleep = sleep
        self._wait_seconds = wait_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    def is_busy(self, session_key: str) -> bool:
        """Whether somebody of this process is in the lane, or waits for it."""
        return session_key in self._waiting

    @asynccontextmanager
    async def enter(
        self, session_key: str, *, on_wait: Callable[[str], None], wait_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Holds the session's lane. `on_wait` gets one sentence when another process keeps it busy.

        `wait_seconds` is how long to wait for another process, unless it is as long as usual.

        Raises:
            SessionInUse: another process kept the lane for longer than this agent waits.
        """
        lock = self._locks.setdefault(session_key, asyncio.Lock())
        self._waiting[session_key] = self._waiting.get(session_key, 0) + 1
        longest_seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        waited_seconds = 0.0
        try:
            async with lock:
                while True:
                    async with self._between_processes.lane(session_key) as is_ours:
                        if is_ours:
                            yield
                            return
                    if waited_seconds >= longest_seconds:
                        raise _in_use(session_key, longest_seconds)
                    await self._sleep(POLL_SECONDS)
                    before, waited_seconds = waited_seconds, waited_seconds + POLL_SECONDS
                    if before < NOTICE_AFTER_SECONDS <= waited_seconds:
                        on_wait(f"Waiting: another process is in a turn of session {session_key!r}.")
        finally:
            self._waiting[session_key] -= 1
            if not self._waiting[session_key]:
                del self._waiting[session_key], self._locks[session_key]


def _in_use(session_key: str, waited_seconds: float) -> SessionInUse:
    return SessionInUse(
        f"Another process has been in a turn of session {session_key!r} for over "
        f"{waited_seconds:.0f} seconds. "
        "Try again when it is done, or use another session."
    )


log = logging.getLogger(__name__)


class Told:
    """What an agent has told so far, session by session."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def once(self, session_id: str, notices: Sequence[str], emit: Emit) -> None:
        """Warns of each notice that this session has not been told yet; an empty id is the whole agent."""
        for notice in notices:
            if (session_id, notice) not in self._told:
                self._told.add((session_id, notice))
                log.warning("%s", notice)
                emit(Warned(message=notice))


class Route(Record):
    """A session's key, the policy that holds in it, and where its message came from.

    `ids_fold_case` is the message's: whether its channel takes `Anna` and `anna` for one id.
    """

    key: str
    policy: ChatPolicy
    origin: Origin
    ids_fold_case: bool = False


def route(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> Route:
    """The session of a message. A key that the message names wins over the derived one.

    Raises:
        PrivacyError: a message that is not the owner's, or not from a direct chat, names a private
            session: what was said there must not reach it. Or it names a session of another agent.
        nacre.sessions.SessionKeyInvalid: the named key cannot be a key, or a direct message that is not
            the owner's has no `sender_id`.
    """
    key = _key(inbound, agent_id=agent_id, settings=settings)
    private_key = is_private_key(key, main_key=settings.main_key)
    policy = ChatPolicy(
        chat_kind=inbound.chat_kind if inbound.chat_kind in CHAT_KINDS else "group",
        is_owner=_is_owner(inbound),
        session_key_is_private=private_key,
        notes_folder=notes_folder_of(key),
    )
    # The one session of all that the owner says is nobody else's either.
    owners_alone = private_key or key == GLOBAL_KEY
    allowed = policy.is_private if private_key else policy.is_owner
    if inbound.session_key and owners_alone and not allowed:
        raise PrivacyError(
            f"A {inbound.chat_kind} message"
            f"{'' if policy.is_owner else ' that is not the owner’s'} named the private session {key!r}. "
            "Leave session_key empty, or name a group session."
        )
    return Route(
        key=key,
        policy=policy,
        origin=_origin(inbound, policy),
        ids_fold_case=inbound.ids_fold_case is True,
    )


def workspace_access(key: str, settings: Settings) -> WorkspaceAccess:
    """What the settings let the session of this key do with the workspace."""
    sandbox = settings.agent.sandbox
    is_main = key_kind(key, main_key=settings.session.main_key) == "main"
    if sandbox.mode == "off" or (sandbox.mode == "non-main" and is_main):
        return "rw"
    return sandbox.workspace_access


def _key(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> str:
    if inbound.session_key:
        is_owners = inbound.chat_kind == "direct" and _is_owner(inbound)
        named = owners_key if is_owners else canonical_key
        key = named(inbound.session_key, agent_id=agent_id, main_key=settings.main_key)
        if (other := key_agent(key)) not in ("", agent_id):
            raise PrivacyError(
                f"The session key {inbound.session_key!r} is one of agent {other!r}, and this is agent "
                f"{agent_id!r}, which knows its own sessions alone. Give the message to agent {other!r}."
            )
        return key
    return route_key(
        SessionRoute(
            agent_id=agent_id,
            chat_kind=inbound.chat_kind,
            channel=inbound.channel,
            account=inbound.account,
            chat_id=inbound.chat_id,
            thread_id=inbound.thread_id,
            sender_id=inbound.sender_id,
            is_owner=_is_owner(inbound),
            scope=settings.scope,
            dm_scope=settings.dm_scope,
            main_key=settings.main_key,
            ids_fold_case=inbound.ids_fold_case is True,
            identity_links=settings.identity_links,
        )
    )


def _origin(inbound: Inbound, policy: ChatPolicy) -> Origin:
    return Origin(
        chat_kind=policy.chat_kind,
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
        sender_id=inbound.sender_id,
        chat_name=inbound.chat_name,
    )


def _is_owner(inbound: Inbound) -> bool:
    # A bridge that hands in the text "false" must not make everybody the owner.
    return inbound.is_owner is True
