"""Who was let in, and who asks to be; in the ledger's file, so that a terminal can answer a running program.

A code is good for one person, once, for an hour. Who asks again within that hour hears nothing more, and few
may ask at a time, so that nobody can flood the owner or guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from nacre.bridges.access.rules import Role
from nacre.bridges.ledger.database import Connection, Database, open_database
from nacre.bridges.ledger.schema import MIGRATIONS
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Inbound

CODE_CHARS = 8
CODE_MS = 60 * 60 * 1000
MOST_ASKING = 3
"""So many people of one account may ask at a time."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody on a channel: one who asks, with a `code`, or one who was let in, with a `role`."""

    channel: str
    account: str
    sender_id: str
    at: datetime
    code: str = ""
    role: Role = ""


class People:
    """The people of a state folder."""

    def __init__(self, database: Database, *, now: Clock) -> None:
        self._database = database
        self._now = now

    @classmethod
    def open(cls, path: Path, *, now: Clock) -> Self:
        """Those of a ledger's file, for a terminal. Close it with `close`. Raises `LedgerUnusable`."""
        return cls(open_database(path, MIGRATIONS, now=now())[0], now=now)

    async def close(self) -> None:
        """Closes a file that `open` opened."""
        await self._database.close()

    async def role(self, inbound: Inbound) -> Role:
        """What the sender of a message was made."""
        query = "SELECT role FROM people WHERE channel = ? AND account = ? AND sender_id = ?"
        role: Any = await self._database.write(lambda db: db.execute(query, _who(inbound)).get)
        return role if role in ("guest", "owner") else ""

    async def ask(self, inbound: Inbound, new_id: Callable[[], str]) -> str:
        """A fresh code for the sender of a message; empty when it has one, or too many ask already."""
        who, now_ms, code = _who(inbound), self._now_ms(), new_id().replace("-", "")[:CODE_CHARS].upper()

        def work(db: Connection) -> str:
            db.execute("DELETE FROM pairings WHERE asked_ms <= ?", (now_ms - CODE_MS,))
            asking = db.execute(
                "SELECT sender_id FROM pairings WHERE channel = ? AND account = ?", who[:2]
            ).fetchall()
            if len(asking) >= MOST_ASKING or (who[2],) in asking:
                return ""
            db.execute("INSERT INTO pairings VALUES (?, ?, ?, ?, ?)", (code, *who, now_ms))
            return code

        return await self._database.write(work)

    async def asking(self) -> tuple[Person, ...]:
        """Who asks to be let in, the oldest first."""
        query = (
            "SELECT channel, account, sender_id, asked_ms, code FROM pairings "
            "WHERE asked_ms > ? AND code <> '' ORDER BY asked_ms"
        )
        since_ms = self._now_ms() - CODE_MS
        rows: list[Any] = await self._database.write(lambda db: db.execute(query, (since_ms,)).fetchall())
        return tuple(
            Person(channel=row[0], account=row[1], sender_id=row[2], at=self._at(row[3]), code=row[4])
            for row in rows
        )

    async def known(self) -> tuple[Person, ...]:
        """Who was let in, the oldest first."""
        query = "SELECT channel, account, sender_id, since_ms, role FROM people ORDER BY since_ms"
        rows: list[Any] = await self._database.write(lambda db: db.execute(query).fetchall())
        return tuple(
            Person(channel=row[0], account=row[1], sender_id=row[2], at=self._at(row[3]), role=row[4])
            for row in rows
        )

    async def approve(self, code: str, role: Role) -> Person | None:
        """Lets in who has this code, which is used up by that; `None` when nobody has it."""
        now_ms = self._now_ms()

        def work(db: Connection) -> Any:
            row = _take(db, code, now_ms)
            if row is not None:
                db.execute("INSERT OR REPLACE INTO people VALUES (?, ?, ?, ?, ?)", (*row, role, now_ms))
            return row

        return self._person(await self._database.write(work), role)

    async def deny(self, code: str) -> Person | None:
        """Refuses who has this code; they may ask again when the hour is over."""
        now_ms = self._now_ms()

        def work(db: Connection) -> Any:
            row = _found(db, code, now_ms)
            # The line stays until its hour is over, without a code that could be approved.
            db.execute("UPDATE pairings SET code = '' WHERE code = ?", (_plain(code),))
            return row

        return self._person(await self._database.write(work), "")

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in, on every account of a channel; whether they were."""
        delete = "DELETE FROM people WHERE channel = ? AND sender_id = ? RETURNING 1"
        return bool(
            await self._database.write(lambda db: db.execute(delete, (channel, sender_id)).fetchall())
        )

    def _now_ms(self) -> int:
        return epoch_ms(self._now())

    def _at(self, at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1000, tz=self._now().tzinfo)

    def _person(self, row: Any, role: Role) -> Person | None:
        if row is None:
            return None
        return Person(channel=row[0], account=row[1], sender_id=row[2], at=self._now(), role=role)


def _who(inbound: Inbound) -> tuple[str, str, str]:
    sender = inbound.sender_id.casefold() if inbound.ids_fold_case is True else inbound.sender_id
    return inbound.channel, inbound.account, sender


def _plain(code: str) -> str:
    return code.strip().upper()


def _found(db: Connection, code: str, now_ms: int) -> Any:
    query = "SELECT channel, account, sender_id FROM pairings WHERE code = ? AND code <> '' AND asked_ms > ?"
    return db.execute(query, (_plain(code), now_ms - CODE_MS)).fetchone()


def _take(db: Connection, code: str, now_ms: int) -> Any:
    row = _found(db, code, now_ms)
    db.execute("DELETE FROM pairings WHERE code = ?", (_plain(code),))
    return row
