"""What can go wrong in the memory index, split by who has to react.

    MemoryIndexError
    ├── IndexUnusable        the owner: the index file cannot be opened, created or written
    │   └── IndexDamaged     the engine: sets the file aside and builds it again
    ├── IndexBusy            the caller: another process held the write lock for too long
    ├── IndexClosed          the caller: the engine was closed
    ├── ReadRefused          the model: this path is not memory; the text says what may be read
    └── SyncFailed           the caller: the workspace could not be indexed at all

A single broken file is never an error: it is listed in `SyncReport.failed`. Nothing here is called
`MemoryError`, because Python owns that name.
"""

from __future__ import annotations


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


class SyncFailed(MemoryIndexError):
    """A sync could not run to its end; what it had finished is kept."""
