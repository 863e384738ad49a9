"""Admitted people and pairing requests in the ledger, so that a terminal can approve them while a program
serves.

A code is valid for one person, once, for an hour. A person who asks again within that hour gets no answer.
Only a few people may have a code at a time, so nobody can flood the owner or guess codes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import StoredPerson, Who
from nacre.runtime.ledger.tables import LedgerTables

Role: TypeAlias = Literal["", "guest", "owner"]
"""The role that the owner gave a person; empty for an unknown person."""

CODE_CHARS = 8
CODE_MS = 60 * 60 * 1000
MAX_PENDING = 20
"""The maximum number of open codes per account."""
PROTECTED_MS = 10 * 60 * 1000
"""When too many people ask, the oldest code that is older than this is dropped. Otherwise a few strangers
could keep everybody else out for an hour.
"""


class Person(Record):
    """A person on a channel who asks for access, with a `code`, or has it, with a `role`."""

    channel: str
    account: str
    sender_id: str
    at: datetime
    code: str = ""
    role: Role = ""
    own_agent: str = ""
    """The agent that alone answers them in private."""


class People:
    """The people in a ledger."""

    def __init__(self, tables: LedgerTables, *, now: Clock) -> None:
        self.tables = tables
        self._rows = tables.people
        self._now = now

    async def role(self, inbound: Inbound) -> Role:
        return _role(await self._rows.role(who_of(inbound)))

    async def arrival(self, inbound: Inbound) -> tuple[Role, str]:
        """The role of a sender now, and the id of their own agent; empty if they have none."""
        role, own_agent = await self._rows.arrival(who_of(inbound))
        return _role(role), own_agent

    async def request_access(self, inbound: Inbound, new_id: Callable[[], str]) -> str:
        """A new code for the sender of a message; empty if they have one or too many people have one."""
        now_ms, code = self._now_ms(), new_id().replace("-", "")[:CODE_CHARS].upper()
        is_new = await self._rows.ask(
            who_of(inbound),
            code,
            now_ms=now_ms,
            since_ms=now_ms - CODE_MS,
            most=MAX_PENDING,
            gives_way_ms=now_ms - PROTECTED_MS,
        )
        return code if is_new else ""

    async def pending(self) -> tuple[Person, ...]:
        """The people who ask for access, the oldest request first."""
        return tuple(self._person(row) for row in await self._rows.asking(self._now_ms() - CODE_MS))

    async def approved(self) -> tuple[Person, ...]:
        """The people who were let in, the oldest first."""
        return tuple(self._person(row) for row in await self._rows.known())

    async def approve(self, code: str, role: Role, *, own_agent: str = "") -> Person | None:
        """Lets in the person with this code, which is used up. Returns `None` if the code is unknown.

        With `own_agent`, that agent alone answers them in private. Only a database keeps that.
        """
        now_ms = self._now_ms()
        who = await self._rows.approve(
            _plain(code), role, now_ms=now_ms, since_ms=now_ms - CODE_MS, own_agent=own_agent
        )
        if who is None:
            return None
        return self._person(StoredPerson(*who, now_ms, role=role, own_agent=own_agent))

    async def deny(self, code: str) -> Person | None:
        """Refuses the person with this code for an hour. Returns `None` if the code is unknown."""
        now_ms = self._now_ms()
        who = await self._rows.deny(_plain(code), since_ms=now_ms - CODE_MS)
        return None if who is None else self._person(StoredPerson(*who, now_ms))

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
            own_agent=row.own_agent,
        )


def _role(text: str) -> Role:
    roles: tuple[Role, ...] = ("guest", "owner")
    return next((role for role in roles if role == text), "")


def who_of(inbound: Inbound) -> Who:
    """The channel, account and id of a message's sender, as the ledger names people."""
    sender = inbound.sender_id.casefold() if inbound.ids_fold_case is True else inbound.sender_id
    return inbound.channel, inbound.account, sender


def _plain(code: str) -> str:
    return code.strip().upper()
