"""Which session a key names, as rows. Edge.

Who changes a line locks its key, who changes several locks the agent's; whoever reads waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from nacre.sessions.disk.json_text import json_value, to_line
from nacre.sessions.index.record import SessionRecord, record_from_json, record_to_json
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.rows import AgentRows, Moment

Change: TypeAlias = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]


class LineRows:
    """The lines of an agent. Each method raises `SessionStoreRefused`."""

    notices: tuple[str, ...] = ()
    """A database repairs nothing on its own."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def get(self, key: str) -> SessionRecord | None:
        """The line of a key."""
        return await self._rows.single(lambda rows: _line(rows, key))

    async def all(self) -> dict[str, SessionRecord]:
        """All lines by key."""
        return await self._rows.single(all_lines)

    async def recover(self, key: str) -> SessionRecord | None:
        """The line of a key as it is: lines and transcripts are committed together, so none gets lost."""
        return await self.get(key)

    async def update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        """Replaces a line by what `change` makes of the present one; `None` is no line. Gives the new one.

        Raises:
            SessionTakenOver: this process had the key's lane, and another has it by now.
        """

        def work(rows: Moment) -> SessionRecord | None:
            rows.run(statements.LOCK_KEY, key=key)
            present = _line(rows, key)
            record = change(present)
            if record != present:
                _put(rows, key, record)
            return record

        return await self._rows.write(work)

    async def mirror(
        self, key: str, change: Callable[[SessionRecord], SessionRecord]
    ) -> SessionRecord | None:
        """`update` of a line that there is."""
        return await self.update(key, lambda record: None if record is None else change(record))

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Replaces several lines at once, or none; gives what `change` gave."""
        return await self._rows.write(lambda rows: edited(rows, change))


def edited(rows: Moment, change: Change) -> Mapping[str, SessionRecord | None]:
    """What `change` makes of all lines, written within a transaction; gives what it gave."""
    rows.run(statements.LOCK_LINES)
    changed = change(all_lines(rows))
    for key, record in changed.items():
        _put(rows, key, record)
    return changed


def _put(rows: Moment, key: str, record: SessionRecord | None) -> None:
    if record is None:
        rows.fenced(statements.REMOVE_LINE, lane=key, key=key)
        return
    line = to_line(record_to_json(record)).decode().rstrip("\n")
    rows.fenced(statements.PUT_LINE, lane=key, key=key, session_id=record.session_id, line=line)


def _line(rows: Moment, key: str) -> SessionRecord | None:
    found = rows.run(statements.LINE, key=key)
    return _record(found[0][0]) if found else None


def all_lines(rows: Moment) -> dict[str, SessionRecord]:
    """All lines by key."""
    found = ((key, _record(line)) for key, line in rows.run(statements.LINES))
    return {key: record for key, record in found if record is not None}


def _record(line: str) -> SessionRecord | None:
    return record_from_json(json_value(line.encode()))
