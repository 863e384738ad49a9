"""An index in a file. Opens it, replaces a damaged one, which is renamed, and examines it from outside.

Nothing is lost, because the Markdown files are the truth. Files of other programs and of newer versions of
Nacre are never changed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.errors import IndexDamaged, MemoryIndexError
from nacre.memory.contracts.store import IndexFacts, IndexPlace
from nacre.memory.stores.sqlite.connection import IndexLock, SqliteError, open_connection, quick_check
from nacre.memory.stores.sqlite.nearest import add_vector_functions
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, TOKENIZE, version_of
from nacre.memory.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from nacre.memory.contracts.settings import MemorySearchSettings, VectorStoreSettings

log = logging.getLogger(__name__)

CHECK_UP_TO_BYTES = 16 << 20
"""Indexes up to this size are checked completely when they are opened, larger ones in the background."""

_SIDE_FILES = ("-wal", "-shm")


def index_in_file(
    index_path: Path, settings: MemorySearchSettings, now: Callable[[], datetime]
) -> IndexPlace:
    """The place of an index in a file. Touches nothing yet."""
    return SqliteIndexPlace(index_path, settings.store.vector, now, owns_folder=not settings.store.path)


def examined_index(index_path: Path) -> IndexFacts | None:
    """The state of an index in a file, or `None` if there is none. Reads the whole file; call it on a thread.

    The file is not opened for writing, and nothing in it is repaired.
    """
    if not index_path.exists():
        return None
    facts = partial(IndexFacts, known_version=SCHEMA_VERSION)
    try:
        with closing(open_connection(index_path, read_only=True)) as connection:
            version = version_of(connection)
            if problem := quick_check(connection):
                return facts(version=version, damage=problem)
            rows = connection.execute("SELECT path FROM files WHERE source = 'memory' ORDER BY path")
            return facts(version=version, paths=tuple(str(path) for (path,) in rows))
    except (SqliteError, IndexDamaged) as error:
        return facts(damage=str(error))
    except MemoryIndexError as error:
        return facts(problem=str(error))


class SqliteIndexPlace:
    """The `IndexPlace` for SQLite; its methods are documented there.

    With `owns_folder`, the folder holds only the index and is kept private as well.
    """

    analysis = TOKENIZE

    def __init__(
        self, path: Path, settings: VectorStoreSettings, now: Callable[[], datetime], *, owns_folder: bool
    ) -> None:
        self._path, self.name = path, str(path)
        self._copied: TemporaryDirectory[str] | None = None
        self._owns_folder = owns_folder
        self._now = now
        self._prepare_vectors = partial(
            add_vector_functions, enabled=settings.enabled, extension_path=settings.extension_path
        )

    async def open(self) -> SqliteStore:
        if self._copied is None and self._path.exists() and not os.access(self._path.parent, os.W_OK):
            self._path = await asyncio.to_thread(self._copy)
        await asyncio.to_thread(keep_private, self._path, folder_too=self._owns_folder)
        try:
            return await self._open_checked(up_to_bytes=CHECK_UP_TO_BYTES)
        except IndexDamaged:
            return await self.replace_damaged()

    async def replace_damaged(self) -> SqliteStore:
        try:
            return await self._open_checked(up_to_bytes=None)
        except IndexDamaged as error:
            await asyncio.to_thread(_set_aside_if_damaged, self._path, self._now(), str(error))
            return await self._open()

    async def close(self) -> None:
        if self._copied is not None:
            self._copied.cleanup()

    def _copy(self) -> Path:
        """Copies an index that cannot be written, so that it can be searched and follows the notes."""
        from shutil import copyfile
        from tempfile import TemporaryDirectory

        self._copied = TemporaryDirectory(prefix="nacre-index-")
        path = Path(self._copied.name, self._path.name)
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                copyfile(f"{self.name}{suffix}", f"{path}{suffix}")
        return path

    def quarantined(self) -> tuple[str, ...]:
        names = (found.name for found in self._path.parent.glob(f"{self._path.name}.corrupt-*"))
        return tuple(sorted(name for name in names if not name.endswith(_SIDE_FILES)))

    async def _open_checked(self, *, up_to_bytes: int | None) -> SqliteStore:
        store = await self._open()
        try:
            size_bytes = await asyncio.to_thread(os.path.getsize, self._path)
            if (up_to_bytes is None or size_bytes <= up_to_bytes) and (problem := await store.check()):
                raise IndexDamaged(f"The memory index {self._path} is damaged ({problem}).")
        except BaseException:
            await store.close()
            raise
        return store

    async def _open(self) -> SqliteStore:
        return await SqliteStore.open(self._path, self._prepare_vectors)


def _set_aside_if_damaged(path: Path, at: datetime, problem: str) -> None:
    with IndexLock(path).held():
        # Another process may have made a new index while this one waited for the lock.
        if path.exists() and _is_sound(path):
            return
        aside = set_aside(path, at)
    log.warning("%s It was set aside as %s and is built again.", problem, aside.name)


def _is_sound(path: Path) -> bool:
    try:
        with closing(open_connection(path, inspect=version_of)) as connection:
            return not quick_check(connection)
    except IndexDamaged:
        return False


def keep_private(path: Path, *, folder_too: bool) -> None:
    """Removes the access of others to an index, the files beside it, and damaged ones that were renamed.

    Older versions or other programs may have made it readable for everybody. Failures are ignored, because
    some file systems have no modes.
    """
    beside = (f"{path.name}.", f"{path.name}-")
    ours = [path, path.parent] if folder_too else [path]
    with suppress(OSError):
        ours += [found for found in path.parent.iterdir() if found.name.startswith(beside)]
    for found in ours:
        with suppress(OSError):
            info = found.lstat()
            if not stat.S_ISLNK(info.st_mode) and info.st_mode & 0o077:
                found.chmod(info.st_mode & 0o700)


def set_aside(path: Path, at: datetime) -> Path:
    """Renames a damaged index and its side files to `<name>.corrupt-<time>` and returns the new path."""
    stamp = at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    # The side files come first: a new database must never meet an old write-ahead log.
    for suffix in _SIDE_FILES:
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.rename(aside.with_name(aside.name + suffix))
    if path.exists():
        path.rename(aside)
    return aside
