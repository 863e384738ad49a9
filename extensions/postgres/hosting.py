"""Hosted agents: listed, created, limited, paused and removed, by commands and over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from nacre.bridges.access.people import People
from nacre.cli.screen.json_text import camel_json
from nacre.extensions.postgres import ledger_statements
from nacre.extensions.postgres.ledger import PostgresRows
from nacre.extensions.postgres.workers.stored_events import REMOVED
from nacre.runtime.ledger.tables import LedgerTables
from nacre.runtime.settings.config import Config, user_agent_id

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection
    from nacre.extensions.postgres.server.database import Database

AGENTS: LiteralString = """
SELECT agent, EXISTS (SELECT FROM paused_agents WHERE paused_agents.agent = known.agent),
    (SELECT count(*) FROM turns WHERE turns.agent = known.agent AND state <> 'done'),
    (SELECT count(*) FROM documents WHERE documents.agent = known.agent AND body IS NOT NULL),
    (SELECT count(*) FROM transcripts WHERE transcripts.agent = known.agent),
    stored_bytes(agent), coalesce(daily_tokens, 0), coalesce(daily_usd, 0), coalesce(max_bytes, 0),
    quota_reached(agent) <> ''
FROM (SELECT agent FROM documents UNION SELECT agent FROM transcripts UNION SELECT agent FROM turns
    UNION SELECT agent FROM hosted_agents
    UNION SELECT agent FROM paused_agents WHERE NOT starts_with(agent, 'user-')) AS known
LEFT JOIN agent_quotas AS quota USING (agent)
WHERE %(agent)s::text IS NULL OR agent = %(agent)s ORDER BY agent
"""
"""A removed agent stays paused; it is listed only if the settings may still name it."""
CREATE: LiteralString = """
INSERT INTO hosted_agents (agent) VALUES (%(agent)s) ON CONFLICT DO NOTHING RETURNING agent
"""
PAUSE: LiteralString = "INSERT INTO paused_agents (agent) VALUES (%(agent)s) ON CONFLICT DO NOTHING"
RESUME: LiteralString = """
DELETE FROM paused_agents WHERE agent = %(agent)s RETURNING pg_notify('nacre_turns', 'asked')::text
"""
LIMIT: LiteralString = """
INSERT INTO agent_quotas (agent, daily_tokens, daily_usd, max_bytes)
VALUES (%(agent)s, coalesce(%(tokens)s, 0), coalesce(%(usd)s, 0), coalesce(%(bytes)s, 0))
ON CONFLICT (agent) DO UPDATE SET daily_tokens = coalesce(%(tokens)s, agent_quotas.daily_tokens),
    daily_usd = coalesce(%(usd)s, agent_quotas.daily_usd),
    max_bytes = coalesce(%(bytes)s, agent_quotas.max_bytes)
"""
IN_USE: LiteralString = """
SELECT NOT EXISTS (SELECT FROM paused_agents WHERE agent = %(agent)s)
    OR EXISTS (SELECT FROM turns WHERE agent = %(agent)s AND state = 'running')
    OR EXISTS (SELECT FROM lanes JOIN processes ON processes.number = life
        WHERE agent = %(agent)s AND held_until = 'infinity' AND alive_until > clock_timestamp())
"""
END_WAITING: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND state = 'waiting'
    AND EXISTS (SELECT FROM paused_agents WHERE paused_agents.agent = turns.agent)
RETURNING pg_notify('nacre_turns', 'ended')::text
"""
IS_AWAITED: LiteralString = """
SELECT FROM ledger_inbound JOIN paused_agents ON paused_agents.agent = answered_by
JOIN ledger_holders ON ledger_holders.agent = ledger_inbound.agent
JOIN processes ON processes.number = ledger_holders.process AND alive_until > clock_timestamp()
WHERE answered_by = %(agent)s AND state IN ('waiting', 'running') LIMIT 1
"""
ANSWERS: LiteralString = """
DELETE FROM ledger_outbound USING ledger_inbound AS asked
WHERE asked.answered_by = %(agent)s AND ledger_outbound.agent = asked.agent
    AND ledger_outbound.turn IN (nullif(asked.turn, 0), asked.number)
"""
"""Its answers are rows of the agent whose program serves the channels."""
TABLES: LiteralString = """
SELECT relname, array_agg(attname::text) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND attname IN ('agent', 'answered_by', 'own_agent') AND relname <> 'paused_agents'
GROUP BY relname ORDER BY relname
"""


