"""Facts and notes about identities: the values, and the interface behind `agent.memory`.

The names `identity_facts` and `memory_chunks` are those of the seeds' two tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, TypeAlias

from nacre.memory.contracts.records import Day
from nacre.record import Record

JsonValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""A JSON value."""

USUAL_CHUNKS = 6


class Fact(Record):
    """`key` has `value` since the aware time `at`, as `source` says; or the fact was forgotten.

    A forgotten fact has the value `None` and is never among the known ones.
    """

    identity: str
    key: str
    value: JsonValue
    source: str
    at: datetime
    is_forgotten: bool = False


class Note(Record):
    """A note about an identity. `id` is unique among all identities, such as `anna/k3f9a2`.

    `number` is unique on the page of the identity and grows with time.
    """

    identity: str
    id: str
    number: int
    text: str
    source: str
    at: datetime


class MemoryChunk(Record):
    """A recalled note with its score for the query, 0 to 1."""

    note: Note
    score: float


class Known(Record):
    """What a page says at one moment: the known facts, all facts ever known in the order of time, the notes,
    and sentences about unreadable lines."""

    facts: tuple[Fact, ...] = ()
    history: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()
    problems: tuple[str, ...] = ()


class Recalled(Record):
    """The known facts and the notes that fit a query; those of one identity are of one moment.

    `problems` are sentences about unreadable lines; `degraded` says why notes were searched by words only.
    """

    identity_facts: tuple[Fact, ...]
    memory_chunks: tuple[MemoryChunk, ...]
    problems: tuple[str, ...] = ()
    degraded: str = ""


class FactMemory(ABC):
    """The facts and notes about the identities of one agent.

    The holder of this object may do everything. Every method that takes an identity raises `FactRefused` for
    an invalid one, and the errors of the workspace: `OSError`, and `FileBusy` while another process holds the
    page.
    """

    @abstractmethod
    async def set_fact(
        self, identity: str, key: str, value: object, *, source: str = "", at: datetime | None = None
    ) -> Fact:
        """Records that `key` has the JSON value `value` since `at`, by default now, and returns the fact.

        The old value stays in the history. The same value again changes nothing.

        Raises:
            FactRefused: the key or the value cannot be kept, or `at` is in the future.
        """

    @abstractmethod
    async def forget_fact(self, identity: str, key: str, *, source: str = "") -> bool:
        """Records that a fact is no longer known; whether it was known. The history keeps it."""

    @abstractmethod
    async def note(self, identity: str, text: str, *, source: str = "", at: datetime | None = None) -> str:
        """Keeps a text and returns the id under which `recall` returns it. Equal texts are kept once.

        Raises:
            FactRefused: the text is empty or too long, or `at` is in the future.
        """

    @abstractmethod
    async def forget_note(self, chunk_id: str) -> bool:
        """Deletes a note by its id; whether it was there."""

    @abstractmethod
    async def known(self, identity: str, *, as_of: Day | None = None) -> Known:
        """Everything on the page of one identity, now or at the end of the day `as_of`."""

    @abstractmethod
    async def history(self, identity: str, key: str = "") -> tuple[Fact, ...]:
        """All facts that were ever known, or those of one key, in the order of time."""

    @abstractmethod
    async def recall(
        self,
        identity: str,
        query: str,
        *,
        k: int = USUAL_CHUNKS,
        as_of: Day | None = None,
        min_score: float = 0.0,
        alone: bool = False,
    ) -> Recalled:
        """The facts about an identity and those that it may see, and the `k` notes that fit `query` best.

        With `as_of`, what was known at the end of that day. `alone` ignores the rules of sharing. All facts
        and notes of one identity are of the same moment.

        Raises:
            DayUnknown: `as_of` is not a day.
        """

    @abstractmethod
    async def sync(self) -> None:
        """Waits until all notes can be found, by meaning too."""

    @abstractmethod
    async def close(self) -> None:
        """Stops the background work and closes the index. Everything is on disk already."""
