"""All that a ledger keeps, as it is moved from one member to another. A contract. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

from nacre.records.record import Record

Row: TypeAlias = tuple[Any, ...]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "people": ("channel", "account", "sender_id", "role", "since_ms"),
    "pairings": ("channel", "account", "sender_id", "code", "asked_ms"),
    "jobs": ("id", "answered_by", "asker", "text", "rule", "made_ms", "due_ms", "problem"),
    "inbound": (
        *("number", "channel", "account", "chat_id", "message_id", "session_key", "answered_by", "state"),
        *("turn", "attempts", "joined", "received_ms", "body"),
    ),
    "outbound": (
        *("number", "turn", "channel", "account", "chat_id", "thread_id", "answers", "text", "state"),
        *("was_draft", "attempts", "sent_id", "problem", "asker"),
    ),
    "cursors": ("channel", "account", "value"),
    "choices": ("session_key", "name", "value"),
    "owner_chats": ("answered_by", "channel", "account", "at_ms", "inbound"),
    "heartbeats": ("answered_by", "at_ms"),
}
"""What is moved, by table. How the bridges are is not: whoever serves next finds that out anew."""


class Contents(Record):
    """The rows of a ledger by table, in the order of `COLUMNS`. `copied` is the checksum of what was brought
    in last, from another member; empty where nothing ever was."""

    ledger_id: str = ""
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    copied: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to move."""
        return not any(self.rows.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {name: len(self.rows.get(name, ())) for name in COLUMNS}

    @property
    def checksum(self) -> str:
        """One over all rows, the same for every member that has them."""
        found = sha256()
        for name in COLUMNS:
            for line in sorted(json.dumps(row) for row in self.rows.get(name, ())):
                found.update(f"{name} {line}\n".encode())
        return found.hexdigest()


class MovableLedger(Protocol):
    """A ledger that nobody serves, to be copied from or into. All methods raise `LedgerUnusable`."""

    async def contents(self) -> Contents:
        """All that it has; nothing where there is no ledger yet."""
        ...

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Keeps these contents in the place of what it had, with their numbers; all of it or nothing.

        They were brought in from another member unless `copied` says what was brought in last.
        """
        ...


def as_row(values: Row) -> Row:
    """A row as every member can keep it: no database's yes and no, and no character zero in a text."""
    return tuple(_kept(value) for value in values)


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return int(value) if isinstance(value, bool) else value
