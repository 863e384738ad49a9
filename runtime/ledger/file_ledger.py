"""The ledger of a state folder, and what keeps one from being left behind there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.ledger.ledger import Ledger, LedgerTables
from nacre.runtime.ledger.moving import MovableLedger, is_left_behind
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.ledger.sqlite_ledger import SqliteLedger, is_locked, locked
from nacre.runtime.ledger.sqlite_moving import MovableFile
from nacre.runtime.ledger.sqlite_tables import open_tables

LEDGER_FILE = Path("bridges") / "ledger.sqlite"
"""Where a state folder has it."""


class FileLedgerPlace(Record):
    """A member of `LedgerPlace`: a file of a state folder."""

    file: Path

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        """The whole ledger, for the program that serves."""
        return await SqliteLedger.open(self.file, now=now, new_id=new_id)

    async def open_tables(self, *, now: Clock) -> LedgerTables:
        """What a terminal may look at and change beside that program."""
        return open_tables(self.file, now=now())

    async def is_there(self) -> bool:
        """Whether there is a file."""
        return self.file.exists()

    async def is_served(self) -> bool:
        """Whether a program has locked it."""
        return self.file.parent.is_dir() and is_locked(self.file)

    @asynccontextmanager
    async def movable(self, *, now: Clock) -> AsyncIterator[MovableLedger]:
        """The ledger, locked until the end of the block."""
        release = locked(self.file)
        found = MovableFile(self.file, now=now())
        try:
            yield found
        finally:
            await found.close()
            release()


def ledger_file(state_dir: Path) -> FileLedgerPlace:
    """Where a state folder has its ledger, whether it is there or not."""
    return FileLedgerPlace(file=state_dir / LEDGER_FILE)


async def refuse_left_behind(there: FileLedgerPlace, *, copied: str, now: Clock, how: str) -> None:
    """Returns when a file holds nothing that the chosen ledger lacks; every other backend asks this first.

    With an empty ledger people who were let in would be strangers, and what is due would not come. `copied`
    is the checksum of what was last brought to the chosen one, and `how` tells the owner how to bring this.

    Raises:
        LedgerUnusable: it holds something, or it cannot be read.
    """
    if not there.file.exists():
        return
    found = MovableFile(there.file, now=now())
    try:
        here = await found.contents()
    finally:
        await found.close()
    if is_left_behind(here, copied=copied):
        told = ", ".join(f"{count} {name}" for name, count in here.counts.items() if count)
        raise LedgerUnusable(
            f"The ledger of the channels is in {there.file} still ({told}), and the settings want it in the "
            f"database, where that is missing. {how}; or, to begin without it, move that file away."
        )
