"""What goes wrong in a turn or in opening an agent, as the error that a caller is told."""

from __future__ import annotations

import logging

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)


def failure_of(error: Exception) -> AgentError:
    """The error that a turn ends with; what is none of the caller's becomes `TurnBroken`, and is logged.

    A bug must end in an answer, not in a chat that hangs.
    """
    if isinstance(error, AgentError):
        return error
    trace: Exception | None = None
    if isinstance(error, SessionError | MemoryIndexError | PathOutsideRoot):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"The turn broke off: {error}. Check the disk and the folder's permissions, then try again."
    else:
        text = f"The turn broke off on an unexpected {type(error).__name__}: {error}. Please report it."
        trace = error
    log.log(logging.ERROR if trace else logging.WARNING, "a turn broke off: %s", error, exc_info=trace)
    broken = TurnBroken(text)
    broken.__cause__ = error
    return broken