GATEWAY_SECONDS = 8.0
"""How long a gateway may take to read how turns ended; it looks after five even if it was not notified."""


@dataclass(frozen=True)
class HostedAgent:
    """An agent with rows: the numbers of its unfinished turns, notes and conversations, the bytes of the last
    two, and its limits; 0 means no limit.
    """

    id: str
    is_paused: bool
    turns: int
    notes: int
    conversations: int
    size_bytes: int
    daily_tokens: int = 0
    daily_usd: float = 0.0
    max_bytes: int = 0
    is_over_quota: bool = False


def agent_json(agent: HostedAgent) -> dict[str, object]:
    return camel_json(agent, *vars(agent))


async def hosted_agents(database: Database, agent: str | None = None) -> list[HostedAgent]:
    """All agents with rows that the database role may see, or the one with an ID. Raises `DatabaseError`."""
    rows = await database.read(lambda connection: connection.execute(AGENTS, {"agent": agent}).fetchall())
    return [HostedAgent(*row) for row in rows]


async def find(database: Database, agent: str, listed: Collection[str]) -> HostedAgent | None:
    """An agent that has rows or is `listed` in the settings. Raises `DatabaseError`."""
    rows = await hosted_agents(database, agent)
    return rows[0] if rows else HostedAgent(agent, False, 0, 0, 0, 0) if agent in listed else None


def people_in(config: Config, database: Database) -> People:
    """The admitted people and the pairing requests in the ledger of the channels."""
    default = next((agent.id for agent in config.agents if agent.is_default), config.agent_id)
    tables = LedgerTables(PostgresRows(database, default), ledger_statements)
    return People(tables, now=config.clock)


async def create(database: Database, user: str) -> HostedAgent | None:
    """Creates the assistant of a user, with the settings of `agents.defaults`; `None` if it exists.

    Raises:
        ConfigError: the name is blank.
        DatabaseError: the database cannot be used.
    """
    agent = user_agent_id(user)

    def work(connection: Connection) -> bool:
        is_new = connection.execute(CREATE, {"agent": agent}).fetchone() is not None
        if is_new:
            connection.execute(RESUME, {"agent": agent})
        return is_new

    return (await hosted_agents(database, agent))[0] if await database.write(work) else None


async def pause(database: Database, agent: str, *, is_paused: bool) -> None:
    """Pauses or resumes an agent: workers start no turn of a paused one. Raises `DatabaseError`."""
    statement = PAUSE if is_paused else RESUME
    await database.write(lambda connection: connection.execute(statement, {"agent": agent}))


async def limit(
    database: Database, agent: str, *, tokens: int | None, usd: float | None, max_bytes: int | None
) -> None:
    """Limits the daily usage of an agent's turns and the bytes of its conversations and notes.

    0 removes a limit, `None` keeps it. Raises `DatabaseError`.
    """
    named = {"agent": agent, "tokens": tokens, "usd": usd, "bytes": max_bytes}
    await database.write(lambda connection: connection.execute(LIMIT, named))


async def remove(database: Database, agent: str) -> int | None:
    """Removes all rows of a paused agent and returns their number; `None` if it is not paused or in use.

    Waiting messages end without an answer first, and a gateway has time to read that. The agent stays paused.
    Raises `DatabaseError`.
    """
    named = {"agent": agent, "outcome": REMOVED}

    def end(connection: Connection) -> bool:
        connection.execute(END_WAITING, named)
        return connection.execute(IS_AWAITED, named).fetchone() is not None

    until = time.monotonic() + GATEWAY_SECONDS
    while await database.write(end) and time.monotonic() < until:  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.1)

    def work(connection: Connection) -> int | None:
        is_used = connection.execute(IN_USE, named).fetchone() != (False,)
        if is_used or connection.execute(ledger_statements.IS_SERVED.encode(), named).fetchone():
            return None
        removed: int = connection.execute(ANSWERS, named).rowcount
        for table, columns in connection.execute(TABLES).fetchall():
            for column in columns:  # names from the server's catalog
                removed += connection.execute(
                    f'DELETE FROM "{table}" WHERE {column} = %(agent)s', named
                ).rowcount
        return removed

    return await database.write(work)
