"""Opens the ledger of a state folder, whichever member keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path

from nacre.bridges.contracts.errors import LedgerUnusable
from nacre.bridges.ledger.contracts.contents import MovableLedger
from nacre.bridges.ledger.contracts.ledger import Ledger, LedgerTables
from nacre.bridges.ledger.copying import is_left_behind
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.holding import Holding
from nacre.bridges.ledger.postgres.ledger import PostgresLedger
from nacre.bridges.ledger.postgres.moving import MovableRows
from nacre.bridges.ledger.postgres.rows import LedgerRows
from nacre.bridges.ledger.postgres.tables import PostgresTables
from nacre.bridges.ledger.sqlite import ledger as sqlite
from nacre.bridges.ledger.sqlite.moving import MovableFile
from nacre.bridges.ledger.sqlite.tables import open_tables as open_sqlite_tables
from nacre.postgres.shared import shared_database
from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.agents import FIRST_AGENT

LEDGER_FILE = Path("bridges") / "ledger.sqlite"
"""Where a state folder has it."""


class LedgerPlace(Record):
    """Where a ledger lies: in a file of the state folder, or with an agent in a database."""

    state_dir: Path
    database_url: str = field(default="", repr=False)
    agent_id: str = FIRST_AGENT

    @property
    def file(self) -> Path:
        """The file, whether it is the ledger or was."""
        return self.state_dir / LEDGER_FILE

    @property
    def rows(self) -> LedgerRows:
        """What runs the statements of the agent."""
        return LedgerRows(shared_database(self.database_url), self.agent_id)


def ledger_place(config: Config) -> LedgerPlace:
    """Where the settings have it: one for all agents, with the agent that answers what no binding names."""
    default = next((agent.id for agent in config.agents if agent.is_default), config.agent_id)
    return LedgerPlace(state_dir=config.state_dir, database_url=config.database_url, agent_id=default)


async def open_ledger(place: LedgerPlace, *, now: Clock, new_id: NewId) -> Ledger:
    """The whole ledger, for the program that serves.

    Raises:
        LedgerUnusable: it cannot be opened, another program is at it, or it was not brought to the database.
    """
    if not place.database_url:
        return await sqlite.SqliteLedger.open(place.file, now=now, new_id=new_id)
    await _refuse_left_behind(place, now)
    database = shared_database(place.database_url)
    return await PostgresLedger.open(
        database, place.database_url, agent=place.agent_id, now=now, new_id=new_id
    )


async def open_tables(place: LedgerPlace, *, now: Clock) -> LedgerTables:
    """What a terminal may look at and change beside that program. Raises as `open_ledger`."""
    if not place.database_url:
        return open_sqlite_tables(place.file, now=now())
    await _refuse_left_behind(place, now)
    return PostgresTables(place.rows)


async def is_there(place: LedgerPlace) -> bool:
    """Whether a program has ever made a ledger here. Raises `LedgerUnusable`."""
    if place.file.exists() or not place.database_url:
        return place.file.exists()
    return bool(await place.rows.read(statements.HOLDER))


async def is_served(place: LedgerPlace) -> bool:
    """Whether a program has the ledger open now. Raises `LedgerUnusable`."""
    if not place.database_url:
        return sqlite.is_locked(place.file)
    return bool(await place.rows.read(statements.IS_SERVED))


@asynccontextmanager
async def movable_ledger(place: LedgerPlace, *, now: Clock) -> AsyncIterator[MovableLedger]:
    """A ledger to copy from or into; nobody serves it meanwhile.

    Raises:
        LedgerUnusable: it cannot be opened, or a program serves it.
    """
    if place.database_url:
        holding = await Holding.taken(place.rows, place.database_url, place.agent_id)
        try:
            yield MovableRows(place.rows)
        finally:
            await asyncio.to_thread(holding.release)
        return
    release = sqlite.locked(place.file)
    found = MovableFile(place.file, now=now())
    try:
        yield found
    finally:
        await found.close()
        release()


async def _refuse_left_behind(place: LedgerPlace, now: Clock) -> None:
    """With an empty ledger people who were let in would be strangers, and what is due would not come."""
    if not place.file.exists():
        return
    found = MovableFile(place.file, now=now())
    try:
        here = await found.contents()
    finally:
        await found.close()
    if here.is_empty:
        return
    marks = await place.rows.read(statements.MARKS)
    if is_left_behind(here, copied=marks[0][1] if marks else ""):
        told = ", ".join(f"{count} {name}" for name, count in here.counts.items() if count)
        raise LedgerUnusable(
            f"The ledger of the channels is in {place.file} still ({told}), and the settings want it in the "
            "database, where that is missing. Run `nacre storage migrate --to postgres` first; or, to begin "
            "without it, move that file away."
        )
