"""Tool results too long for a transcript, kept whole beside it."""

from __future__ import annotations

import re
from typing import Protocol

MAX_KEPT_CHARS = 5_000_000
"""Of a longer result only so much is kept: a store is not filled by one command."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class WholeResults(Protocol):
    """The whole results of one session. They are never changed and go where their transcript goes."""

    async def keep(self, name: str, text: str) -> None:
        """Stores a result under a new name, `MAX_KEPT_CHARS` of it at most; it outlives the process then.

        Raises:
            SessionWriteFailed: the store refused; nothing is left behind.
            ValueError: that is no name.
        """

    async def read(self, name: str) -> str | None:
        """A stored result, or `None` when there is none of that name.

        Raises:
            SessionError: it cannot be read.
        """


def is_result_name(name: str) -> bool:
    """Whether a result may have this name: letters, digits, `-` and `_`."""
    return _NAME.fullmatch(name) is not None
