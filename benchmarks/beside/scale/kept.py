"""How many bytes of a database a chat, a line of it, a chunk with its vector and a note take."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import LiteralString

from benchmarks.beside.many_agents import CHAT_TABLES, RECORD, sessions
from benchmarks.beside.memory_store import MemoryStore
from benchmarks.beside.stores import texts_and_vectors
from nacre.extensions.postgres.document_rows import DocumentRows
from nacre.extensions.postgres.memory_store import PostgresStore
from nacre.extensions.postgres.server.database import Database
from nacre.sessions.contracts.messages import user_message

AGENT = "kept"
CHUNKS, NOTES, NOTE_CHARS, CHATS, LINES = 2_000, 200, 1_500, 200, 20
LINE_CHARS = 200
_SIZE: LiteralString = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
    AND (%(tables)s::text[] IS NULL OR relname = ANY (%(tables)s::text[]) OR relname LIKE %(beginning)s)
"""


async def size_bytes(database: Database, tables: Sequence[str] | None = (), beginning: str = "-") -> int:
    """Of some tables with their indexes, of those whose names begin so, or, with `None`, of all."""
    values = {"tables": None if tables is None else list(tables), "beginning": f"{beginning}%"}
    row = await database.read(lambda connection: connection.execute(_SIZE, values).fetchone())
    return int(row[0]) if row else 0


async def bytes_kept(url: str) -> dict[str, float]:
    """Bytes of each, by what is added to the tables while many are."""
    database, chance = Database(url), random.Random(7)
    await database.read(lambda connection: connection.execute("SELECT 1"))
    try:
        chat, line = await _chats(database, chance)
        return {"chat": chat, "line": line, "chunk": await _chunks(database), "note": await _notes(database)}
    finally:
        await database.close()


async def _chats(database: Database, chance: random.Random) -> tuple[float, float]:
    store = sessions(database, AGENT)
    sizes = [await size_bytes(database, CHAT_TABLES)]
    opened = []
    for number in range(CHATS):
        key, record = f"chat-{number}", RECORD.__class__(session_id=f"s-{number}", updated_at_ms=1)
        async with store.turn_lock(key):
            opened.append(await store.transcript(record))
            await opened[-1].append(user_message("Hello.", timestamp_ms=1))
            await store.index.update(key, lambda _, kept=record: kept)
    sizes.append(await size_bytes(database, CHAT_TABLES))
    words = [f"{chance.randrange(16**6):06x}" for _ in range(4_000)]
    for transcript in opened:
        for _ in range(LINES):
            text = " ".join(chance.choices(words, k=LINE_CHARS // 7))
            await transcript.append(user_message(text, timestamp_ms=1))
    sizes.append(await size_bytes(database, CHAT_TABLES))
    return (sizes[1] - sizes[0]) / CHATS, (sizes[2] - sizes[1]) / CHATS / LINES


async def _chunks(database: Database) -> float:
    before = await size_bytes(database, beginning="memory")
    texts, vectors = texts_and_vectors(CHUNKS, random.Random(7))
    store = await PostgresStore.open(database, AGENT)
    await MemoryStore(store, database).add(0, texts, vectors)
    await store.tidy()
    await store.close()
    return (await size_bytes(database, beginning="memory") - before) / CHUNKS


async def _notes(database: Database) -> float:
    before = await size_bytes(database, ("documents",))
    rows = DocumentRows(database, AGENT)
    for number in range(NOTES):
        words = random.Random(number).choices([f"w{each}" for each in range(4_000)], k=NOTE_CHARS // 6)
        await rows.change(f"memory/{number}.md", partial(_whole, text=" ".join(words).encode()))
    return (await size_bytes(database, ("documents",)) - before) / NOTES


def _whole(_there: bytes | None, *, text: bytes) -> bytes:
    return text
