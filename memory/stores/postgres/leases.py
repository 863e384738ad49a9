"""What one process at a time may do with an index: a row says who and until when, by the server's clock.

A lease is renewed while its holder lives, so a process that was killed is in nobody's way for longer than
`LEASE_SECONDS`. No connection is kept for it: it outlives a lost one, and goes through any pool.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from nacre.postgres.errors import DatabaseError

if TYPE_CHECKING:
    from nacre.postgres.database import Database
    from nacre.postgres.pool import Connection

LEASE_SECONDS = 60
RENEW_SECONDS = 15.0
WAIT_SECONDS = 30.0
"""How long a writer waits for somebody else's lease."""
LOOK_AGAIN_SECONDS = 0.05

Kind: TypeAlias = Literal["building", "alone"]
_TAKE: LiteralString = """
UPDATE memory_indexes SET {kind}_by = gen_random_uuid()::text,
    {kind}_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND ({kind}_by IS NULL OR {kind}_until < clock_timestamp()) RETURNING {kind}_by
"""
_RENEW: LiteralString = """
UPDATE memory_indexes SET {kind}_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND {kind}_by = %(holder)s
"""
_LET_GO: LiteralString = """
UPDATE memory_indexes SET {kind}_by = NULL, {kind}_until = NULL
WHERE agent = %(agent)s AND {kind}_by = %(holder)s
"""


class Lease:
    """A lease that is held. `take` makes it; somebody has to `release` it."""

    def __init__(self, database: Database, agent: str, kind: Kind, holder: str) -> None:
        self._database = database
        self._values = {"agent": agent, "holder": holder, "seconds": LEASE_SECONDS}
        self._kind: Kind = kind
        self.holder = holder
        self._renewing = asyncio.create_task(self._renew(), name=f"memory-{kind}")

    @classmethod
    async def take(
        cls, database: Database, agent: str, kind: Kind, *, wait_seconds: float = 0.0
    ) -> Lease | None:
        """The lease, or `None` when another process kept it for so long."""
        values = {"agent": agent, "seconds": LEASE_SECONDS}

        def take(connection: Connection) -> str | None:
            row = connection.execute(_TAKE.replace("{kind}", kind), values).fetchone()
            return None if row is None else str(row[0])

        deadline = time.monotonic() + wait_seconds
        while (holder := await database.write(take)) is None:
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return cls(database, agent, kind, holder)

    async def release(self) -> None:
        """Lets go; safe to repeat."""
        self._renewing.cancel()
        await asyncio.wait({self._renewing})
        await self._run(_LET_GO)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            # The next try may reach the server; who uses the lease asks whether it is still held.
            with suppress(DatabaseError):
                await self._run(_RENEW)

    async def _run(self, sql: LiteralString) -> None:
        statement = sql.replace("{kind}", self._kind)
        await self._database.write(lambda connection: connection.execute(statement, self._values) and None)
