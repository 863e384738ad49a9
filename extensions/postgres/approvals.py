"""The approvals of one agent as rows of a PostgreSQL database.

The worker that asks and the gateway that receives the answer may run on different machines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.session_rows import AgentRows, Moment
from nacre.runtime.tools.approvals.store import Approval, from_bytes, to_bytes
from nacre.sessions.contracts.errors import SessionTakenOver

log = logging.getLogger(__name__)


class ApprovalTable:
    """Implements `ApprovalStore`. `fence_of` returns this process's fence of a session's lane.

    All methods raise `SessionStoreRefused`. Unreadable rows are skipped and stay.
    """

    def __init__(self, database: Database, *, agent: str, fence_of: Callable[[str], int | None]) -> None:
        self._rows = AgentRows(database, agent)
        self._fence_of = fence_of

    async def put(self, approval: Approval) -> bool:
        def work(rows: Moment) -> bool:
            self._hold(rows, approval.session_key)
            return bool(rows.run(PUT, id=approval.id, key=approval.session_key, body=to_bytes(approval)))

        return await self._rows.write(work)

    async def get(self, approval_id: str) -> Approval | None:
        return await self._rows.single(lambda rows: _one(rows, ONE, approval_id))

    async def all(self) -> tuple[Approval, ...]:
        rows = await self._rows.single(lambda rows: rows.run(ALL))
        found = [each for name, body in rows if (each := _approval(name, body)) is not None]
        return tuple(sorted(found, key=lambda approval: (approval.asked_at_ms, approval.id)))

    async def change(
        self, approval_id: str, changed: Callable[[Approval], Approval | None], *, by_turn: bool
    ) -> Approval | None:
        def work(rows: Moment) -> Approval | None:
            found = _one(rows, LOCKED, approval_id)
            if found is not None and by_turn:
                self._hold(rows, found.session_key)
            new = None if found is None else changed(found)
            if new is not None:
                rows.run(SET, id=approval_id, body=to_bytes(new))
            return new

        return await self._rows.write(work)

    async def remove(self, approval_id: str) -> None:
        await self._rows.single(lambda rows: rows.run(REMOVE, id=approval_id))

    def _hold(self, rows: Moment, key: str) -> None:
        """Raises `SessionTakenOver` if this process has lost the lane of a session."""
        fence = self._fence_of(key)
        if fence is None or rows.run(HOLDS, key=key, fence=fence):
            return
        raise SessionTakenOver(
            f"Another process has taken over the session {key!r}, because this one sent no heartbeat for a "
            "while. The call that waited for approval was not run here."
        )


def _one(rows: Moment, statement: str, approval_id: str) -> Approval | None:
    found = rows.run(statement, id=approval_id)
    return _approval(approval_id, found[0][0]) if found else None


def _approval(approval_id: str, body: bytes) -> Approval | None:
    approval = from_bytes(bytes(body))
    if approval is None or approval.id != approval_id:
        log.warning("the row of the approval %s cannot be read, and is left as it is", approval_id)
        return None
    return approval


PUT = """
INSERT INTO approvals (agent, id, session_key, body)
VALUES (%(agent)s, %(id)s, %(key)s, %(body)s) ON CONFLICT DO NOTHING RETURNING id
"""
ONE = "SELECT body FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
LOCKED = f"{ONE} FOR UPDATE"
ALL = "SELECT id, body FROM approvals WHERE agent = %(agent)s"
SET = "UPDATE approvals SET body = %(body)s WHERE agent = %(agent)s AND id = %(id)s"
REMOVE = "DELETE FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
HOLDS = """
SELECT 1 FROM lanes WHERE agent = %(agent)s AND key = %(key)s AND fence = %(fence)s FOR SHARE
"""
"""Whether a turn still holds its session; a process that takes over waits for the commit."""
