"""The agent's own transcripts as a source of memory search. Edge: lists and reads, writes nothing.

All sessions of this agent are handed in, the groups' too: only the owner's private chats have memory
tools, so nothing of this reaches anybody else. Listing is cheap: of a file that grew only the growth is
read, of one that did not, nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptText
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.transcript_lines import transcript_text
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError
from nacre.sessions.disk.durable import open_plain, read_plain
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord

log = logging.getLogger(__name__)

IDLE_SECONDS = 3_600.0
"""A session in which nobody spoke for so long counts as over until somebody does."""

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Counted:
    """How many lines a file had when it was `size_bytes` long."""

    identity: tuple[int, int]
    size_bytes: int
    lines: int


class SessionTranscripts:
    """A `TranscriptSource` over one agent's folder of sessions."""

    def __init__(
        self, directory: Path, index: SessionIndex, *, agent_id: str, main_key: str, now: Clock
    ) -> None:
        self._directory = directory
        self._index = index
        self._agent_id = agent_id
        self._main_key = main_key
        self._now = now
        self._counted: dict[str, _Counted] = {}
        self._keys: Mapping[str, str] = {}

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All transcripts, the one that a key names now as going on, others as ended.

        Raises:
            OSError: the folder or its index cannot be read.
        """
        try:
            records = await self._index.all()
        except SessionError as error:
            raise OSError(str(error)) from error
        self._keys = self._names(records)
        current = {name for record in records.values() if (name := self._name(record))}
        return await asyncio.to_thread(self._listed, current)

    async def text(self, name: str) -> TranscriptText | None:
        """What a transcript says; `None` when it is gone or cannot be read now."""
        return await asyncio.to_thread(self._text, name)

    def _listed(self, current: set[str]) -> list[TranscriptInfo]:
        try:
            with os.scandir(self._directory) as entries:
                files = [entry for entry in entries if _is_transcript(entry)]
        except FileNotFoundError:
            return []
        idle_before_ns = int((self._now().timestamp() - IDLE_SECONDS) * 1e9)
        infos = []
        for entry in sorted(files, key=lambda entry: entry.name):
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            infos.append(
                TranscriptInfo(
                    name=entry.name,
                    size_bytes=facts.st_size,
                    messages=self._lines(entry.name, facts),
                    modified_ns=facts.st_mtime_ns,
                    ended=entry.name not in current or facts.st_mtime_ns < idle_before_ns,
                )
            )
        self._counted = {info.name: self._counted[info.name] for info in infos if info.name in self._counted}
        return infos

    def _lines(self, name: str, facts: os.stat_result) -> int:
        """The lines of a file, read from where the last count ended; the last count if it cannot be read."""
        identity = (facts.st_dev, facts.st_ino)
        known = self._counted.get(name)
        if known is None or known.identity != identity or known.size_bytes > facts.st_size:
            known = _Counted(identity, 0, 0)
        if known.size_bytes < facts.st_size:
            try:
                new = _line_feeds(self._directory / name, known.size_bytes, facts.st_size)
            except (OSError, SessionError) as error:
                log.warning("the lines of the transcript %s cannot be counted: %s", name, error)
                return known.lines
            known = _Counted(identity, facts.st_size, known.lines + new)
        self._counted[name] = known
        return known.lines

    def _text(self, name: str) -> TranscriptText | None:
        try:
            found = read_plain(self._directory / name)
        except SessionError as error:
            log.warning("the transcript %s cannot be read and stays as it was indexed: %s", name, error)
            return None
        if found is None:
            return None
        return transcript_text(
            found[0],
            key=self._keys.get(name, ""),
            agent_id=self._agent_id,
            main_key=self._main_key,
            zone=self._now().tzinfo or UTC,
        )

    def _names(self, records: Mapping[str, SessionRecord]) -> dict[str, str]:
        """The key of each file that the index knows, of earlier sessions too."""
        keys = {f"{old}.jsonl": key for key, record in records.items() for old in record.previous_session_ids}
        return keys | {name: key for key, record in records.items() if (name := self._name(record))}

    def _name(self, record: SessionRecord) -> str:
        try:
            return self._index.transcript_path(record).name
        except SessionCorrupt:
            return ""


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
