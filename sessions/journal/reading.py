"""Reads a transcript without touching it: a copy is opened, and repaired if it needs to be. Edge.

So a look at a session writes nothing beside it, holds no lock on it, and works where nothing may be
written; and what is shown is exactly what opening the session for a turn would give.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import aiofiles

from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.disk.durable import copy_plain, open_plain
from nacre.sessions.disk.reported import reported
from nacre.sessions.entries.stored_transcript import StoredTranscript
from nacre.sessions.journal.journal import Journal


async def read_transcript(path: Path, *, session_id: str, now: Callable[[], datetime]) -> StoredTranscript:
    """Reads the transcript of a session.

    Raises:
        SessionNotFound: there is no such file.
        SessionCorrupt, SessionVersionUnknown, SessionWriteFailed: as `Journal.open`.
    """
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / path.name
        try:
            await asyncio.to_thread(copy_plain, path, copy)
        except FileNotFoundError:
            raise _gone(path, session_id) from None
        journal = await Journal.open(
            copy, session_id=session_id, cwd=path.parent, now=now, new_id=lambda: session_id
        )
        return StoredTranscript(
            header=journal.header,
            entries=tuple(journal.tree.entries),
            branch=tuple(journal.branch()),
        )


async def transcript_bytes(path: Path, *, session_id: str) -> bytes:
    """The transcript of a session as its file has it, with whatever is torn or cannot be read.

    Raises:
        SessionNotFound: there is no such file.
        SessionCorrupt, SessionWriteFailed: it is no plain file, or the system refused.
    """
    with reported("read", path), suppress(FileNotFoundError):
        async with aiofiles.open(path, "rb", opener=_open_plain) as file:
            return await file.read()
    raise _gone(path, session_id)


def _open_plain(path: str, flags: int) -> int:
    return open_plain(Path(path), flags)


def _gone(path: Path, session_id: str) -> SessionNotFound:
    return SessionNotFound(f"The transcript {path} of the session {session_id!r} is gone.")
