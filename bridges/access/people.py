"""Who was let in, and who asks to be; in the ledger, so that a terminal can answer a running program.

A code is good for one person, once, for an hour. Who asks again within that hour hears nothing more, and
only some may ask at a time, so that nobody can flood the owner or guess.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from nacre.bridges.access.rules import Role
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import LedgerTables
from nacre.runtime.ledger.records import StoredPerson, Who

CODE_CHARS = 8
CODE_MS = 60 * 60 * 1000
MOST_ASKING = 20
"""So many people of one account may ask at a time."""
KEPT_MS = 10 * 60 * 1000
"""So long a code is safe; after that the oldest gives way when too many ask, so that a few strangers do not
keep everybody else out for an hour."""


class Person(Record):
    """Somebody on a channel: one who asks, with a `code`, or one who was let in, with a `role`."""

    channel: str
    account: str
    sender_id: str
    at: datetime
    code: str = ""
    role: Role = ""


class People:
    """The people of a ledger."""

    def __init__(self, tables: LedgerTables, *, now: Clock) -> None:
        self.tables = tables
        """Where they are kept."""
        self._rows = tables.people
        self._now = now

    async def role(self, inbound: Inbound) -> Role:
        """What the sender of a message was made."""
        return _role(await self._rows.role(_who(inbound)))

    async def ask(self, inbound: Inbound, new_id: Callable[[], str]) -> str:
        """A fresh code for the sender of a message; empty when it has one, or too many ask already."""
        now_ms, code = self._now_ms(), new_id().replace("-", "")[:CODE_CHARS].upper()
        is_kept = await self._rows.ask(
            _who(inbound),
            code,
            now_ms=now_ms,
            since_ms=now_ms - CODE_MS,
            most=MOST_ASKING,
            gives_way_ms=now_ms - KEPT_MS,
        )
        return code if is_kept else ""

    async def asking(self) -> tuple[Person, ...]:
        """Who asks to be let in, the oldest first."""
        return tuple(self._person(row) for row in await self._rows.asking(self._now_ms() - CODE_MS))

    async def known(self) -> tuple[Person, ...]:
        """Who was let in, the oldest first."""
        return tuple(self._person(row) for row in await self._rows.known())

    async def approve(self, code: str, role: Role) -> Person | None:
        """Lets in who has this code, which is used up by that; `None` when nobody has it."""
        now_ms = self._now_ms()
        who = await self._rows.approve(_plain(code), role, now_ms=now_ms, since_ms=now_ms - CODE_MS)
        return None if who is None else self._person(StoredPerson(*who, now_ms, role=role))

    async def deny(self, code: str) -> Person | None:
        """Refuses who has this code; they may ask again when the hour is over."""
        now_ms = self._now_ms()
        who = await self._rows.deny(_plain(code), since_ms=now_ms - CODE_MS)
        return None if who is None else self._person(StoredPerson(*who, now_ms))

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in, on every account of a channel; whether they were."""
        return await self._rows.revoke(channel, sender_id)

    def _now_ms(self) -> int:
        return epoch_ms(self._now())

    def _person(self, row: StoredPerson) -> Person:
        return Person(
            channel=row.channel,
            account=row.account,
            sender_id=row.sender_id,
            at=datetime.fromtimestamp(row.at_ms / 1000, tz=self._now().tzinfo),
            code=row.code,
            role=_role(row.role),
        )


def _role(text: str) -> Role:
    roles: tuple[Role, ...] = ("guest", "owner")
    return next((role for role in roles if role == text), "")


def _who(inbound: Inbound) -> Who:
    sender = inbound.sender_id.casefold() if inbound.ids_fold_case is True else inbound.sender_id
    return inbound.channel, inbound.account, sender


def _plain(code: str) -> str:
    return code.strip().upper()
