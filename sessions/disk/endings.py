"""Sessions that are over with something still to do: a small file for each. A contract: bytes on disk.

A session's ending is written down before its key names another session, and struck off when notes and
hooks are done. Whatever dies in between, the next start finds it here.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.sessions.contracts.endings import END_REASONS, EndedSession
from nacre.sessions.disk.durable import read_plain, replace_file, set_aside
from nacre.sessions.disk.reported import make_folder, reported
from nacre.sessions.disk.worker import OrderedWorker

log = logging.getLogger(__name__)


class EndingFolder:
    """The endings of one agent that are not finished. Several processes may share the folder."""

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._now = now
        self._worker = OrderedWorker()

    async def put(self, ended: EndedSession) -> None:
        """Writes an ending down, or its new number of attempts; on disk, or raises `SessionWriteFailed`."""
        await self._worker.run(lambda: self._put(ended))

    async def remove(self, ended: EndedSession) -> None:
        """Strikes an ending off; it may be gone already. Raises `SessionWriteFailed` as `put` does."""
        await self._worker.run(lambda: self._remove(self._directory / file_name(ended)))

    async def has(self, ended: EndedSession) -> bool:
        """Whether an ending is still due: another process may have finished it."""
        return await self._worker.run((self._directory / file_name(ended)).is_file)

    async def all(self) -> tuple[EndedSession, ...]:
        """The endings that are due, the oldest first. A file that cannot be read is set aside.

        Raises:
            SessionError: the system refused.
        """
        return await self._worker.run(self._all)

    def _put(self, ended: EndedSession) -> None:
        make_folder(self._directory)
        replace_file(self._directory / file_name(ended), json.dumps(ending_to_json(ended), indent=2).encode())

    def _remove(self, path: Path) -> None:
        with reported("remove", path):
            path.unlink(missing_ok=True)

    def _all(self) -> tuple[EndedSession, ...]:
        if not self._directory.is_dir():
            return ()
        with reported("list", self._directory):
            paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
        return tuple(ended for path in paths if (ended := self._read(path)) is not None)

    def _read(self, path: Path) -> EndedSession | None:
        found = read_plain(path)
        if found is None:
            return None
        ended = ending_from_json(found[0])
        if ended is None:
            aside = set_aside(path, found[0], now=self._now)
            self._remove(path)
            log.warning("%s tells no session's ending and was set aside as %s", path.name, aside.name)
        return ended


def file_name(ended: EndedSession) -> str:
    """The name of an ending's file: the same for the same ending, another for each."""
    safe = re.sub(r"[^\w-]", "_", ended.session_id)[:100]
    return f"{ended.ended_at_ms:013d}-{safe}.json"


_STORED: Mapping[str, tuple[str, type]] = {
    "key": ("key", str),
    "session_id": ("sessionId", str),
    "transcript": ("transcript", str),
    "reason": ("reason", str),
    "ended_at_ms": ("endedAt", int),
    "channel": ("channel", str),
    "attempts": ("attempts", int),
}
"""Each field's name and kind in the file, in its order."""


def ending_to_json(ended: EndedSession) -> dict[str, Any]:
    """An ending as it is stored."""
    return {"version": 1, **{stored: getattr(ended, name) for name, (stored, _) in _STORED.items()}}


def ending_from_json(data: bytes) -> EndedSession | None:
    """A stored ending; `None` when the bytes are none, or another version's."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != 1:
        return None
    if not all(type(raw.get(stored)) is kind for stored, kind in _STORED.values()):
        return None
    if raw["reason"] not in END_REASONS or not raw["sessionId"] or "/" in raw["transcript"]:
        return None
    return EndedSession(**{name: raw[stored] for name, (stored, _) in _STORED.items()})
