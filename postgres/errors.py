"""What can go wrong with the database. `docs/errors.md` draws the tree and says who reacts to what."""

from __future__ import annotations


class DatabaseError(Exception):
    """Any failure that this room reports."""


class DatabaseUnreachable(DatabaseError):
    """No connection could be had for as long as one waits for it, or the log-in was refused."""


class DatabaseUnusable(DatabaseError):
    """The database is there and cannot serve: a newer program made its tables, or the driver is missing."""


class StatementRefused(DatabaseError):
    """The server refused a statement, and its whole transaction was taken back.

    `sqlstate` is its reason, five characters of the appendix "PostgreSQL Error Codes".
    """

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
