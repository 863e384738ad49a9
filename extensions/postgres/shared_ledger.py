"""The ledger of an agent for several serving programs, each of which serves some of the accounts."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.ledger import Holding, PostgresLedger, PostgresRows, holder_name
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.ledger.ledger import AccountId, Shares
from nacre.runtime.ledger.records import LedgerLost
from nacre.runtime.ledger.tables import Run

LOOK_SECONDS = 2.0
"""The longest time between looks. One that waits for another program's silence comes right at its end."""
SOON_SECONDS = 0.05


class Member(NamedTuple):
    """A program that shares a ledger, or still holds accounts of it. Accounts are `channel/account`."""

    process: int
    holder: str
    wanted: Sequence[str]
    held: Sequence[str]
    alive_until: str | None
    left_seconds: float | None
    """How long it counts as alive; `None` if it has said that it ends, or ended long ago."""
    leads: bool
    unsent: Sequence[str]

    @property
    def is_silent(self) -> bool:
        return self.left_seconds is None or self.left_seconds <= 0


class Plan(NamedTuple):
    """The accounts to take, each with the process that had it, those to leave to others, and the holders of
    those that others keep."""

    take: Mapping[str, int | None]
    surplus: Sequence[str]
    elsewhere: Mapping[str, str]


def plan(
    own: Member,
    others: Sequence[Member],
    wanted: Sequence[str],
    *,
    silent: frozenset[int] = frozenset(),
    missed: frozenset[str] = frozenset(),
) -> Plan:
    """Shares accounts among the programs that want them, so that none has two more than another.

    `silent` are processes whose accounts may be taken. Of free accounts a program leaves those to others that
    want them and have fewer, unless nobody took them since the last look: the `missed` ones.
    """
    holders = {name: other for other in others for name in other.held}
    living = [other for other in others if not other.is_silent]
    count, take = len(own.held), dict[str, int | None]()
    for name in wanted:
        holder = holders.get(name)
        if name in own.held or (holder is not None and holder.process not in silent):
            continue
        if name in missed or not any(name in each.wanted and len(each.held) < count for each in living):
            take[name] = None if holder is None else holder.process
            count += 1
    with_room = [each for each in living if len(each.held) + 2 <= len(own.held)]
    surplus = [name for name in own.held if any(name in each.wanted for each in with_room)]
    elsewhere = {name: holders[name].holder for name in wanted if name in holders and name not in take}
    return Plan(take, surplus, elsewhere)


class SharedLedger(PostgresLedger):
    """The ledger of an agent, of which this program serves the accounts that `share` gives it."""

    _release = statements.LEAVE_OTHERS
    _fence: int
    _told: Sequence[str] = ()
    """The accounts of which the others know that this program wants them."""
    _free: frozenset[str] = frozenset()
    """The accounts that nobody held after the last look."""
    _silences: dict[int, tuple[str | None, float]]
    """Until when silent processes were alive, and since when that is known."""

    @classmethod
    async def open(cls, database: Database, *, agent: str, now: Clock, new_id: NewId) -> Self:
        """Joins the programs that share the ledger.

        Raises:
            LedgerUnusable: the database cannot be used, or a program holds the ledger for itself alone.
        """
        holding = await Holding.taken(database, agent, ledger_id=new_id(), is_shared=True)
        rows = PostgresRows(database, agent, fence=holding.fence, process=database.process.number)
        ledger = cls._held(holding, rows, database.process, now)
        ledger._fence, ledger._silences = holding.fence, {}
        try:
            await ledger._enter(())
        except BaseException:
            await ledger.close()
            raise
        return ledger

    async def share(self, wanted: Sequence[AccountId]) -> Shares:
        """Takes accounts of `wanted` that nobody holds or whose program is silent, as far as its share goes.

        Raises:
            LedgerLost: a program has taken the ledger for itself alone, or its rows are gone.
            LedgerUnusable: the database cannot be used.
        """
        names = {f"{channel}/{account}": (channel, account) for channel, account in wanted}
        if self._told != tuple(names):
            await self._enter(tuple(names))
        own = {"process": self._process.number, "fence": self._fence}
        members = [Member(*row) for row in await self.rows.read(statements.GATEWAYS, **own)]
        mine = next((each for each in members if each.process == self._process.number), None)
        if mine is None:
            raise LedgerLost(
                "Another program has all bridges, or an older database was restored. Start anew."
            )
        others = [each for each in members if each is not mine]
        if not any(each.leads for each in members if not each.is_silent):
            await self.rows.run(statements.LEAD, **own, holder=holder_name())
        silent, soon = self._silent(others)
        todo = plan(mine, others, [*names], silent=silent, missed=self._free)
        taken = [name for name in todo.take if await self._take(names[name], todo.take[name])]
        held = [name for name in names if name in (*mine.held, *taken)]
        self._free = frozenset(names) - {*held, *todo.elsewhere}
        return Shares(
            held=tuple(names[name] for name in held),
            elsewhere={names[name]: holder for name, holder in todo.elsewhere.items()},
            surplus=tuple(names[name] for name in todo.surplus if name in names),
            unsent=tuple(names[name] for name in mine.unsent if name in names),
            look_seconds=min(LOOK_SECONDS, soon),
        )

    async def give_up(self, account: AccountId) -> None:
        """Leaves an account to others."""
        named = {"channel": account[0], "account": account[1], "process": self._process.number}
        await self.rows.run(statements.GIVE_UP, **named)

    async def _enter(self, wanted: tuple[str, ...]) -> None:
        named = {"process": self._process.number, "holder": holder_name(), "wanted": list(wanted)}
        await self.rows.run(statements.ENTER, **named)
        self._told = wanted

    def _silent(self, others: Sequence[Member]) -> tuple[frozenset[int], float]:
        """The processes whose accounts may be taken, and the seconds until another one may be silent.

        After an outage all seem silent, so a program that was cut off itself waits for their next heartbeat.
        """
        now, pace, found, soon = time.monotonic(), self._process.pace, set[int](), math.inf
        for each in others:
            if not each.is_silent:
                self._silences.pop(each.process, None)
                soon = min(soon, (each.left_seconds or 0) + SOON_SECONDS) if each.held else soon
                continue
            seen, since = self._silences.get(each.process, ("", now))
            if seen != each.alive_until:
                since = now
            self._silences[each.process] = each.alive_until, since
            wait_seconds = since + pace.beat_seconds - now
            if each.left_seconds is None or self._process.is_steady or wait_seconds <= 0:
                found.add(each.process)
            else:
                soon = min(soon, wait_seconds + SOON_SECONDS)
        return frozenset(found), soon

    async def _take(self, account: AccountId, before: int | None) -> bool:
        """Takes an account. Parts that were being sent become `unsure`."""
        named = {"channel": account[0], "account": account[1]}

        def work(run: Run) -> bool:
            if not run(statements.TAKE, **named, process=self._process.number, before=before):
                return False
            run(statements.UNSURE_OF_ACCOUNT, **named)
            return True

        return await self.rows.write(work)
