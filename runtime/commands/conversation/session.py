"""`Session`: one session of an agent as an object. Chat commands and these methods are the same functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from nacre.record import Record
from nacre.runtime.commands.conversation.branch_points import (
    SessionLabel,
    SessionTurn,
    labels_of,
    turns_of,
)
from nacre.runtime.commands.conversation.branching import Rewound, fork, label, rewind
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.conversation.compacting import compact
from nacre.runtime.commands.conversation.history import SessionMessage, history_of, usage_of
from nacre.runtime.commands.conversation.resuming import earlier_named, earlier_sessions, resume, with_words
from nacre.runtime.commands.conversation.starting import begin_fresh
from nacre.runtime.commands.conversation.status import SessionStatus, status_of
from nacre.runtime.commands.insight.context_parts import ContextView, context_of
from nacre.runtime.contracts.errors import ConfigError, PrivacyError
from nacre.runtime.contracts.events import CompactionEnded
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.loop.loop import UsageLimits
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import Usage

T = TypeVar("T")


class EarlierSession(Record):
    """A session that a key named before. `last_said` are the last words that were said in it."""

    session_id: str
    active_at: datetime
    last_said: str


class SessionDoor(Protocol):
    """The way into the sessions of an agent."""

    @property
    def chosen(self) -> ChosenModels:
        """The models that may be chosen for a session."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """How sessions end."""
        ...

    async def run(self, key: str, work: Callable[[Turn], Awaitable[T]], /) -> T:
        """Does some work on the open session of a key, while its lane is held."""
        ...

    async def ask(
        self, key: str, text: str, /, *, attachments: tuple[Attachment, ...], limits: UsageLimits | None
    ) -> Reply | None:
        """The reply to what the owner says in the session of a key."""
        ...


class Session:
    """One session of an agent: what its key names, which `new`, `fork` and `resume` change.

    Each method waits for its turn in the session, as a message does, and writes down what it does as the chat
    command of the same name. It acts with the owner's right. Nothing is ever deleted.

    Each raises `SessionError` when the disk refuses or what stands there cannot be read, `SessionInUse` when
    another process keeps the session busy, and `TurnCancelled` when it was stopped.
    """

    def __init__(self, key: str, session_id: str, door: SessionDoor) -> None:
        self._key = key
        self._session_id = session_id
        self._door = door

    @property
    def key(self) -> str:
        """The session's key, such as `agent:main:main`."""
        return self._key

    @property
    def session_id(self) -> str:
        """The id of the transcript that the key named when it was last looked at."""
        return self._session_id

    async def ask(
        self, text: str, *, attachments: tuple[Attachment, ...] = (), limits: UsageLimits | None = None
    ) -> Reply | None:
        """The reply to what the owner says in this session; `None` when the assistant stays silent.

        Raises:
            AgentError: the turn failed; the words are on disk unless they were refused.
        """
        reply = await self._door.ask(self._key, text, attachments=attachments, limits=limits)
        if reply is not None:
            self._session_id = reply.session_id
        return reply

    async def history(self, *, limit: int | None = None) -> tuple[SessionMessage, ...]:
        """What was said, the oldest first: the last `limit` messages, or all.

        Every word, also those for which the model sees a summary. Tool calls and their results are left out.
        """
        return await self._run(lambda turn: _soon(history_of(turn.session.branch, limit=limit)))

    async def turns(self, *, limit: int | None = None) -> tuple[SessionTurn, ...]:
        """What people said, the newest first: places to go back to."""
        return await self._run(lambda turn: _soon(turns_of(turn.session.branch, limit=limit)))

    async def labels(self) -> tuple[SessionLabel, ...]:
        """The places that have names."""
        return await self._run(lambda turn: _soon(labels_of(turn.session.journal.tree)))

    async def usage(self) -> Usage:
        """Tokens and cost in US dollars of all model calls of this transcript, as providers reported them.

        Those of branches that were left and of flushes count too, those of summaries do not. A fork has the
        calls that it copied.
        """
        return await self._run(lambda turn: _soon(usage_of(turn.session.journal.tree)))

    async def status(self) -> SessionStatus:
        """Which model answers, how full its window is, how old the session is, and when it ends."""
        return await self._run(lambda turn: status_of(turn, self._door.lifecycle))

    async def context(self) -> ContextView:
        """What the model would get now, part by part."""
        return await self._run(context_of)

    async def rewind(self, place: str | SessionTurn, note: str = "") -> Rewound:
        """Goes back to a place: to before one of `turns()`, or to behind a label's or an entry's place.

        The model is told the note, and which files what is left had changed; the files stay as they are.

        Raises:
            PlaceUnknown: the session has no such place.
        """
        return await self._run(lambda turn: rewind(turn, place, note=note))

    async def fork(self, place: str | SessionTurn | None = None, *, key: str = "") -> Session:
        """A copy of the session up to a place, or all of it.

        The key names the copy from now on, and `resume` goes back to the one that was copied. With a `key`
        of its own, which no session has yet, the copy stands beside this session instead.

        Raises:
            PlaceUnknown: the session has no such place, or nothing was said in it.
            SessionKeyInvalid: the key cannot be one, or names a session already.
            PrivacyError: the session is private, and a session of that key would not be.
        """
        forked = await self._run(lambda turn: fork(turn, place, key=key))
        session = Session(forked.key, forked.session_id, self._door)
        if forked.key == self._key:
            self._session_id = forked.session_id
        return session

    async def label(self, name: str) -> None:
        """Gives the present place a name, to come back to it with `rewind`.

        Raises:
            PlaceUnknown: the name cannot be one, or nothing was said yet.
        """
        await self._run(lambda turn: label(turn, name))

    async def compact(self, focus: str = "") -> CompactionEnded:
        """Saves notes, then replaces old history, in the model's view, by a summary that keeps the focus.

        `problem` of the result says why nothing was replaced, if nothing was.
        """
        return await self._run(lambda turn: compact(turn, focus=focus))

    async def new(self, *, model: str = "") -> None:
        """Ends the session, with notes saved, and begins a fresh one; one without a word is fresh already.

        `model` is `provider/model` for this key from then on, `default` the settings' own.

        Raises:
            ConfigError: there is no such model.
        """

        async def begin(turn: Turn) -> str:
            named = await self._door.chosen.named(model) if model else None
            if model and (named is None or named.rest):
                raise ConfigError(f"{model!r} names no model that is known here. Write provider/model.")
            fresh = await begin_fresh(
                turn, "new", lifecycle=self._door.lifecycle, chosen=self._door.chosen, named=named
            )
            return fresh.session.session_id

        self._session_id = await self._run(begin)

    async def earlier(self) -> tuple[EarlierSession, ...]:
        """The latest sessions that this key named before and in which somebody spoke, ten at most."""

        async def listed(turn: Turn) -> tuple[EarlierSession, ...]:
            found = await with_words(await earlier_sessions(turn.session, turn.parts), turn.parts)
            return tuple(
                EarlierSession(
                    session_id=item.session_id,
                    active_at=datetime.fromtimestamp(item.active_at_ms / 1000, UTC),
                    last_said=words,
                )
                for item, words in found
            )

        return await self._run(listed)

    async def resume(self, session_id: str) -> None:
        """Goes back to an earlier session, named by its id or the beginning of it.

        Raises:
            SessionNotFound: the key never named such a session.
            PrivacyError: it was private and this key is not, so it is not shown; a fresh session has begun.
        """

        async def back(turn: Turn) -> str:
            if session_id == turn.session.session_id:
                return session_id
            earlier = await earlier_sessions(turn.session, turn.parts)
            wanted = earlier_named(session_id, earlier, turn)
            reopened = await resume(turn, wanted)
            if reopened.session_id != wanted.session_id:
                raise PrivacyError(
                    f"The session {wanted.session_id} was private, and {turn.session.key!r} is not. "
                    "A fresh session has begun."
                )
            return reopened.session_id

        self._session_id = await self._run(back)

    async def _run(self, work: Callable[[Turn], Awaitable[T]]) -> T:
        async def looked_at(turn: Turn) -> T:
            self._session_id = turn.session.session_id
            return await work(turn)

        return await self._door.run(self._key, looked_at)


async def _soon(value: T) -> T:
    return value
