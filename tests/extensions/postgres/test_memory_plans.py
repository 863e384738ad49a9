"""No statement of the memory looks at another agent's rows: what the server plans for each is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from nacre.extensions.postgres.memory_store import PostgresIndexPlace
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.records import FailedFile
from nacre.memory.contracts.store import Scope, Store
from nacre.memory.contracts.words import Atom
from nacre.memory.text.lexical import match_query
from tests.extensions.postgres.conftest import AGENT
from tests.memory.stores.sample_index import BOTH, chunk, embed, indexed, put

pytestmark = pytest.mark.postgres

_OWN_ROWS = re.compile(rf"\bagent = '{AGENT}'::text")
_INSERTED = re.compile(r"^INSERT INTO memory_\w+ \(agent\b")
_PLANNED = re.compile(r"^(SELECT|INSERT|UPDATE|DELETE|WITH)\b")


class PlansOf:
    """A connection that has the server say what it would do, before each statement that it does."""

    def __init__(self, connection: Any, plans: dict[str, Any]) -> None:
        self._connection = connection
        self._plans = plans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, values: Mapping[str, Any], **options: bool) -> Any:
        if sql not in self._plans and _PLANNED.match(sql.strip()):
            row = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), values).fetchone()
            assert row is not None
            self._plans[sql] = row[0] if isinstance(row[0], list) else json.loads(row[0])
        return self._connection.execute(sql.encode(), values, **options)

    def cursor(self) -> PlansOf:
        return self

    def __enter__(self) -> PlansOf:
        return self

    def __exit__(self, *ended: object) -> None:
        return None

    def executemany(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for values in rows:
            self.execute(sql, values)


class PlannedDatabase(Database):
    """A database that keeps the plan of each statement of the memory."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.plans: dict[str, Any] = {}

    async def read(self, work: Any) -> Any:
        return await super().read(lambda connection: work(PlansOf(connection, self.plans)))

    async def write(self, work: Any) -> Any:
        return await super().write(lambda connection: work(PlansOf(connection, self.plans)))


async def test_no_statement_crosses_agents(database_url: str) -> None:
    """Each part of each plan that reads a table asks for the agent; each row that is added names it."""
    database = PlannedDatabase(database_url)
    await _everything(database)

    crossing = [
        f"{node['Relation Name']} in {sql}"
        for sql, plan in database.plans.items()
        for node in _nodes(plan[0]["Plan"])
        if str(node.get("Relation Name", "")).startswith("memory_") and not _asks_for_the_agent(sql, node)
    ]
    tables = {name for sql in database.plans for name in re.findall(r"\bmemory_[a-z_]+\b", sql)}
    await database.close()
    assert crossing == []
    assert len(database.plans) > 60
    assert tables >= {
        "memory_chunks",
        "memory_words",
        "memory_vectors",
        "memory_chunk_vectors",
        "memory_meta",
    }


def _asks_for_the_agent(sql: str, node: Mapping[str, Any]) -> bool:
    if node["Node Type"] == "ModifyTable":
        return node["Operation"] != "Insert" or _INSERTED.match(sql.strip()) is not None
    conditions = [str(node.get(key, "")) for key in ("Index Cond", "Filter", "Recheck Cond")]
    if node["Node Type"] == "Bitmap Heap Scan":
        conditions += [str(inner.get("Index Cond", "")) for inner in node["Plans"]]
    return _OWN_ROWS.search(" ".join(conditions)) is not None


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


async def _everything(database: Database) -> None:
    """Whatever the memory asks of a store."""
    place = PostgresIndexPlace(database, AGENT)
    store = await place.open()
    await put(store, indexed(chunk("red apples"), chunk("green pears", ordinal=1)))
    await embed(store, {"red apples": [1.0, 0.0], "green pears": None})
    await _write(store)
    await _read(store)
    rebuild = await store.begin_rebuild({})
    await put(rebuild.store, indexed(chunk("blue plums")))
    await rebuild.leave()
    assert await store.has_unfinished_rebuild({})
    assert not await store.has_unfinished_rebuild({"other": "1"})
    rebuild = await store.begin_rebuild({})
    async with rebuild.alone():
        await rebuild.publish()
    await store.begin_anew()
    assert await store.check() == ""


async def _write(store: Store) -> None:
    file = indexed(chunk("green pears"), chunk("blue plums", ordinal=1), digest="2")
    failed = FailedFile(path="x.md", problem="no", attempts=1, retry_at_seconds=5.0)
    await put(store, file)
    await store.write(lambda index: index.set_meta({"a": "1"}))
    await store.write(lambda index: index.touch_files([file.state]))
    await store.write(lambda index: index.set_failures("memory", [failed], ["y.md"]))
    await store.write(lambda index: index.evict(keep_unused=0))
    await put(store, indexed(chunk("gone", path="memory/gone.md")))
    await store.write(lambda index: index.remove_files("memory", ["memory/gone.md"]))


async def _read(store: Store) -> None:
    await embed(store, {"blue plums": [1.0, 1.0]})
    asked = match_query("plums and pears")
    assert asked is not None
    scope = Scope(sources=("memory",), below="memory")
    await store.search(lambda index: index.lexical(asked, limit=5, scope=BOTH))
    await store.search(lambda index: index.lexical(asked, limit=5, scope=scope))
    await store.search(lambda index: (index.is_known(Atom("plum")), index.vector_engine()))
    await store.search(lambda index: index.begin_nearest([1.0, 0.0], limit=5, scope=scope)())
    await store.search(lambda index: index.cosines([1.0, 0.0], [1]))
    await store.search(lambda index: (index.places([1]), index.texts([1]), index.chunks([1])))
    await store.search(lambda index: (index.sampled_texts(3), index.refused(limit=5), index.counts()))
    await store.read(lambda index: (index.meta(), index.stored_file("memory", "memory/a.md")))
    await store.read(lambda index: (index.file_states("memory"), index.failures("memory")))
    await store.read(lambda index: index.without_vectors(above_id=0, limit=5))
    await store.write(lambda index: index.detach_vectors())
