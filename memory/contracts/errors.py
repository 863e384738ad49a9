"""What can go wrong in the memory index. `docs/errors.md` draws the tree and says who reacts to what.

A single broken file is never an error: it is listed in `SyncReport.failed`. Nothing here is called
`MemoryError`, because Python owns that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class MemoryIndexError(Exception):
    """Any failure that the memory engine reports to its caller."""


class IndexUnusable(MemoryIndexError):
    """The index file could not be opened or created, and could not be replaced by a fresh one."""


class IndexDamaged(IndexUnusable):
    """The index file's content is broken. Nothing is lost by it: the Markdown files are the truth."""


class IndexBusy(MemoryIndexError):
    """Another process kept the index's write lock for longer than a writer waits."""


class IndexClosed(MemoryIndexError):
    """The engine was used after `close()`."""


class ReadRefused(MemoryIndexError):
    """The asked path is outside of what `memory_get` may show."""


class FactRefused(MemoryIndexError):
    """A fact, a note or the name of an identity cannot be kept as it was handed in."""


class DayUnknown(MemoryIndexError):
    """What a search is to be limited to names no day."""


@contextmanager
def refusals_told(index: Path) -> Iterator[None]:
    """What the file system refuses about an index's files becomes a sentence.

    Raises:
        IndexUnusable: in the place of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise unusable(index, error) from error


def unusable(index: Path, error: OSError) -> IndexUnusable:
    """The sentence for a file system that will not have an index's files."""
    return IndexUnusable(
        f"The memory index {index} cannot be used: {error}. "
        "Check its folder, the folder's permissions and the free space."
    )
