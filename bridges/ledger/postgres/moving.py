"""All of an agent's ledger, to be moved to another member, or brought from one."""

from __future__ import annotations

from typing import Any

from nacre.bridges.ledger.contracts.contents import COLUMNS, Contents, as_row
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run

NUMBERED = ("inbound", "outbound")
"""The tables whose rows the database numbers."""
_FLAGS = ("joined", "was_draft")


class MovableRows:
    """Those of one agent."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def contents(self) -> Contents:
        """All that it has."""

        def work(run: Run) -> Contents:
            found = run(statements.MARKS)
            ledger_id, copied = found[0] if found else ("", "")
            rows = {name: tuple(map(as_row, run(all_of(name)))) for name in COLUMNS}
            return Contents(ledger_id=ledger_id, rows=rows, copied=copied)

        return await self._rows.read_all(work)

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Keeps these contents in the place of what it had."""
        mark = contents.checksum if copied is None else copied

        def work(run: Run) -> None:
            run(statements.PUT_MARKS, ledger_id=contents.ledger_id, copied=mark)
            for name in COLUMNS:
                run(none_of(name))
                for row in contents.rows.get(name, ()):
                    run(one_of(name), **_values(name, row))
            for name in NUMBERED:
                most = max((row[0] for row in contents.rows.get(name, ())), default=0)
                run(statements.STOP_NUMBERING[name])
                run(statements.NUMBER_ON[name], number=most)

        await self._rows.write(work)


def all_of(table: str) -> str:
    """Reads an agent's rows of a table."""
    return f"SELECT {', '.join(COLUMNS[table])} FROM ledger_{table} WHERE agent = %(agent)s"


def none_of(table: str) -> str:
    """Removes an agent's rows of a table."""
    return f"DELETE FROM ledger_{table} WHERE agent = %(agent)s"


def one_of(table: str) -> str:
    """Adds a row to a table, with the number that it has."""
    names = COLUMNS[table]
    places = ", ".join(f"%({name})s" for name in names)
    columns = f"agent, {', '.join(names)}"
    return f"INSERT INTO ledger_{table} ({columns}) OVERRIDING SYSTEM VALUE VALUES (%(agent)s, {places})"


def _values(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(COLUMNS[table], row, strict=True))
    return {name: bool(value) if name in _FLAGS else value for name, value in values.items()}
