"""What was chosen for single sessions, in the ledger's file: read once, kept in memory, written through."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

from nacre.bridges.ledger.database import Database

ChoiceName: TypeAlias = Literal["queue", "send", "activation"]


class Choices:
    """The choices of all sessions. Open them with `load`."""

    def __init__(self, database: Database, known: dict[tuple[str, str], str]) -> None:
        self._database = database
        self._known = known

    @classmethod
    async def load(cls, database: Database) -> Self:
        """Reads them."""
        query = "SELECT session_key, name, value FROM choices"
        rows: list[Any] = await database.write(lambda db: db.execute(query).fetchall())
        return cls(database, {(key, name): value for key, name, value in rows})

    def get(self, session_key: str, name: ChoiceName) -> str:
        """What was chosen; empty where nothing was."""
        return self._known.get((session_key, name), "")

    async def put(self, session_key: str, name: ChoiceName, value: str) -> None:
        """Keeps a choice; an empty one is forgotten. It is on disk when this returns."""
        row = (session_key, name, value)
        if value:
            await self._database.write(
                lambda db: db.execute("INSERT OR REPLACE INTO choices VALUES (?, ?, ?)", row)
            )
            self._known[row[:2]] = value
        else:
            delete = "DELETE FROM choices WHERE session_key = ? AND name = ?"
            await self._database.write(lambda db: db.execute(delete, row[:2]))
            self._known.pop(row[:2], None)
