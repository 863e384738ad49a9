"""Takes words out of the ledger: of messages that wait, of answers, and jobs. Nobody serves meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nacre.bridges.ledger.contracts.contents import COLUMNS, Contents, Row
from nacre.bridges.ledger.opening import LedgerPlace, is_there, movable_ledger
from nacre.runtime.contracts.clock import Clock

_OPEN_PARTS = ("draft", "pending", "sending", "unsure")
_PROBLEM = "its words were forgotten"
Says = Callable[[str], bool]


async def forget_in_ledger(place: LedgerPlace, says: Says, *, now: Clock, dry_run: bool) -> dict[str, int]:
    """How many rows of which table say it, and with `dry_run=False` what becomes of them.

    A message is dropped and loses its words, but is known if it comes in again. A part that goes out becomes
    empty and is not sent. A job is removed.

    Raises:
        LedgerUnusable: the ledger cannot be opened, or a program serves it.
    """
    if not await is_there(place):
        return {}
    async with movable_ledger(place, now=now) as ledger:
        before = await ledger.contents()
        changed = {
            "inbound": _changed(before, "inbound", says, _dropped),
            "outbound": _changed(before, "outbound", says, _emptied),
            "jobs": _changed(before, "jobs", says, lambda _row: None),
        }
        counts = {name: count for name, (_rows, count) in changed.items() if count}
        if counts and not dry_run:
            rows = {name: kept for name, (kept, _count) in changed.items()}
            await ledger.replace(replace(before, rows={**before.rows, **rows}), copied=before.copied)
        return counts


def _changed(
    contents: Contents, table: str, says: Says, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> tuple[tuple[Row, ...], int]:
    """The rows of a table, with `change` made of those that say it, and how many these are."""
    kept: list[Row] = []
    count = 0
    for row in contents.rows.get(table, ()):
        if not any(isinstance(value, str) and says(value) for value in row):
            kept.append(row)
            continue
        count += 1
        left = change(dict(zip(COLUMNS[table], row, strict=True)))
        if left is not None:
            kept.append(tuple(left[name] for name in COLUMNS[table]))
    return tuple(kept), count


def _dropped(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "body": None, "state": "done" if row["state"] == "done" else "dropped"}


def _emptied(row: dict[str, Any]) -> dict[str, Any]:
    state, problem = row["state"], row["problem"]
    if state in _OPEN_PARTS:
        state, problem = "failed", _PROBLEM
    return {**row, "text": "", "state": state, "problem": problem}
