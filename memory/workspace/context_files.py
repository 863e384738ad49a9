"""The files that stand in the context of every request, read again only when they may have changed.

A turn asks for all of them. What was read is remembered with the file's stat values, so that a look at
files that nobody touched opens none of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nacre.memory.workspace.files import RACY_NS
from nacre.memory.workspace.workspace import MIN_USEFUL_CHARS, ContextFile, context_file, present_name

log = logging.getLogger(__name__)

FileFacts: TypeAlias = tuple[int, ...] | None
"""Device, inode, size, and the times in nanoseconds at which content and entry changed; `None`: no file."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    file: ContextFile
    name: str
    max_chars: int
    facts: FileFacts
    looked_at_ns: int

    def is_settled(self) -> bool:
        """Whether the same stat values will mean the same content; a failure to read may pass by itself."""
        if self.facts is None or self.file.missing:
            return self.facts is None
        *_, modified_ns, entry_changed_ns = self.facts
        return max(modified_ns, entry_changed_ns) < self.looked_at_ns - RACY_NS


class ContextFiles:
    """The context files of one workspace. `now_ns` is the time in nanoseconds since the epoch.

    A change is seen at the next reading, also one of the same size in the same second. Where the clock is
    behind that of the file system, files are read each time.
    """

    def __init__(self, root: Path, *, now_ns: Callable[[], int]) -> None:
        self._root = root
        self._now_ns = now_ns
        self._known: dict[str, _Known] = {}

    async def read(
        self, names: Sequence[str], *, per_file_chars: int = 20_000, total_chars: int = 60_000
    ) -> tuple[ContextFile, ...]:
        """The files in the order of their names, which is the order in which the total is spent.

        A file that the total no longer reaches comes back with an empty text, marked as truncated. One that
        did not change is the same object as before.
        """
        return await asyncio.to_thread(self._read, names, per_file_chars, total_chars)

    def _read(self, names: Sequence[str], per_file_chars: int, total_chars: int) -> tuple[ContextFile, ...]:
        read: list[ContextFile] = []
        left_chars = total_chars
        for name in names:
            max_chars = min(per_file_chars, left_chars) if left_chars >= MIN_USEFUL_CHARS else 0
            file = self._file(name, max_chars)
            left_chars -= file.injected_chars
            read.append(file)
        return tuple(read)

    def _file(self, name: str, max_chars: int) -> ContextFile:
        # Before the file is looked at: what changes from here on is later than this.
        looked_at_ns = self._now_ns()
        present, facts = self._look(name)
        known = self._known.get(name)
        is_same = known and (known.name, known.max_chars, known.facts) == (present, max_chars, facts)
        if known is not None and is_same and known.is_settled():
            return known.file
        file = context_file(self._root, present, max_chars=max_chars)
        if known is not None and known.file == file:
            file = known.file
        elif file.truncated:
            log.warning("%s is %d characters long, %d enter the context", name, file.raw_chars, max_chars)
        self._known[name] = _Known(
            file=file, name=present, max_chars=max_chars, facts=facts, looked_at_ns=looked_at_ns
        )
        return file

    def _look(self, name: str) -> tuple[str, FileFacts]:
        """The name under which a file is there, and its stat values; a link is looked at, not followed."""
        facts = _facts(self._root / name)
        if facts is not None:
            return name, facts
        present = present_name(self._root, name)
        return present, None if present == name else _facts(self._root / present)


def _facts(path: Path) -> FileFacts:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
