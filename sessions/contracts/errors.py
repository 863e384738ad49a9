"""What can go wrong with stored sessions, split by who has to react.

    SessionError
    ├── SessionCorrupt          the owner: a path leaves its folder, or is no plain file
    ├── SessionVersionUnknown   the owner: a newer program wrote this file
    ├── SessionKeyInvalid       the caller: this text cannot name a session
    ├── SessionNotFound         the caller: no session has this key or id, or several have
    └── SessionWriteFailed      the owner: disk full, no permission; what was on disk still is

Each message is a sentence: what happened, with which value, what to do.
"""

from __future__ import annotations

from pathlib import Path


class SessionError(Exception):
    """Any failure that this room reports."""


class SessionCorrupt(SessionError):
    """A session file cannot be used as it stands, and nothing was changed."""


class SessionVersionUnknown(SessionError):
    """A transcript was written in a newer format than this program knows."""


class SessionKeyInvalid(SessionError):
    """A text cannot be a session key, or part of one."""


class SessionNotFound(SessionError):
    """No session is named like that, or more than one is, or its transcript is gone."""


class SessionWriteFailed(SessionError):
    """The system refused a read, a write or a lock. `path` is the file; the `OSError` is the cause."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path
