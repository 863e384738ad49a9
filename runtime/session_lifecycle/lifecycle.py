"""Maintenance of an agent's sessions, and how sessions end.

All sessions end in the same way: the ended session is stored (`store.ended_sessions`), the key gets a new
session, notes are saved, the reply is sent, and then the hooks run. The next start finishes what a crash
interrupts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from nacre.closing import stop_tasks
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.events import Emit, SessionReset, Warned
from nacre.runtime.hooks.events import SessionEnded
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.open_sessions.routing import SessionLocks
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import (
    EndedSession,
    EndReason,
    NextReset,
    ResetCause,
    ResetPolicy,
    due_reset,
    key_kind,
    next_reset,
    session_type,
)
from nacre.sessions.contracts.messages import Message
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.stores.store import EndedSessions, SessionStore
from nacre.sessions.upkeep.maintenance import UpkeepReport

log = logging.getLogger(__name__)

EVERY_MS = 3_600_000
_SHOWN_NAMES = 3


class Upkeep:
    """Runs the maintenance of one agent's sessions. `notices` are sentences for the owner."""

    def __init__(self, store: SessionStore, settings: SessionSettings, *, now: Clock) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._due_ms = 0
        self._task: asyncio.Task[None] | None = None
        self.notices: tuple[str, ...] = ()

    async def begin(self) -> None:
        """Runs the maintenance before the first turn, which then sees the pruned index."""
        self.start_if_due(())
        await self.close()

    def start_if_due(self, active_keys: Collection[str]) -> None:
        """Starts the maintenance in the background if the last run was at least an hour ago.

        `active_keys` is a live view of the keys with a running turn.
        """
        at_ms = epoch_ms(self._now())
        if at_ms < self._due_ms or (self._task is not None and not self._task.done()):
            return
        self._due_ms = at_ms + EVERY_MS
        self._task = asyncio.create_task(self._run(active_keys), name="sessions-upkeep")

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, active_keys: Collection[str]) -> None:
        maintenance = self._settings.maintenance
        dry_run = maintenance.mode == "warn"
        try:
            report = await self._store.maintain(
                maintenance.limits(),
                main_key=self._settings.main_key,
                active_keys=active_keys,
                dry_run=dry_run,
            )
        except (SessionError, OSError) as error:
            log.warning("could not run the maintenance of sessions: %s", error)
            return
        if report.is_empty:
            return
        text = upkeep_text(report, dry_run=dry_run)
        log.info("%s", text)
        # A pruned record makes no difference to the owner; a removed file does.
        if dry_run or report.removed:
            self.notices = (text,)


def upkeep_text(report: UpkeepReport, *, dry_run: bool) -> str:
    """One sentence for each kind of change that was, or would be, made."""
    left, were = ("would leave", "would be") if dry_run else ("left", "were")
    sentences = [
        f"Unused sessions that {left} the index: {_some(report.pruned_keys)}. "
        "`nacre sessions list --all` still lists them.",
        f"Transcripts of programs that {were} set aside: {_some(report.moved_aside)}.",
        f"Files that {were} removed because of session.maintenance: {_some(report.removed)} "
        f"({report.removed_bytes} bytes).",
    ]
    lists = (report.pruned_keys, report.moved_aside, report.removed)
    needed = [sentence for sentence, names in zip(sentences, lists, strict=True) if names]
    return " ".join(needed) or "The sessions are within their limits."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more


MAX_ATTEMPTS = 3
"""How many starts try to finish an ended session whose hooks fail."""
CLOSE_SECONDS = 30.0
"""How long closing waits for hooks; the next start runs the rest."""
ENDED_SESSIONS_KEY = "endings"

_LATEST_MS = 8_000_000_000_000
"""Timestamps after the year 2223 are damaged."""


