"""What one agent's turn and search cost in a database with the rows of many; feeds docs/engineering/scale.md.

    python -m benchmarks.beside.many_agents postgresql://… [--agents 1,1000,10000] [--chunks 20] [--lines 40]
        [--partitions 0]

The database must be an empty one. One agent is filled through the stores, and the server copies its rows to
the others: the same words and vectors for each, so that an index that is not an agent's own would show it.
`--partitions` makes each table anew first, spread by a hash of the agent. A turn is what the sessions' store
does for one, without a model: the lane, the session, two lines of its transcript and its line in the index.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString

from benchmarks.beside.memory_store import POOL, SCOPE, MemoryStore
from benchmarks.beside.stores import texts_and_vectors
from nacre.extensions.postgres.memory_store import PostgresStore
from nacre.extensions.postgres.memory_words import mark_of
from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.session_store import PostgresSessionStore
from nacre.memory.contracts.store import Snapshot
from nacre.memory.text.lexical import match_query
from nacre.sessions.contracts.messages import user_message
from nacre.sessions.index.record import SessionRecord

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection

ASKED = 200
FIRST = "agent-0"
KEY = "main"
RECORD = SessionRecord(session_id="s-1", updated_at_ms=1)
COPIED_AT_ONCE = 500
CHAT_TABLES = ("session_lines", "transcripts", "transcript_lines", "whole_results", "lanes")
_TABLES: LiteralString = """
SELECT c.relname, array_agg(a.attname ORDER BY a.attnum) FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = ''
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'agent')
    AND c.relname <> 'agent_roles'
GROUP BY c.relname
"""
_SIZE: LiteralString = r"""
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
    AND regexp_replace(relname, '_[0-9]+$', '') = ANY (%s::text[])
"""


def _spread(connection: Connection, partitions: int) -> None:
    """Makes each table anew, spread by a hash of its agent."""
    for table, _ in connection.execute(_TABLES).fetchall():
        connection.execute(f"ALTER TABLE {table} RENAME TO {table}_whole".encode())
        connection.execute(
            f"CREATE TABLE {table} (LIKE {table}_whole INCLUDING ALL) PARTITION BY HASH (agent)".encode()
        )
        for number in range(partitions):
            connection.execute(
                f"CREATE TABLE {table}_{number} PARTITION OF {table} "
                f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})".encode()
            )
        connection.execute(f"DROP TABLE {table}_whole".encode())


def _copied(connection: Connection, first: int, behind: int) -> None:
    """The rows of the first agent again for those of these numbers."""
    agents = [f"agent-{number}" for number in range(first, behind)]
    values = {"agents": agents, "marks": [mark_of(agent) for agent in agents], "mark": mark_of(FIRST)}
    for table, columns in connection.execute(_TABLES).fetchall():
        taken = [
            "replace(t.words::text, %(mark)s, n.mark)::tsvector"
            if (table, each) == ("memory_words", "words")
            else f"t.{each}"
            for each in columns
            if each != "agent"
        ]
        named = [each for each in columns if each != "agent"]
        connection.execute(
            f"INSERT INTO {table} (agent, {', '.join(named)}) SELECT n.agent, {', '.join(taken)} "
            f"FROM {table} t, unnest(%(agents)s::text[], %(marks)s::text[]) n (agent, mark) "
            f"WHERE t.agent = '{FIRST}'".encode(),
            values,
        )


def sessions(database: Database, agent: str) -> PostgresSessionStore:
    """The sessions of an agent."""
    return PostgresSessionStore(
        database, agent=agent, cwd="/", now=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex[:8]
    )


async def _turn(database: Database, agent: str) -> None:
    store = sessions(database, agent)
    async with store.turn_lock(KEY) as is_ours:
        assert is_ours
        record = await store.index.get(KEY) or RECORD
        transcript = await store.transcript(record)
        for text in ("What did I say about the harbour?", "That the boats leave at six."):
            await transcript.append(user_message(text, timestamp_ms=1))
        await store.index.update(KEY, lambda line: line or RECORD)


async def _first_agent(database: Database, chunks: int, lines: int, chance: random.Random) -> tuple[Any, Any]:
    """Fills one agent; its texts and vectors."""
    texts, vectors = texts_and_vectors(chunks, chance)
    store = await PostgresStore.open(database, FIRST)
    await MemoryStore(store, database).add(0, texts, vectors)
    await store.tidy()
    await store.close()
    store_of_chats = sessions(database, FIRST)
    await store_of_chats.index.update(KEY, lambda _: RECORD)
    transcript = await store_of_chats.transcript(RECORD)
    said, _ = texts_and_vectors(lines, chance)
    for text in said:
        await transcript.append(user_message(text, timestamp_ms=1))
    return texts, vectors


async def _times(work: Callable[[str], Awaitable[object]], agents: list[str]) -> str:
    """How long it takes for each of these agents, p50 and p95: at first, and again."""
    return " | ".join([await _once(work, agents) for _ in range(2)])


async def _once(work: Callable[[str], Awaitable[object]], agents: list[str]) -> str:
    took = []
    for agent in agents:
        began = time.perf_counter()
        await work(agent)
        took.append(1_000 * (time.perf_counter() - began))
    took.sort()
    return f"{took[len(took) // 2]:.1f} / {took[len(took) * 95 // 100]:.1f}"


async def measure(told: argparse.Namespace) -> None:
    """Prints a row for each number of agents."""
    database, chance = Database(told.url), random.Random(7)
    await database.read(lambda connection: connection.execute("SELECT 1"))
    if told.partitions:
        await database.write(partial(_spread, partitions=told.partitions))
    texts, vectors = await _first_agent(database, told.chunks, told.lines, chance)

    async def search(agent: str) -> None:
        number = chance.randrange(told.chunks)
        asked = match_query(" ".join(dict.fromkeys(texts[number].split()[:6])))
        assert asked is not None
        store = PostgresStore(database, agent)

        def look(moment: Snapshot) -> None:
            found = moment.begin_nearest(vectors[number], limit=POOL, scope=SCOPE)()
            assert found
            assert moment.lexical(asked, limit=POOL, scope=SCOPE)

        await store.search(look)
        await store.close()

    print(
        "| Agents | search, ms, p50 / p95 | again | turn, ms, p50 / p95 | again | KB an agent | KB a chat |\n"
        "|---|---|---|---|---|---|---|"
    )
    there = 1
    for agents in told.agents:
        while there < agents:
            behind = min(there + COPIED_AT_ONCE, agents)
            await database.write(partial(_copied, first=there, behind=behind))
            there = behind
        await database.single(lambda connection: connection.execute("ANALYZE"))
        tables = await database.read(lambda connection: connection.execute(_TABLES).fetchall())
        some = [f"agent-{chance.randrange(agents)}" for _ in range(ASKED)]
        searched = await _times(search, some)
        turned = await _times(partial(_turn, database), some)
        sizes = [
            await _size(database, [name for name, _ in tables]),
            await _size(database, list(CHAT_TABLES)),
        ]
        kilobytes = " | ".join(f"{size / agents / 1_000:.0f}" for size in sizes)
        print(f"| {agents} | {searched} | {turned} | {kilobytes} |", flush=True)
    await database.close()


async def _size(database: Database, tables: list[str]) -> int:
    row = await database.read(lambda connection: connection.execute(_SIZE, (tables,)).fetchone())
    return int(row[0]) if row else 0


def main() -> None:
    """Fills and measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument(
        "--agents", type=lambda text: [*map(int, text.split(","))], default=[1, 1_000, 10_000]
    )
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--partitions", type=int, default=0)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
