"""Agents of a database as their host sees them: counted, paused, and removed. Edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from nacre.extensions.postgres.ledger_statements import IS_SERVED

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection
    from nacre.extensions.postgres.server.database import Database

AGENTS: LiteralString = """
SELECT agent, EXISTS (SELECT FROM paused_agents WHERE paused_agents.agent = known.agent),
    (SELECT count(*) FROM turns WHERE turns.agent = known.agent AND state <> 'done'),
    (SELECT count(*) FROM documents WHERE documents.agent = known.agent AND body IS NOT NULL),
    (SELECT count(*) FROM transcripts WHERE transcripts.agent = known.agent),
    (SELECT coalesce(sum(size_bytes), 0)::bigint FROM transcripts WHERE transcripts.agent = known.agent)
FROM (SELECT agent FROM documents UNION SELECT agent FROM transcripts UNION SELECT agent FROM turns
    UNION SELECT agent FROM paused_agents) AS known ORDER BY agent
"""
PAUSE: LiteralString = "INSERT INTO paused_agents (agent) VALUES (%(agent)s) ON CONFLICT DO NOTHING"
RESUME: LiteralString = """
DELETE FROM paused_agents WHERE agent = %(agent)s RETURNING pg_notify('nacre_turns', 'asked')::text
"""
IN_USE: LiteralString = """
SELECT NOT EXISTS (SELECT FROM paused_agents WHERE agent = %(agent)s)
    OR EXISTS (SELECT FROM turns WHERE agent = %(agent)s AND state = 'running')
    OR EXISTS (SELECT FROM lanes JOIN processes ON processes.number = life
        WHERE agent = %(agent)s AND held_until = 'infinity' AND alive_until > clock_timestamp())
"""
ANSWERS: LiteralString = """
DELETE FROM ledger_outbound USING ledger_inbound AS asked
WHERE asked.answered_by = %(agent)s AND ledger_outbound.agent = asked.agent
    AND ledger_outbound.turn IN (asked.turn, asked.number)
"""
"""What it answered lies with the agent whose program serves the channels."""
TABLES: LiteralString = """
SELECT relname, array_agg(attname::text) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND attname IN ('agent', 'answered_by') AND relname <> 'paused_agents' GROUP BY relname ORDER BY relname
"""


@dataclass(frozen=True)
class HostedAgent:
    """An agent with rows: its turns that are not over, its notes, its conversations with their bytes."""

    id: str
    is_paused: bool
    turns: int
    notes: int
    conversations: int
    size_bytes: int


async def hosted_agents(database: Database) -> list[HostedAgent]:
    """All that have rows which the role may see. Raises `DatabaseError`."""
    return await database.read(
        lambda connection: [HostedAgent(*row) for row in connection.execute(AGENTS).fetchall()]
    )


async def pause(database: Database, agent: str, *, is_paused: bool) -> None:
    """Has no worker begin a turn of an agent, or has them begin again. Raises `DatabaseError`."""
    statement = PAUSE if is_paused else RESUME
    await database.write(lambda connection: connection.execute(statement, {"agent": agent}))


async def remove(database: Database, agent: str) -> int | None:
    """Removes every row of an agent, and stays paused; how many, or `None` if it is not paused or in use.

    Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int | None:
        named = {"agent": agent}
        is_used = connection.execute(IN_USE, named).fetchone() != (False,)
        if is_used or connection.execute(IS_SERVED.encode(), named).fetchone():
            return None
        removed: int = connection.execute(ANSWERS, named).rowcount
        for table, columns in connection.execute(TABLES).fetchall():
            for column in columns:  # names of the server's own catalogue
                removed += connection.execute(
                    f'DELETE FROM "{table}" WHERE {column} = %(agent)s', named
                ).rowcount
        return removed

    return await database.write(work)
