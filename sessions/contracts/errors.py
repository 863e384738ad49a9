"""Errors of stored sessions. `docs/engineering/errors.md` says who handles each."""

from __future__ import annotations

from pathlib import Path


class SessionError(Exception):
    """Base class of all errors that `nacre.sessions` raises."""


class SessionCorrupt(SessionError):
    """A session file cannot be used in its current state; nothing was changed."""


class SessionVersionUnknown(SessionError):
    """A transcript was written in a newer format than this program knows."""


class SessionKeyInvalid(SessionError):
    """A text cannot be a session key or part of one."""


class SessionNotFound(SessionError):
    """No session matches a name, several do, or the session's transcript is missing."""


class SessionWriteFailed(SessionError):
    """The system refused a read, a write or a lock. `path` is the file; the `OSError` is the cause."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class SessionStoreRefused(SessionError):
    """The session database cannot be reached or refused a request; nothing was written."""


class SessionTakenOver(SessionError):
    """Another process took over a session because this one was silent for too long."""
