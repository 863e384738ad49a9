"""The approvals of one agent as rows of a PostgreSQL database.

The worker that asks and the gateway that receives the answer may run on different machines.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, LiteralString, TypeVar

from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.tools.approvals.store import Approval, from_bytes, to_bytes
from nacre.sessions.contracts.errors import SessionStoreRefused, SessionTakenOver

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


log = logging.getLogger(__name__)

T = TypeVar("T")


class ApprovalTable:
    """Implements `ApprovalStore`. `fence_of` returns this process's fence of a session's lane.

    All methods raise `SessionStoreRefused`. Unreadable rows are skipped and stay.
    """

    def __init__(self, database: Database, *, agent: str, fence_of: Callable[[str], int | None]) -> None:
        self._database = database
        self._agent = agent
        self._fence_of = fence_of

    async def put(self, approval: Approval) -> bool:
        def work(connection: Connection) -> bool:
            self._hold(connection, approval.session_key)
            row = {"id": approval.id, "key": approval.session_key, "body": to_bytes(approval)}
            return bool(connection.execute(PUT, {"agent": self._agent, **row}).rowcount)

        return await _told(self._database.write(work))

    async def get(self, approval_id: str) -> Approval | None:
        return await _told(self._database.single(lambda db: self._one(db, ONE, approval_id)))

    async def all(self) -> tuple[Approval, ...]:
        values = {"agent": self._agent}
        rows = await _told(self._database.single(lambda db: db.execute(ALL, values).fetchall()))
        found = [each for name, body in rows if (each := _approval(name, body)) is not None]
        return tuple(sorted(found, key=lambda approval: (approval.asked_at_ms, approval.id)))

    async def change(
        self, approval_id: str, changed: Callable[[Approval], Approval | None], *, by_turn: bool
    ) -> Approval | None:
        def work(connection: Connection) -> Approval | None:
            found = self._one(connection, LOCKED, approval_id)
            if found is not None and by_turn:
                self._hold(connection, found.session_key)
            new = None if found is None else changed(found)
            if new is not None:
                row = {"agent": self._agent, "id": approval_id, "body": to_bytes(new)}
                connection.execute(SET, row)
            return new

        return await _told(self._database.write(work))

    async def remove(self, approval_id: str) -> None:
        row = {"agent": self._agent, "id": approval_id}
        await _told(self._database.single(lambda connection: connection.execute(REMOVE, row)))

    def _one(self, connection: Connection, statement: str, approval_id: str) -> Approval | None:
        values = {"agent": self._agent, "id": approval_id}
        row = connection.execute(statement.encode(), values).fetchone()
        return None if row is None else _approval(approval_id, row[0])

    def _hold(self, connection: Connection, key: str) -> None:
        """Raises `SessionTakenOver` if this process has lost the lane of a session."""
        fence = self._fence_of(key)
        values = {"agent": self._agent, "key": key, "fence": fence}
        if fence is None or connection.execute(HOLDS, values).fetchone() is not None:
            return
        raise SessionTakenOver(
            f"Another process went on with the session {key!r}, because this one did not say for a while "
            "that it was still at it. The call that waited for approval was not run here."
        )


def _approval(approval_id: str, body: bytes) -> Approval | None:
    approval = from_bytes(bytes(body))
    if approval is None or approval.id != approval_id:
        log.warning("the row of the approval %s cannot be read, and is left as it is", approval_id)
        return None
    return approval


async def _told(work: Awaitable[T]) -> T:
    try:
        return await work
    except DatabaseError as error:
        raise SessionStoreRefused(str(error)) from error


PUT: LiteralString = """
INSERT INTO approvals (agent, id, session_key, body)
VALUES (%(agent)s, %(id)s, %(key)s, %(body)s) ON CONFLICT DO NOTHING RETURNING id
"""
ONE: LiteralString = "SELECT body FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
LOCKED: LiteralString = f"{ONE} FOR UPDATE"
ALL: LiteralString = "SELECT id, body FROM approvals WHERE agent = %(agent)s"
SET: LiteralString = "UPDATE approvals SET body = %(body)s WHERE agent = %(agent)s AND id = %(id)s"
REMOVE: LiteralString = "DELETE FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
HOLDS: LiteralString = """
SELECT 1 FROM lanes WHERE agent = %(agent)s AND key = %(key)s AND fence = %(fence)s FOR SHARE
"""
"""Whether a turn still holds its session; a process that takes over waits for the commit."""
