"""What goes wrong in a turn or in opening an agent, as the error that a caller is told."""

from __future__ import annotations

import logging

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.workspace.paths import PathOutsideRoot
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)


def failure_of(error: Exception) -> AgentError:
    """The error that a turn ends with; what is none of the caller's becomes `TurnBroken`, and is logged.

    A bug must end in an answer, not in a chat that hangs.
    """
    if isinstance(error, AgentError):
        return error
    if isinstance(error, SessionError | MemoryIndexError | PathOutsideRoot):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"The turn broke off: {error}. Check the disk and the folder's permissions, then try again."
    else:
        text = f"The turn broke off on an unexpected {type(error).__name__}: {error}. Please report it."
    is_known = isinstance(error, SessionError | MemoryIndexError | PathOutsideRoot | OSError)
    log.log(
        logging.WARNING if is_known else logging.ERROR,
        "a turn broke off: %s",
        error,
        exc_info=None if is_known else error,
    )
    broken = TurnBroken(text)
    broken.__cause__ = error
    return broken
