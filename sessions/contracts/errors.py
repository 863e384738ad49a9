"""What can go wrong with stored sessions. `docs/engineering/errors.md` says who reacts to what."""

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


class SessionStoreRefused(SessionError):
    """A database that keeps the sessions cannot be reached, or refused; nothing of that was written."""


class SessionTakenOver(SessionError):
    """Another process went on with a session, because this one was silent for too long."""
