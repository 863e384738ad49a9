"""The interface of session stores.

A store has the sessions of one agent; an implementation with several agents in one place puts the agent
before each key. No value is a path: `name` and `transcript_name` are a store's names for a transcript, and
`place` is a description for people. The result of a call outlives the process.
`tests/sessions/stores/store_contract.py` specifies the other guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import WholeResults
from nacre.sessions.entries.entries import Entry, EntryTree, KnownBody, SessionHeader, StoredTranscript
from nacre.sessions.index.record import RecordChange, SessionRecord
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts
from nacre.sessions.view.sent_view import BranchViews, SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")
LastMessage: TypeAlias = tuple[StoredSession, str]
"""A session and the last message of a person in it."""


class SessionRecords(Protocol):
    """The session records by key. Any number of processes may change them; no change is lost."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about unreadable and rebuilt parts."""

    async def get(self, key: str) -> SessionRecord | None:
        """The record of a key, including every change that another process has completed."""

    async def all(self) -> dict[str, SessionRecord]:
        """All records by key."""

    async def recover(self, key: str) -> SessionRecord | None:
        """Recovers the record of a key whose record is missing or has no transcript, from other sources.

        If nothing better is found, the record stays unchanged; a key without a record stays without one.
        """

    async def update(
        self,
        key: str,
        change: Callable[[SessionRecord | None], SessionRecord | None],
        *,
        durable: bool = True,
    ) -> SessionRecord | None:
        """Replaces a record with the result of `change` and returns it; `None` means no record.

        A change that is not `durable` outlives this process; it outlives a power failure after `flush`.
        """

    async def flush(self) -> None:
        """Waits until all changes are on disk."""

    async def mirror(self, key: str, change: RecordChange) -> SessionRecord | None:
        """Replaces an existing record with the result of `change` and returns it.

        It is for values that the transcript also records: a power failure may lose the last seconds. `change`
        may be called more than once.
        """

    async def edit(
        self, change: Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]
    ) -> Mapping[str, SessionRecord | None]:
        """Replaces several records at once, or none; returns what `change` returned."""


class Transcript(Protocol):
    """The entries of one session, which are appended and never changed."""

    @property
    def name(self) -> str:
        """The store's name for it, as in a record's `session_file` and an ended session's `transcript`."""

    @property
    def place(self) -> str:
        """A description of its place for people."""

    @property
    def size_bytes(self) -> int:
        """Its size as JSON lines when it was last read."""

    @property
    def results(self) -> WholeResults:
        """Its full tool results."""

    @property
    def header(self) -> SessionHeader:
        """The first line of the transcript."""

    @property
    def tree(self) -> EntryTree:
        """The entries of all branches."""

    @property
    def views(self) -> BranchViews:
        """The views of this transcript, and values cached for its lifetime."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about repairs."""

    def transcript(self) -> tuple[TranscriptItem, ...]:
        """The branch as a model sees it."""

    def sent(self) -> SentView:
        """The messages for models, updated by this call; see `BranchViews`."""

    async def refresh(self) -> bool:
        """Reads the entries of other processes; returns whether there were any."""

    async def append(
        self, body: KnownBody, *, durable: bool = True, mirror: RecordChange | None = None
    ) -> Entry:
        """Appends an entry after the newest one; it is on disk on return.

        If it is not `durable`, it may be lost until a later durable entry. `mirror` is the change that the
        caller passes to `SessionRecords.mirror` next; a store may make it together with the entry.
        """

    async def append_custom(self, custom_type: str, data: Any, *, durable: bool = True) -> Entry:
        """Appends a program's own record."""

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Returns to an entry, or to the beginning; the abandoned branch stays."""

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        """Creates a transcript `name` from the branch to `leaf_id`, with the full results so far.

        Raises:
            ValueError: no entry has that id.
            SessionCorrupt: a transcript with that name exists.
        """


class EndedSessions(Protocol):
    """Ended sessions whose hooks have not run yet, oldest first."""

    async def put(self, ended: EndedSession) -> None:
        """Stores an ended session, or its new number of attempts."""

    async def remove(self, ended: EndedSession) -> None:
        """Removes an ended session, if it exists."""

    async def has(self, ended: EndedSession) -> bool:
        """Whether an ended session is still pending."""

    async def all(self) -> tuple[EndedSession, ...]:
        """The pending ended sessions."""


class SessionStore(Protocol):
    """Everything that is stored about one agent's sessions. Failures are `SessionError`s."""

    @property
    def index(self) -> SessionRecords:
        """The session records by key."""

    @property
    def ended_sessions(self) -> EndedSessions:
        """The ended sessions whose hooks have not run yet."""

    @property
    def place(self) -> str:
        """A description of its place for people."""

    def transcript_name(self, record: SessionRecord) -> str:
        """The name of a session's transcript, whether it exists or not.

        Raises:
            SessionCorrupt: the record names something that cannot be its transcript.
        """

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether a session has a transcript; called at each turn."""

    async def transcript(self, record: SessionRecord, *, first: KnownBody | None = None) -> Transcript:
        """The transcript of a session. If it is missing it is created, with the entry `first` if given."""

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        """The current sessions, and each key's earlier ones if `with_earlier`; latest activity first."""

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        """The last message of a person in each session, for at most `most` sessions that have one."""

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        """All transcripts by name; a later call reads only new lines."""

    async def exported(self, name: str) -> bytes:
        """A transcript as JSON lines in pi's session format; writes nothing.

        Raises:
            SessionNotFound: there is none with that name.
        """

    async def stored(self, session: StoredSession) -> StoredTranscript:
        """A session's transcript, read without any change to the store.

        Raises:
            SessionNotFound: it is missing.
        """

    async def delete(self, session: StoredSession) -> str:
        """Deletes a session and returns the new place of its transcript, if any. Needs its turn lock."""

    async def maintain(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        """Applies the limits, or with `dry_run` reports them. The `active_keys` have a running turn."""

    def fence(self, key: str) -> int | None:
        """A number that distinguishes this process's turn of a key from later ones.

        `None` if it has no turn, or if a running process cannot lose its turn lock.
        """

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        """The lock of a key's turns. Entering it never waits; it returns whether the lock is held."""

    async def close(self) -> None:
        """Finishes pending writes and releases open resources."""
