"""What the runtime needs of whatever keeps the sessions of an agent. A contract.

A store is of one agent: a member that keeps several in one place puts the agent before each key. Nothing
here names a file. What a call returns from outlives the process; the suite in
`tests/sessions/stores/store_contract.py` says what else holds. `files.py` is the first member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from nacre.sessions.disk.endings import EndedSession
from nacre.sessions.entries.entries import Entry, KnownBody, SessionHeader
from nacre.sessions.entries.tree import EntryTree
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.view.transcript import TranscriptItem


class SessionLines(Protocol):
    """Which session a key names now. Any number of processes may change it; no change is lost."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what could not be read or was rebuilt."""

    async def get(self, key: str) -> SessionRecord | None:
        """The line of a key, with every change that any process was told is made."""

    async def all(self) -> dict[str, SessionRecord]:
        """All lines by key."""

    async def update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        """Replaces a line by what `change` makes of the present one; `None` is no line. Gives the new one."""

    async def edit(
        self, change: Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]
    ) -> Mapping[str, SessionRecord | None]:
        """Replaces several lines at once, or none; gives what `change` gave."""


class Transcript(Protocol):
    """What was said in one session: entries that are added and never changed."""

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

    async def refresh(self) -> bool:
        """Reads what others added; whether there was anything."""

    async def append(self, body: KnownBody) -> Entry:
        """Adds an entry behind the newest; the disk has it when this returns."""

    async def append_custom(self, custom_type: str, data: Any) -> Entry:
        """Adds a program's own record."""

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Goes back to an entry, or to the beginning; what is left behind stays."""


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

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether anything was kept of a line's session."""

    async def transcript(self, record: SessionRecord) -> Transcript:
        """The transcript of a line's session; begun when there is none."""

    def lane(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""

    async def close(self) -> None:
        """Finishes what is written behind, and lets go of what is open."""
