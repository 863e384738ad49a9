"""Who was let in, and who asks to be, in the ledger's file."""

from __future__ import annotations

from typing import Any

from nacre.runtime.ledger.records import StoredPerson, Who
from nacre.runtime.ledger.sqlite_database import Connection, Database


class SqlitePeople:
    """The people of a ledger's file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def role(self, who: Who) -> str:
        """What a sender was made."""
        query = "SELECT role FROM people WHERE channel = ? AND account = ? AND sender_id = ?"
        return str(await self._database.write(lambda db: db.execute(query, who).get) or "")

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Keeps a code, unless its sender asks already, or too many do who asked after `gives_way_ms`."""

        def work(db: Connection) -> bool:
            db.execute("DELETE FROM pairings WHERE asked_ms <= ?", (since_ms,))
            asking = db.execute(
                "SELECT sender_id FROM pairings WHERE channel = ? AND account = ?", who[:2]
            ).fetchall()
            if (who[2],) in asking:
                return False
            if len(asking) >= most:
                db.execute(
                    "DELETE FROM pairings WHERE rowid = (SELECT rowid FROM pairings WHERE channel = ? AND "
                    "account = ? AND asked_ms <= ? AND code <> '' ORDER BY asked_ms LIMIT 1)",
                    (*who[:2], gives_way_ms),
                )
                if not db.changes():
                    return False
            db.execute("INSERT INTO pairings VALUES (?, ?, ?, ?, ?)", (code, *who, now_ms))
            return True

        return await self._database.write(work)

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """Who asks to be let in."""
        query = (
            "SELECT channel, account, sender_id, asked_ms, code FROM pairings "
            "WHERE asked_ms > ? AND code <> '' ORDER BY asked_ms"
        )
        rows: list[Any] = await self._database.write(lambda db: db.execute(query, (since_ms,)).fetchall())
        return tuple(StoredPerson(*row) for row in rows)

    async def known(self) -> tuple[StoredPerson, ...]:
        """Who was let in."""
        query = "SELECT channel, account, sender_id, since_ms, '', role FROM people ORDER BY since_ms"
        rows: list[Any] = await self._database.write(lambda db: db.execute(query).fetchall())
        return tuple(StoredPerson(*row) for row in rows)

    async def approve(self, code: str, role: str, *, now_ms: int, since_ms: int) -> Who | None:
        """Lets in who has a code."""

        def work(db: Connection) -> Any:
            who = _found(db, code, since_ms)
            db.execute("DELETE FROM pairings WHERE code = ?", (code,))
            if who is not None:
                db.execute("INSERT OR REPLACE INTO people VALUES (?, ?, ?, ?, ?)", (*who, role, now_ms))
            return who

        who: Who | None = await self._database.write(work)
        return who

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Takes a code from who has it."""

        def work(db: Connection) -> Any:
            who = _found(db, code, since_ms)
            db.execute("UPDATE pairings SET code = '' WHERE code = ?", (code,))
            return who

        who: Who | None = await self._database.write(work)
        return who

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in."""
        delete = "DELETE FROM people WHERE channel = ? AND sender_id = ? RETURNING 1"
        return bool(
            await self._database.write(lambda db: db.execute(delete, (channel, sender_id)).fetchall())
        )


def _found(db: Connection, code: str, since_ms: int) -> Any:
    query = "SELECT channel, account, sender_id FROM pairings WHERE code = ? AND code <> '' AND asked_ms > ?"
    return db.execute(query, (code, since_ms)).fetchone()
