"""Copies the contents of a ledger between backends, and removes what is to be forgotten from them.

Two ledgers are never merged: a target is replaced only while it has nothing of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

from nacre.record import Record

Row: TypeAlias = tuple[Any, ...]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    table: tuple(columns.split())
    for table, columns in {
        "people": "channel account sender_id role since_ms",
        "pairings": "channel account sender_id code asked_ms",
        "jobs": "id answered_by asker text rule made_ms due_ms problem",
        "inbound": """number channel account chat_id message_id session_key answered_by state turn attempts
            joined received_ms body""",
        "outbound": """number turn channel account chat_id thread_id answers text state was_draft attempts
            sent_id problem asker""",
        "cursors": "channel account value",
        "choices": "session_key name value",
        "owner_chats": "answered_by channel account at_ms inbound",
        "heartbeats": "answered_by at_ms",
    }.items()
}
"""What is copied, by table. The statuses of bridges are not, because the next serving program determines
them."""


class Contents(Record):
    """The rows of a ledger by table, in the order of `COLUMNS`.

    `copied` is the checksum of what was last copied in from another backend; empty if nothing was.
    """

    ledger_id: str = ""
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    copied: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(self.rows.values())

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(self.rows.get(name, ())) for name in COLUMNS}

    @property
    def checksum(self) -> str:
        """A checksum over all rows, the same in every backend."""
        found = sha256()
        for name in COLUMNS:
            for line in sorted(json.dumps(row) for row in self.rows.get(name, ())):
                found.update(f"{name} {line}\n".encode())
        return found.hexdigest()


class MovableLedger(Protocol):
    """A ledger that nobody serves, to be copied from or into. All methods raise `LedgerUnusable`."""

    async def contents(self) -> Contents:
        """Everything in it; empty if there is no ledger yet."""

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Replaces everything with these contents and their numbers.

        They were copied from another backend unless `copied` says what was copied in last.
        """


def as_row(values: Row) -> Row:
    """A row in a form that every backend can store: no booleans, and no NUL in a text."""
    return tuple(
        value.replace("\0", "\N{REPLACEMENT CHARACTER}")
        if isinstance(value, str)
        else int(value)
        if isinstance(value, bool)
        else value
        for value in values
    )


class CopiedLedger(Record):
    """What both have after a copy, and sentences about what was not copied."""

    source: Contents
    target: Contents
    problems: tuple[str, ...] = ()


async def copy_ledger(source: MovableLedger, target: MovableLedger) -> CopiedLedger:
    """Copies everything in one transaction, unless the target has something of its own.

    Raises:
        LedgerUnusable: one of them refused; then the target is unchanged.
    """
    found, there = await source.contents(), await target.contents()
    if found.is_empty or found.checksum == there.checksum == there.copied:
        return CopiedLedger(source=found, target=found)
    if not may_replace(found, there):
        problem = (
            "Both ledgers of the channels have changed since the last copy, so the target keeps its own. "
            "Continue with it, or move it away to use this one: docs/postgres.md says how."
        )
        return CopiedLedger(source=found, target=there, problems=(problem,))
    await target.replace(found)
    return CopiedLedger(source=found, target=await target.contents())


def may_replace(source: Contents, target: Contents) -> bool:
    """Whether replacing the target loses nothing: it is empty, an unchanged copy, or the source's origin."""
    return target.is_empty or target.checksum in (target.copied, source.copied, source.checksum)


def is_left_behind(here: Contents, *, copied: str) -> bool:
    """Whether an unused ledger has something that is not in the chosen one, according to checksums.

    `copied` is the checksum of what was last copied to the chosen one.
    """
    return not here.is_empty and here.checksum not in (here.copied, copied)


_OPEN_PARTS = ("draft", "pending", "sending", "unsure")
Says = Callable[[str], bool]


async def forget_in_ledger(ledger: MovableLedger, says: Says, *, dry_run: bool) -> dict[str, int]:
    """The number of rows by table for which `says` is true; without `dry_run` they are emptied.

    A message is dropped and loses its text, but is recognized if it arrives again. An outgoing part becomes
    empty and is not sent. A job is removed.

    Raises:
        LedgerUnusable: the ledger cannot be read or written.
    """
    before = await ledger.contents()
    changed = {
        "inbound": _changed(before, "inbound", says, _drop),
        "outbound": _changed(before, "outbound", says, _empty),
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


def _drop(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "body": None, "state": "done" if row["state"] == "done" else "dropped"}


def _empty(row: dict[str, Any]) -> dict[str, Any]:
    state, problem = row["state"], row["problem"]
    if state in _OPEN_PARTS:
        state, problem = "failed", "its text was forgotten"
    return {**row, "text": "", "state": state, "problem": problem}
