"""The whole tool results of one transcript, as rows. Edge."""

from __future__ import annotations

from collections.abc import Callable

from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, is_result_name
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.heads import Head
from nacre.sessions.stores.postgres.rows import AgentRows


class ResultRows:
    """The whole results of one transcript."""

    def __init__(self, rows: AgentRows, head: Callable[[], Head]) -> None:
        self._rows = rows
        self._head = head

    async def keep(self, name: str, text: str) -> None:
        """Stores a result under a new name of letters, digits, `-` and `_`.

        Raises:
            SessionStoreRefused: the database cannot be reached, or refused.
            SessionTakenOver: another process went on with the session.
            ValueError: that is no name.
        """
        if not is_result_name(name):
            raise ValueError(f"{name!r} is no name for a result")
        body, head = text[:MAX_KEPT_CHARS].encode("utf-8", "replace"), self._head()
        await self._rows.write(
            lambda rows: rows.fenced(
                statements.KEEP_RESULT, lane=head.lane, transcript=head.id, name=name, body=body
            )
        )

    async def read(self, name: str) -> str | None:
        """A stored result, or `None` when there is none of that name. Raises `SessionStoreRefused`."""
        if not is_result_name(name):
            return None
        found = await self._rows.read(
            lambda rows: rows.run(statements.RESULT, transcript=self._head().id, name=name)
        )
        return bytes(found[0][0]).decode("utf-8", "replace") if found else None
