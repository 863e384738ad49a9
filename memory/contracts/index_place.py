"""Where an index is kept: what opens a store, and what is done about a damaged one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nacre.memory.contracts.store import Store
from nacre.record import Record

FRESHNESS_WAIT_SECONDS = 2.0
"""What a search that a model or a person waits for grants a note that was written a moment ago: they need
longer than that themselves."""


class IndexFacts(Record):
    """How an index is, looked at from outside.

    `version` is that of what is there, 0 when it cannot be told, `known_version` what this program writes.
    `damage` says what is broken and can be built again from the notes, `problem` what else keeps it from
    being used. `paths` are the notes that it holds.
    """

    known_version: int
    version: int = 0
    damage: str = ""
    problem: str = ""
    paths: tuple[str, ...] = ()


class IndexPlace(Protocol):
    """Where an index is kept. What is damaged there is set aside, since the notes are the truth."""

    @property
    def name(self) -> str:
        """The place as its owner knows it, without a password."""

    @property
    def analysis(self) -> str:
        """How words are cut, folded and stemmed there; when it changes, they are made again."""

    async def open(self) -> Store:
        """The index, or a fresh one in the place of a damaged one.

        Raises:
            IndexUnusable: the index cannot be opened for another reason than damage.
            IndexBusy: another process kept the index locked.
        """

    async def replace_damaged(self) -> Store:
        """A fresh index in the place of a damaged one, or the sound one that another process put there.

        Raises:
            IndexUnusable, IndexBusy: as `open`.
        """

    async def close(self) -> None:
        """Lets go of what the stores shared, after the last of them was closed."""

    def quarantined(self) -> Sequence[str]:
        """The names of damaged predecessors, oldest first."""