class Lifecycle:
    """Ends one agent's sessions."""

    def __init__(self, parts: TurnParts, *, locks: SessionLocks, ended_sessions: EndedSessions) -> None:
        self._parts = parts
        self._locks = locks
        self._ended_sessions = ended_sessions
        self._due: dict[str, list[EndedSession]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def reset_due(self, session: OpenSession) -> ResetCause | None:
        """Why the session must end before this message, or `None` if it continues."""
        policy = self._policy(session)
        return None if policy is None else due_reset(policy, **_times(session), now=self._parts.now())

    def next_reset(self, session: OpenSession) -> NextReset | None:
        """When the session will end if no message arrives until then."""
        policy = self._policy(session)
        return None if policy is None else next_reset(policy, **_times(session), now=self._parts.now())

    async def reset_if_due(self, turn: Turn) -> Turn:
        """Returns a turn in a new session if a reset of the current one is due, otherwise the turn itself.

        Raises:
            SessionError: the session ended, and the next one could not be opened.
        """
        session = turn.session
        cause = self.reset_due(session)
        if cause is None:
            return turn
        try:
            return turn.of_session(await self.begin_next(session, cause, turn.emit))
        except SessionError as error:
            record = await self._parts.sessions.index.get(session.key)
            if record is not None and record.session_id != session.session_id:
                raise
            turn.emit(Warned(message=f"The session could not be ended and continues: {error}"))
            return turn

    async def begin_next(self, session: OpenSession, reason: EndReason, emit: Emit) -> OpenSession:
        """Ends a session and returns the key's new one; `finish` does the rest.

        Raises:
            SessionError: the disk refused; the session continues.
        """
        ended = EndedSession(
            key=session.key,
            session_id=session.session_id,
            transcript=session.journal.name,
            reason=reason,
            ended_at_ms=session.now_ms(),
            channel=session.route.origin.channel,
        )
        await self._ended_sessions.put(ended)
        # Set before the key gets its new session; `finish` checks whether it did.
        self._due.setdefault(session.key, []).append(ended)
        fresh = await self._parts.sessions.open(session.route, fresh=True)
        log.info("session %s of %s ended (%s)", ended.session_id, ended.key, reason)
        if reason in ("daily", "idle"):
            emit(
                SessionReset(
                    reason=reason, session_id=fresh.session_id, previous_session_id=session.session_id
                )
            )
        return fresh

    def finish(self, session_key: str) -> None:
        """Finishes the ended sessions of this key in the background. The caller holds the session's lock."""
        if due := self._due.pop(session_key, []):
            self._start(self._finish_all(due))

    def finish_pending(self) -> None:
        """Finishes the ended sessions of killed processes in the background. Called once, at the start."""
        self._start(self._finish_pending())

    async def close(self) -> None:
        """Waits up to `CLOSE_SECONDS` for unfinished hooks. No turn may be running."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        await stop_tasks(*late)

    def _policy(self, session: OpenSession) -> ResetPolicy | None:
        if not session.has_messages:
            return None
        settings = self._parts.settings.session
        kind = session_type(
            key_kind(session.key, main_key=settings.main_key),
            is_direct=session.policy.chat_kind == "direct",
            has_thread=bool(session.route.origin.thread_id.strip()),
        )
        return None if kind is None else settings.reset_policy(kind, session.route.origin.channel)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish_all(self, due: Sequence[EndedSession]) -> None:
        for ended in due:
            try:
                async with self._locks.enter(ENDED_SESSIONS_KEY, on_wait=log.info):
                    if await self._is_over(ended) and await self._ended_sessions.has(ended):
                        await self._finish(ended)
            except (AgentError, SessionError, OSError) as error:
                log.warning("the next start finishes the ended session %s: %s", ended.session_id, error)
            except Exception:
                # A bug must not disappear in a task, and the others must be finished.
                log.exception("the next start finishes the ended session %s", ended.session_id)

    async def _finish_pending(self) -> None:
        try:
            pending = await self._ended_sessions.all()
        except SessionError as error:
            log.warning("cannot read the ended sessions: %s", error)
            return
        for ended in pending:
            try:
                # A running turn of the session may be about to end it.
                async with self._locks.enter(ended.key, on_wait=log.info, wait_seconds=0.0):
                    over = await self._is_over(ended)
            except (AgentError, SessionError, OSError) as error:
                log.info("the ended session %s is not finished yet: %s", ended.session_id, error)
                continue
            if over:
                await self._finish_all([ended])

    async def _is_over(self, ended: EndedSession) -> bool:
        """Whether the key has another session now. An error, or the owner's `/resume`, may prevent that."""
        record = await self._parts.sessions.index.get(ended.key)
        if record is None or record.session_id != ended.session_id:
            return True
        await self._ended_sessions.remove(ended)
        return False

    async def _finish(self, ended: EndedSession) -> None:
        session = await self._parts.sessions.open_ended(ended)
        if session is None:
            log.warning("the transcript %s is missing, so its session ends without notes", ended.transcript)
            await self._ended_sessions.remove(ended)
            return
        await Turn(session, self._parts, emit=lambda _event: None).save_notes()
        problems = await self._parts.hooks.trigger(
            SessionEnded(
                reason=ended.reason,
                session_key=ended.key,
                session_id=ended.session_id,
                transcript=session.journal.place,
                entries=session.branch,
                is_private=session.policy.is_private,
                channel=ended.channel,
                ended_at=datetime.fromtimestamp(ended.ended_at_ms / 1000, self._parts.now().tzinfo),
            )
        )
        tried = replace(ended, attempts=ended.attempts + 1)
        if problems and tried.attempts < MAX_ATTEMPTS:
            await self._ended_sessions.put(tried)
        else:
            await self._ended_sessions.remove(ended)


def started_at(session: OpenSession) -> datetime:
    """When the session started, by the index or else its transcript's header."""
    return _moment(
        session.line.record.session_started_at_ms or timestamp_ms(session.journal.header.timestamp)
    )


def last_said_at(session: OpenSession) -> datetime:
    """The time of the last message, or of the start if there is none.

    It is read from the transcript too, because flushes, settings and listings also change the index, and
    because an answer that took an hour is not an hour of silence.
    """
    newest = next((entry for entry in reversed(session.branch) if isinstance(entry.body, Message)), None)
    said_ms = timestamp_ms(newest.timestamp) if newest is not None else 0
    indexed_ms = session.line.record.last_interaction_at_ms or 0
    return max(_moment(said_ms), _moment(indexed_ms), started_at(session))


def _times(session: OpenSession) -> dict[str, datetime]:
    return {"started_at": started_at(session), "last_said_at": last_said_at(session)}


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp((at_ms if 0 < at_ms < _LATEST_MS else 0) / 1000, UTC)
