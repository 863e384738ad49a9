"""`Session`: one session of an agent as an object, with the same functions as the chat commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, Unpack, cast, overload

from nacre.record import Record
from nacre.runtime.commands.conversation.branching import Rewound, fork, label, rewind
from nacre.runtime.commands.conversation.changing import (
    LISTED,
    begin_fresh,
    earlier_named,
    earlier_sessions,
    resume,
)
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.conversation.context_parts import ContextView, context_of
from nacre.runtime.commands.conversation.history import (
    SessionLabel,
    SessionMessage,
    SessionTurn,
    history_of,
    labels_of,
    turns_of,
    usage_of,
)
from nacre.runtime.commands.conversation.status import SessionStatus, status_of
from nacre.runtime.contracts.errors import ConfigError, PrivacyError
from nacre.runtime.contracts.events import CompactionEnded
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.output import TypeForm
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import CallOptions, MessageOptions, TurnOptions, turn_options
from nacre.sessions.contracts.messages import Usage

T = TypeVar("T")


class EarlierSession(Record):
    """An earlier session of a key. `last_said` is the last user message in it."""

    session_id: str
    active_at: datetime
    last_said: str


class SessionAccess(Protocol):
    """Access to the sessions of an agent."""

    @property
    def chosen(self) -> ChosenModels:
        """The models that may be chosen for a session."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """How sessions end."""
        ...

    async def run(self, key: str, work: Callable[[Turn], Awaitable[T]], /) -> T:
        """Runs a function on the open session of a key, while its lock is held."""
        ...

    async def ask(
        self, key: str, text: str, attachments: tuple[Attachment, ...], options: TurnOptions, /
    ) -> Reply[Any] | None:
        """Replies to a message of the owner in the session of a key."""
        ...


class Session:
    """The session that a key refers to, which `new`, `fork` and `resume` change.

    Each method waits for its turn in the session, as a message does, and records what it does, like the chat
    command with the same name. It has the owner's rights. Nothing is deleted.

    Each raises `SessionError` if the disk refuses or cannot be read, `SessionInUse` if another process keeps
    the session busy, and `TurnCancelled` if it was stopped.
    """

    def __init__(self, key: str, session_id: str, access: SessionAccess) -> None:
        self._key = key
        self._session_id = session_id
        self._access = access

    @property
    def key(self) -> str:
        """The session's key, such as `agent:main:main`."""
        return self._key

    @property
    def session_id(self) -> str:
        """The id of the session that the key referred to at the last call."""
        return self._session_id

    @overload
    async def ask(
        self, text: str, *, output_type: None = None, **options: Unpack[MessageOptions]
    ) -> Reply[None] | None: ...

    @overload
    async def ask(
        self, text: str, *, output_type: TypeForm[T], **options: Unpack[MessageOptions]
    ) -> Reply[T]: ...

    async def ask(
        self, text: str, *, output_type: TypeForm[Any] | None = None, **options: Unpack[MessageOptions]
    ) -> Reply[Any] | None:
        """Replies to a message of the owner in this session; `None` if the assistant stays silent.

        The options are `attachments` and those of `Agent.respond`, with the same errors.

        Raises:
            AgentError: the turn failed; the message is on disk unless it was refused.
        """
        attachments = options.pop("attachments", ())
        of_turn = turn_options(output_type, **cast("CallOptions", options))
        reply = await self._access.ask(self._key, text, attachments, of_turn)
        if reply is not None:
            self._session_id = reply.session_id
        return reply

    async def history(self, *, limit: int | None = None) -> tuple[SessionMessage, ...]:
        """The last `limit` messages, or all, oldest first.

        Messages that the model sees only as a summary are included; tool calls and results are not.
        """
        return await self._run(lambda turn: _soon(history_of(turn.session.branch, limit=limit)))

    async def turns(self, *, limit: int | None = None) -> tuple[SessionTurn, ...]:
        """The user messages, newest first, as places to go back to."""
        return await self._run(lambda turn: _soon(turns_of(turn.session.branch, limit=limit)))

    async def labels(self) -> tuple[SessionLabel, ...]:
        """The labeled places."""
        return await self._run(lambda turn: _soon(labels_of(turn.session.journal.tree)))

    async def usage(self) -> Usage:
        """Tokens and cost in US dollars of all model calls of this transcript, as reported by providers.

        Calls of abandoned branches and flushes are included, those of summaries are not. A fork includes the
        calls that it copied.
        """
        return await self._run(lambda turn: _soon(usage_of(turn.session.journal.tree)))

    async def status(self) -> SessionStatus:
        """The model that answers, the use of its context window, the session's age, and when it ends."""
        return await self._run(lambda turn: status_of(turn, self._access.lifecycle))

    async def context(self) -> ContextView:
        """What the model would receive now, part by part."""
        return await self._run(context_of)

    async def rewind(self, place: str | SessionTurn, note: str = "") -> Rewound:
        """Returns to before one of `turns()`, or to after the entry of a label or an id.

        The model is told the note and which files the abandoned branch had changed; the files stay unchanged.

        Raises:
            PlaceUnknown: the session has no such place.
        """
        return await self._run(lambda turn: rewind(turn, place, note=note))

    async def fork(self, place: str | SessionTurn | None = None, *, key: str = "") -> Session:
        """Copies the session up to a place, or all of it.

        The key refers to the copy from now on, and `resume` returns to the original. With another `key`,
        which must not have a session yet, the copy exists beside this session.

        Raises:
            PlaceUnknown: the session has no such place, or no messages yet.
            SessionKeyInvalid: the key is invalid or has a session.
            PrivacyError: the session is private, and the other key would not be.
        """
        forked = await self._run(lambda turn: fork(turn, place, key=key))
        session = Session(forked.key, forked.session_id, self._access)
        if forked.key == self._key:
            self._session_id = forked.session_id
        return session

    async def label(self, name: str) -> None:
        """Labels the current place, so that `rewind` can return to it.

        Raises:
            PlaceUnknown: the label is invalid, or there are no messages yet.
        """
        await self._run(lambda turn: label(turn, name))

    async def compact(self, focus: str = "") -> CompactionEnded:
        """Saves notes, then replaces old history in the model's view with a summary that keeps the focus.

        If nothing was replaced, the result's `problem` says why.
        """
        return await self._run(lambda turn: turn.compact(focus=focus))

    async def new(self, *, model: str = "") -> None:
        """Ends the session, saves its notes, and starts a new one. A session without messages stays.

        `model` is the `provider/model` for this key from now on, or `default`.

        Raises:
            ConfigError: the model is unknown.
        """

        async def begin(turn: Turn) -> str:
            named = await self._access.chosen.named(model) if model else None
            if model and (named is None or named.rest):
                raise ConfigError(f"{model!r} is not a known model. Use provider/model.")
            fresh = await begin_fresh(
                turn, "new", lifecycle=self._access.lifecycle, chosen=self._access.chosen, named=named
            )
            return fresh.session.session_id

        self._session_id = await self._run(begin)

    async def earlier(self) -> tuple[EarlierSession, ...]:
        """The latest earlier sessions of this key with user messages, at most ten."""

        async def listed(turn: Turn) -> tuple[EarlierSession, ...]:
            earlier = await earlier_sessions(turn.session, turn.parts)
            found = await turn.parts.sessions.store.last_messages(earlier, most=LISTED)
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
        """Resumes an earlier session by its id or the beginning of its id.

        Raises:
            SessionNotFound: the key has no such session.
            PrivacyError: it is private and this key is not, so a new session was started instead.
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
                    "A new session was started."
                )
            return reopened.session_id

        self._session_id = await self._run(back)

    async def _run(self, work: Callable[[Turn], Awaitable[T]]) -> T:
        async def run(turn: Turn) -> T:
            self._session_id = turn.session.session_id
            return await work(turn)

        return await self._access.run(self._key, run)


async def _soon(value: T) -> T:
    return value
