"""Opens the ledger of a state folder, whichever member keeps it."""

from __future__ import annotations

from pathlib import Path

from nacre.bridges.ledger.contracts.ledger import Ledger, LedgerTables
from nacre.bridges.ledger.sqlite import ledger as sqlite
from nacre.bridges.ledger.sqlite.tables import open_tables as open_sqlite_tables
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId

LEDGER_FILE = Path("bridges") / "ledger.sqlite"
"""Where a state folder has it."""


async def open_ledger(state_dir: Path, *, now: Clock, new_id: NewId) -> Ledger:
    """The whole ledger, for the program that serves.

    Raises:
        LedgerUnusable: it cannot be opened, or another program is at it.
    """
    return await sqlite.SqliteLedger.open(state_dir / LEDGER_FILE, now=now, new_id=new_id)


def open_tables(state_dir: Path, *, now: Clock) -> LedgerTables:
    """What a terminal may look at and change beside that program. Raises `LedgerUnusable`."""
    return open_sqlite_tables(state_dir / LEDGER_FILE, now=now())


def is_there(state_dir: Path) -> bool:
    """Whether a program has ever made a ledger here."""
    return (state_dir / LEDGER_FILE).exists()


def is_served(state_dir: Path) -> bool:
    """Whether a program has the ledger open now. Raises `LedgerUnusable`."""
    return sqlite.is_locked(state_dir / LEDGER_FILE)
