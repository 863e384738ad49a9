"""Determines the session of a message and its rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import Any, Protocol

from nacre.record import Record
from nacre.runtime.contracts.errors import PrivacyError, SessionInUse
from nacre.runtime.contracts.inbound import CHAT_KINDS, Inbound
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess, notes_folder_of
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.runtime.settings.settings import Settings
from nacre.sessions.contracts.keys import (
    GLOBAL_KEY,
    SessionRoute,
    canonical_key,
    folded_id,
    is_private_key,
    key_agent,
    key_kind,
    owners_key,
    route_key,
)
from nacre.sessions.index.record import Origin


class Route(Record):
    """A session's key, its policy, and the origin of its message.

    `ids_fold_case` says whether the channel treats `Anna` and `anna` as the same id; `context` is
    `Inbound.context`.
    """

    key: str
    policy: ChatPolicy
    origin: Origin
    ids_fold_case: bool = False
    context: Any = field(default=None, repr=False, compare=False)


def route(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> Route:
    """Determines the session of a message. A key in the message takes precedence over the derived one.

    Raises:
        PrivacyError: a message that is not the owner's, or not from a direct chat, names a private session;
            or a message names a session of another agent.
        nacre.sessions.SessionKeyInvalid: the key in the message is invalid, or a direct message that is not
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
    # The global session has everything that the owner says, so it is private too.
    is_owners_only = private_key or key == GLOBAL_KEY
    allowed = policy.is_private if private_key else policy.is_owner
    if inbound.session_key and is_owners_only and not allowed:
        raise PrivacyError(
            f"A {inbound.chat_kind} message"
            f"{'' if policy.is_owner else ' that is not the owner’s'} named the private session {key!r}. "
            "Leave session_key empty, or name a group session."
        )
    return Route(
        key=key,
        policy=policy,
        origin=Origin(
            chat_kind=policy.chat_kind,
            channel=inbound.channel,
            account=inbound.account,
            chat_id=inbound.chat_id,
            thread_id=inbound.thread_id,
            sender_id=inbound.sender_id,
            sender_name=inbound.sender_name,
            chat_name=inbound.chat_name,
        ),
        ids_fold_case=inbound.ids_fold_case is True,
        context=inbound.context,
    )


def workspace_access(key: str, settings: Settings) -> WorkspaceAccess:
    """The access to the workspace that the settings grant the session with this key."""
    sandbox = settings.agent.sandbox
    is_main = key_kind(key, main_key=settings.session.main_key) == "main"
    if sandbox.mode == "off" or (sandbox.mode == "non-main" and is_main):
        return "rw"
    return sandbox.workspace_access


def history_turns_of(route: Route, settings: Settings) -> int | None:
    """How many turns of a session the model is sent; `None` for all.

    Only direct chats with their own session, and their threads, have a limit. Channel names are
    case-insensitive; sender ids are case-sensitive unless the route's channel folds them.
    """
    if not {"dm", "direct"} & set(route.key.split(":")[2:]):
        return None
    wanted, sender_id = route.origin.channel.strip().lower(), route.origin.sender_id
    sections = settings.channels.items()
    here = next((section for name, section in sections if name.strip().lower() == wanted), None)
    if here is None:
        return None
    same = folded_id if route.ids_fold_case else str
    limits = (peer.history_limit for known, peer in here.dms.items() if same(known) == same(sender_id))
    return next((limit for limit in limits if limit is not None), here.dm_history_limit)


def _key(inbound: Inbound, *, agent_id: str, settings: SessionSettings) -> str:
    if inbound.session_key:
        is_owners = inbound.chat_kind == "direct" and _is_owner(inbound)
        key_named = owners_key if is_owners else canonical_key
        key = key_named(inbound.session_key, agent_id=agent_id, main_key=settings.main_key)
        if (named := key_agent(key)) not in ("", agent_id):
            raise PrivacyError(
                f"The session key {inbound.session_key!r} belongs to agent {named!r}, and this is agent "
                f"{agent_id!r}. Send the message to agent {named!r}."
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


def _is_owner(inbound: Inbound) -> bool:
    # A bridge that passes the text "false" must not make everybody the owner.
    return inbound.is_owner is True


POLL_SECONDS = 0.05
NOTICE_AFTER_SECONDS = 2.0


class ProcessLocks(Protocol):
    """The part of `SessionStore` that locks sessions across processes."""

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        """The lock of a session; see `SessionStore.turn_lock`."""


class SessionLocks:
    """The session locks of one agent. `locks` excludes other processes; `sleep` waits between attempts."""

    def __init__(
        self, locks: ProcessLocks, *, sleep: Callable[[float], Awaitable[None]], wait_seconds: float
    ) -> None:
        self._between_processes = locks
        self._sleep = sleep
        self._wait_seconds = wait_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    def is_busy(self, session_key: str) -> bool:
        """Whether a task of this process holds the session's lock or waits for it."""
        return session_key in self._waiting

    @asynccontextmanager
    async def enter(
        self, session_key: str, *, on_wait: Callable[[str], None], wait_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Holds the session's lock. `on_wait` receives one sentence if another process holds it.

        `wait_seconds` limits the wait for another process; the default is the agent's limit.

        Raises:
            SessionInUse: another process held the lock for longer.
        """
        lock = self._locks.setdefault(session_key, asyncio.Lock())
        self._waiting[session_key] = self._waiting.get(session_key, 0) + 1
        longest_seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        waited_seconds = 0.0
        try:
            async with lock:
                while True:
                    async with self._between_processes.turn_lock(session_key) as is_ours:
                        if is_ours:
                            yield
                            return
                    if waited_seconds >= longest_seconds:
                        raise SessionInUse(
                            f"Another process has been running a turn of session {session_key!r} for over "
                            f"{longest_seconds:.0f} seconds. "
                            "Try again when it is finished, or use another session."
                        )
                    await self._sleep(POLL_SECONDS)
                    before, waited_seconds = waited_seconds, waited_seconds + POLL_SECONDS
                    if before < NOTICE_AFTER_SECONDS <= waited_seconds:
                        on_wait(f"Waiting: another process is running a turn of session {session_key!r}.")
        finally:
            self._waiting[session_key] -= 1
            if not self._waiting[session_key]:
                del self._waiting[session_key], self._locks[session_key]
