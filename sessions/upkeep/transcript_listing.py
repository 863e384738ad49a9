"""The transcripts of a folder with how many lines each has. Edge: lists and reads, writes nothing.

Of a file that grew only the growth is read, of one that did not, nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import open_plain
from nacre.sessions.disk.reported import reported
from nacre.sessions.upkeep.stored_session import TranscriptFacts

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Counted:
    """How many lines a file had when it was `size_bytes` long."""

    identity: tuple[int, int]
    size_bytes: int
    lines: int


class TranscriptListing:
    """What one folder's transcripts are. For one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._counted: dict[str, _Counted] = {}

    def listed(self) -> list[TranscriptFacts]:
        """All transcripts by name. Raises `SessionWriteFailed` when the folder cannot be read."""
        with reported("list", self._directory):
            found = [self._facts(name, stat) for name, stat in self._files()]
        self._counted = {each.name: self._counted[each.name] for each in found if each.name in self._counted}
        return found

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self._directory) as entries:
                files = [entry for entry in entries if _is_transcript(entry)]
        except FileNotFoundError:
            return
        for entry in sorted(files, key=lambda entry: entry.name):
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue

    def _facts(self, name: str, stat: os.stat_result) -> TranscriptFacts:
        return TranscriptFacts(
            name=name, size_bytes=stat.st_size, lines=self._lines(name, stat), modified_ns=stat.st_mtime_ns
        )

    def _lines(self, name: str, stat: os.stat_result) -> int:
        """The lines of a file, read from where the last count ended; the last count if it cannot be read."""
        identity = (stat.st_dev, stat.st_ino)
        known = self._counted.get(name)
        if known is None or known.identity != identity or known.size_bytes > stat.st_size:
            known = _Counted(identity, 0, 0)
        if known.size_bytes < stat.st_size:
            try:
                new = _line_feeds(self._directory / name, known.size_bytes, stat.st_size)
            except (OSError, SessionError) as error:
                log.warning("the lines of the transcript %s cannot be counted: %s", name, error)
                return known.lines
            known = _Counted(identity, stat.st_size, known.lines + new)
        self._counted[name] = known
        return known.lines


def _is_transcript(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".jsonl") and entry.name[0] != "." and entry.is_file(follow_symlinks=False)


def _line_feeds(path: Path, start: int, end: int) -> int:
    descriptor = open_plain(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        count, left = 0, end - start
        while left > 0 and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
            count += block.count(b"\n")
            left -= len(block)
        return count
    finally:
        os.close(descriptor)
