"""What the runtime needs of whatever keeps the sessions of an agent. A contract.

A store is of one agent: a member that keeps several in one place puts the agent before each key. Nothing
here is a path: `name` and `transcript_name` are what a store calls a transcript, `place` is text for people.
What a call returns from outlives the process; the suite in `tests/sessions/stores/store_contract.py` says
what else holds. `files.py` is the first member.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import WholeResults
from nacre.sessions.entries.entries import Entry, EntryTree, KnownBody, SessionHeader, StoredTranscript
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts
from nacre.sessions.view.sent_view import SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")
LastWords: TypeAlias = tuple[StoredSession, str]
"""A session, and what a person said last in it."""


class SessionLines(Protocol):
    """Which session a key names now. Any number of processes may change it; no change is lost."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what could not be read or was rebuilt."""

    async def get(self, key: str) -> SessionRecord | None:
        """The line of a key, with every change that any process was told is made."""

    async def all(self) -> dict[str, SessionRecord]:
        """All lines by key."""

    async def found_again(self, key: str) -> SessionRecord | None:
        """The line of a key that has none, or one that leads to no transcript, from whatever else is known.

        Without anything better it is what it was; a key without a line stays without.
        """

    async def update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        """Replaces a line by what `change` makes of the present one; `None` is no line. Gives the new one."""

    async def mirror(
        self, key: str, change: Callable[[SessionRecord], SessionRecord]
    ) -> SessionRecord | None:
        """Replaces a line, if there is one, by what `change` makes of it; gives the new one.

        For what the transcript tells as well: a crash of the machine may take the last seconds of it.
        `change` may be called more than once.
        """

    async def edit(
        self, change: Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]
    ) -> Mapping[str, SessionRecord | None]:
        """Replaces several lines at once, or none; gives what `change` gave."""


class Transcript(Protocol):
    """What was said in one session: entries that are added and never changed."""

    @property
    def name(self) -> str:
        """What its store calls it; a line's `session_file` and an ending's `transcript` may say so."""

    @property
    def place(self) -> str:
        """Where it lies, for people."""

    @property
    def size_bytes(self) -> int:
        """How long it is as JSON lines, as far as it was read."""

    @property
    def results(self) -> WholeResults:
        """Its tool results that are kept whole."""

    @property
    def header(self) -> SessionHeader:
        """Which session it is."""

    @property
    def tree(self) -> EntryTree:
        """All entries."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what was repaired."""

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """The entries from the root to the newest, or to `leaf_id`; `ValueError` if that is none."""

    def transcript(self) -> tuple[TranscriptItem, ...]:
        """What a model is to see of the branch."""

    def sent(self) -> SentView:
        """What models are sent of that, brought up to the branch by this call; see `BranchViews`."""

    def kept(self, make: Callable[[], T]) -> T:
        """What `make` made for this object when it was first asked for."""

    async def refresh(self) -> bool:
        """Reads what others added; whether there was anything."""

    async def append(self, body: KnownBody) -> Entry:
        """Adds an entry behind the newest; the disk has it when this returns."""

    async def append_custom(self, custom_type: str, data: Any) -> Entry:
        """Adds a program's own record."""

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Goes back to an entry, or to the beginning; what is left behind stays."""

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        """Makes a transcript `name` of the branch to `leaf_id`, with the whole results that there are.

        Raises:
            ValueError: there is no entry of that id.
            SessionCorrupt: there is a transcript of that name already.
        """


class Endings(Protocol):
    """Sessions that are over with something still to do, the oldest first."""

    async def put(self, ended: EndedSession) -> None:
        """Notes one, or its new number of attempts."""

    async def remove(self, ended: EndedSession) -> None:
        """Strikes one off; it may be gone already."""

    async def has(self, ended: EndedSession) -> bool:
        """Whether one is still due."""

    async def all(self) -> tuple[EndedSession, ...]:
        """Those that are due."""


class SessionStore(Protocol):
    """All that is kept of one agent's sessions. Failures are `SessionError`s."""

    @property
    def index(self) -> SessionLines:
        """Which session a key names."""

    @property
    def endings(self) -> Endings:
        """What is due for sessions that are over."""

    @property
    def place(self) -> str:
        """Where it lies, for people."""

    def transcript_name(self, record: SessionRecord) -> str:
        """What the transcript of a line's session is called, whether there is one or not.

        Raises:
            SessionCorrupt: the line names something that cannot be its transcript.
        """

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether anything was kept of a line's session; asked at each turn."""

    async def transcript(self, record: SessionRecord) -> Transcript:
        """The transcript of a line's session; begun when there is none."""

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        """What keys name, and `with_earlier` what they named before; the latest active first."""

    async def last_words(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastWords]:
        """What a person said last in each session; those in which nobody spoke are left out.

        The first `most` of them.
        """

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        """All transcripts by name; a later look costs what grew since."""

    async def exported(self, name: str) -> bytes:
        """A transcript as JSON lines, pi's session format; nothing is written.

        Raises:
            SessionNotFound: there is none of that name.
        """

    async def stored(self, session: StoredSession) -> StoredTranscript:
        """What a session's transcript says, read without a trace in the store.

        Raises:
            SessionNotFound: it is gone.
        """

    async def delete(self, session: StoredSession) -> str:
        """Takes a session away, for the holder of its lane; where its transcript is now, empty if nowhere."""

    async def keep_up(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        """Keeps all within limits, or says what that would take. `active_keys` have a turn meanwhile."""

    def fence(self, key: str) -> int | None:
        """The number by which others know this process's turn of a key from later ones.

        `None` where it has none, or where nobody can have the lane of a process that lives.
        """

    def lane(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""

    async def close(self) -> None:
        """Finishes what is written behind, and lets go of what is open."""
