"""The errors of the memory index; `docs/engineering/errors.md` says who handles which.

A single broken file is not an error but listed in `SyncReport.failed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class MemoryIndexError(Exception):
    """Any failure that the memory engine reports."""


class IndexUnusable(MemoryIndexError):
    """The index could not be opened, created or replaced."""


class IndexDamaged(IndexUnusable):
    """The index is damaged. Nothing is lost, because the Markdown files are the truth."""


class IndexBusy(MemoryIndexError):
    """Another process held the write lock of the index for too long."""


class IndexClosed(MemoryIndexError):
    """The engine was used after `close()`."""


class ReadRefused(MemoryIndexError):
    """`memory_get` may not show the path."""


class FactRefused(MemoryIndexError):
    """A fact, a note or the name of an identity cannot be stored."""


class DayUnknown(MemoryIndexError):
    """The limit of a search does not name a day."""


@contextmanager
def readable_errors(index: Path) -> Iterator[None]:
    """Turns an `OSError` about an index's files into `IndexUnusable`."""
    try:
        yield
    except OSError as error:
        raise unusable(index, error) from error


def unusable(index: Path, error: OSError) -> IndexUnusable:
    return IndexUnusable(
        f"The memory index {index} cannot be used: {error}. "
        "Check its folder, the folder's permissions and the free space."
    )
