"""The agents of a host: what their rows are, and what its owner does to them, by a command or over HTTP."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from nacre.bridges.access.people import People
from nacre.cli.screen.json_text import camel_json
from nacre.extensions.postgres import ledger_statements
from nacre.extensions.postgres.ledger import PostgresRows
from nacre.runtime.contracts.clock import owner_clock
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
    (SELECT coalesce(sum(size_bytes), 0)::bigint FROM transcripts WHERE transcripts.agent = known.agent),
    coalesce(daily_tokens, 0), coalesce(daily_usd, 0), coalesce(quota_is_used(quota), FALSE)
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
INSERT INTO agent_quotas (agent, daily_tokens, daily_usd) VALUES (%(agent)s, %(tokens)s, %(usd)s)
ON CONFLICT (agent) DO UPDATE SET daily_tokens = EXCLUDED.daily_tokens, daily_usd = EXCLUDED.daily_usd
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
    AND attname IN ('agent', 'answered_by', 'own_agent') AND relname <> 'paused_agents'
GROUP BY relname ORDER BY relname
"""


@dataclass(frozen=True)
class HostedAgent:
    """An agent with rows: its turns that are not over, its notes, its conversations with their bytes,
    and what its turns may use a day; 0 is no limit.
    """

    id: str
    is_paused: bool
    turns: int
    notes: int
    conversations: int
    size_bytes: int
    daily_tokens: int = 0
    daily_usd: float = 0.0
    is_over_quota: bool = False


def agent_json(agent: HostedAgent) -> dict[str, object]:
    """An agent as JSON output shows it."""
    return camel_json(agent, *vars(agent))


async def hosted_agents(database: Database, agent: str | None = None) -> list[HostedAgent]:
    """All that have rows which the role may see, or the one with an id. Raises `DatabaseError`."""
    rows = await database.read(lambda connection: connection.execute(AGENTS, {"agent": agent}).fetchall())
    return [HostedAgent(*row) for row in rows]


async def find(database: Database, agent: str, listed: Collection[str]) -> HostedAgent | None:
    """An agent that has rows, or is `listed` in the settings. Raises `DatabaseError`."""
    rows = await hosted_agents(database, agent)
    return rows[0] if rows else HostedAgent(agent, False, 0, 0, 0, 0) if agent in listed else None


def people_in(config: Config, database: Database) -> People:
    """Who was let in, and who asks to be, in the ledger of the channels."""
    default = next((agent.id for agent in config.agents if agent.is_default), config.agent_id)
    tables = LedgerTables(PostgresRows(database, default), ledger_statements)
    return People(tables, now=owner_clock(config.settings.agent.user_timezone))


async def create(database: Database, user: str) -> HostedAgent | None:
    """Makes the assistant of a user, with the settings of `agents.defaults`; `None` if there is one.

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
    """Has no worker begin a turn of an agent, or has them begin again. Raises `DatabaseError`."""
    statement = PAUSE if is_paused else RESUME
    await database.write(lambda connection: connection.execute(statement, {"agent": agent}))


async def limit(database: Database, agent: HostedAgent, tokens: int | None, usd: float | None) -> None:
    """Limits what an agent's turns may use a day; 0 lifts a limit, `None` leaves it.

    Raises `DatabaseError`.
    """
    named = {
        "agent": agent.id,
        "tokens": agent.daily_tokens if tokens is None else tokens,
        "usd": agent.daily_usd if usd is None else usd,
    }
    await database.write(lambda connection: connection.execute(LIMIT, named))


async def remove(database: Database, agent: str) -> int | None:
    """Removes every row of an agent, and stays paused; how many, or `None` if it is not paused or in use.

    Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int | None:
        named = {"agent": agent}
        is_used = connection.execute(IN_USE, named).fetchone() != (False,)
        if is_used or connection.execute(ledger_statements.IS_SERVED.encode(), named).fetchone():
            return None
        removed: int = connection.execute(ANSWERS, named).rowcount
        for table, columns in connection.execute(TABLES).fetchall():
            for column in columns:  # names of the server's own catalogue
                removed += connection.execute(
                    f'DELETE FROM "{table}" WHERE {column} = %(agent)s', named
                ).rowcount
        return removed

    return await database.write(work)
