"""Forgets turns that say something: how they ended, and those that wait for a worker. Edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nacre.bridges.workers import statements
from nacre.postgres.database import Database

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection


async def forget_turns(database: Database, agent_id: str, says: Callable[[str], bool]) -> int:
    """Removes the rows of ended turns that `says` is true of, with what was said into them; how many.

    Whoever hands such a message in again has its answer from the transcript. Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int:
        rows = connection.execute(statements.ENDED, {"agent": agent_id}).fetchall()
        ids = [turn_id for turn_id, *texts in rows if any(says(text or "") for text in texts)]
        connection.execute(statements.FORGET_ENDED, {"agent": agent_id, "ids": ids})
        return len(ids)

    return await database.write(work)


async def forget_waiting_turns(
    database: Database, agent_id: str, says: Callable[[str], bool], *, dry_run: bool
) -> int:
    """Removes the turns that no worker has begun and that `says` is true of; how many there are.

    The job of such a turn finds none, and is done. Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int:
        rows = connection.execute(statements.WAITING, {"agent": agent_id}).fetchall()
        ids = [turn_id for turn_id, inbound in rows if says(inbound)]
        if not dry_run:
            connection.execute(statements.FORGET_WAITING, {"agent": agent_id, "ids": ids})
        return len(ids)

    return await database.write(work)
