"""A write that waits for the owner: what it would do to a note, and why it was not done. Values only."""

from __future__ import annotations

from typing import Protocol

from nacre.memory.files.sources.source import PRIVATE, Source, Writer
from nacre.records.record import Record

_REVIEWED: frozenset[Writer] = frozenset({"flush", "hook"})


class ProposedWrite(Record):
    """What would be written into the note `path`.

    With `is_append`, `text` is Markdown that would be added as `Workspace.append` does it with the fields
    that follow. Else it would be the whole note in the place of `before`, and `None` is no note. Bytes that
    are no text stand as surrogates. `source` is where it comes from.
    """

    path: str
    text: str | None
    source: Source
    before: str | None = None
    is_append: bool = False
    skip_repeats: bool = True
    heading: str = ""
    below: str = ""


class WaitsForReview(OSError):
    """A write that was not done and is not lost: it waits for the owner. `text` is what waits."""

    def __init__(self, path: str, proposal_id: str, text: str) -> None:
        super().__init__(
            f"Nothing was written into {path}: memory.writes has this wait for the owner, who sees it as "
            f"proposal {proposal_id}. There is no need to write it again."
        )
        self.path, self.proposal_id, self.text = path, proposal_id, text


class Reviewing(Protocol):
    """Keeps what waits."""

    async def propose(self, write: ProposedWrite) -> str:
        """Keeps a write, on disk when it returns; its id. One that waits already is not kept twice.

        Raises:
            OSError, FileBusy: it cannot be kept.
        """
        ...


def is_reviewed(source: Source) -> bool:
    """Whether what comes from there waits: what a flush or a hook writes, and all that comes of a group."""
    return source.written_by in _REVIEWED or source.audience != PRIVATE
