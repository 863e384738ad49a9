"""Which chats are looked through after a pause: those in which the bot has to do with somebody.

A bot cannot ask Discord for its private chats, so they are written down: the first line is the moment of the
first start as a snowflake, each further one a chat. Lines are only ever added, and synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nacre.extensions.discord.snowflakes import snowflake_at
from nacre.runtime.contracts.clock import Clock, epoch_ms

MOST_CHATS = 500
"""So many are looked through: those that were written down last."""
_FILE = "known-chats"


class KnownChats:
    """The file of an account. `since`: nothing older is ever looked for."""

    def __init__(self, path: Path, since: int, chats: tuple[str, ...]) -> None:
        self.since = since
        self._path = path
        self._chats = dict.fromkeys(chats)

    @classmethod
    def load(cls, folder: Path, now: Clock) -> KnownChats:
        """Reads the file, or makes it. Raises `OSError`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / _FILE
        lines = path.read_text("ascii", "replace").split("\n") if path.exists() else []
        whole = [line for line in lines[:-1] if line.isascii() and line.isdecimal()]
        if not whole:
            whole = [str(snowflake_at(epoch_ms(now())))]
            _append(path, whole[0])
        elif lines[-1]:
            _append(path, "")  # a line that a kill tore ends here
        return cls(path, int(whole[0]), tuple(whole[1:]))

    @property
    def newest(self) -> tuple[str, ...]:
        """The chats to look through, the one that was written down last first."""
        return tuple(reversed(self._chats))[:MOST_CHATS]

    def adding(self, chat: str) -> Callable[[], None] | None:
        """What puts a chat on disk; `None` where it is there already."""
        if chat in self._chats:
            return None
        self._chats[chat] = None
        return lambda: _append(self._path, chat)


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
