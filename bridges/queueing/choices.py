"""What was chosen for single sessions, in the ledger: read once, kept in memory, written through."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from nacre.runtime.ledger.ledger import LedgerTables

ChoiceName: TypeAlias = Literal["queue", "send", "activation"]


class Choices:
    """The choices of all sessions. Open them with `load`."""

    def __init__(self, tables: LedgerTables, known: dict[tuple[str, str], str]) -> None:
        self._tables = tables
        self._known = known

    @classmethod
    async def load(cls, tables: LedgerTables) -> Self:
        """Reads them."""
        return cls(tables, dict(await tables.choices()))

    def get(self, session_key: str, name: ChoiceName) -> str:
        """What was chosen; empty where nothing was."""
        return self._known.get((session_key, name), "")

    async def put(self, session_key: str, name: ChoiceName, value: str) -> None:
        """Keeps a choice; an empty one is forgotten. It is on disk when this returns."""
        await self._tables.put_choice(session_key, name, value)
        if value:
            self._known[session_key, name] = value
        else:
            self._known.pop((session_key, name), None)
