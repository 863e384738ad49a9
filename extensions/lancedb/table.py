"""The table `memories` in LanceDB: the only file that knows lancedb and pyarrow.

Every write is one commit of LanceDB's, so a kill leaves it done or not done. Programs that write to one table
at once do not hinder each other; each read sees what was committed before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from tenacity import retry, stop_after_attempt

from nacre.extensions.lancedb.columns import (
    NOT_YET,
    SHOWN,
    TABLE,
    added_columns,
    is_of,
    literal,
    to_memory,
    to_row,
    vector_dimensions,
    words_of,
)
from nacre.extensions.lancedb.records import FoundByWords, FoundNear, Memory, Scope, Vector
from nacre.memory.contracts.errors import MemoryIndexError

log = logging.getLogger(__name__)

KEPT_VERSIONS = timedelta(hours=1)
NO_VERSIONS = timedelta(milliseconds=1)
"""How long another program may go on reading what was replaced; then it leaves the disk."""
TIDY_AFTER_WRITES = 32
_WRITTEN_AT_ONCE = 512
_FIRST_DIMENSIONS = 1
"""Of a table that has no vectors yet; the first one makes the column anew."""
# Another program may change columns or make the index at once: LanceDB refuses one, which looks again.
_again_after_others = retry(stop=stop_after_attempt(9), reraise=True)


class TableUnusable(MemoryIndexError):
    """The LanceDB table cannot be opened, read or written; the text is a sentence about it."""


class MemoryTable:
    """An open table. All methods raise `TableUnusable`."""

    def __init__(self, table: Any, place: str, agent_id: str) -> None:
        self._table = table
        self._place = place
        self._agent_id = agent_id
        self._writing = asyncio.Lock()
        self._writes = 0

    @classmethod
    async def open(cls, place: str, *, agent_id: str, storage_options: Mapping[str, str]) -> MemoryTable:
        """Opens the table in a folder or object store, or makes it; what a foreign one lacks is added.

        Raises:
            TableUnusable: LanceDB is not installed, or cannot open it. Nothing was changed then.
        """
        if find_spec("lancedb") is None:
            raise TableUnusable(
                "The package lancedb is not installed. Install it with pip install 'nacre[lancedb]'."
            )
        await asyncio.to_thread(import_module, "lancedb")  # more than a second, and nobody else should wait
        async with _told(place, "opened"):
            import lancedb

            database = await lancedb.connect_async(
                place, storage_options=dict(storage_options), read_consistency_interval=timedelta(0)
            )
            opened = cls(await _opened_or_made(database), place, agent_id)
            await opened._complete()
            return opened

    async def close(self) -> None:
        """Tidies what was written, and lets go of the table."""
        if self._writes:
            await self.tidy()
        self._table.close()

    async def add(self, memory: Memory, vector: Vector | None, embedder: str) -> None:
        """Stores a memory; without a vector until it gets one."""
        import pyarrow

        async with self._writing, _told(self._place, "written"):
            if vector is not None:
                await self._ensure_dimensions(len(vector))
            row = to_row(memory, self._agent_id, vector, embedder)
            await self._table.add(pyarrow.Table.from_pylist([row], schema=await self._table.schema()))
            self._writes += 1
        if self._writes >= TIDY_AFTER_WRITES:
            await self.tidy()

    async def delete(self, memory_id: str, scope: Scope) -> bool:
        """Removes a row of the scope; whether there was one."""
        async with self._writing, _told(self._place, "written"):
            self._writes += 1
            deleted = await self._table.delete(f"{is_of(scope)} AND `id` = {literal(memory_id)}")
            return bool(deleted.num_deleted_rows)

    async def near(self, vector: Vector, embedder: str, scope: Scope, limit: int) -> list[FoundNear]:
        """The rows with the nearest vectors of this embedder, by cosine."""
        async with _told(self._place, "read"):
            if vector_dimensions(await self._table.schema()) != len(vector):
                return []
            query = (
                self._table.query()
                .where(f"{is_of(scope)} AND `embedder` = {literal(embedder)}")
                .nearest_to(list(vector))
                .distance_type("cosine")
                .select([*SHOWN, "words", "_distance"])
                .limit(limit)
            )
            rows = await _unless_made_anew(query) or []
        return [FoundNear(to_memory(row), 1 - row["_distance"], row["words"]) for row in rows]

    async def by_words(self, words: str, embedder: str, scope: Scope, limit: int) -> list[FoundByWords]:
        """The rows that have any of the words, the best first; vectors of another embedder are left out."""
        async with _told(self._place, "read"):
            from lancedb.query import MatchQuery

            found = self._table.query().where(is_of(scope)).nearest_to_text(MatchQuery(words, "words"))
            query = found.select([*SHOWN, "words", "vector", "embedder", "_score"]).limit(limit)
            rows = await _unless_made_anew(query)
            if rows is None:
                rows = await query.select([*SHOWN, "words", "embedder", "_score"]).to_list()
        made = [row.get("vector") if row["embedder"] == embedder != NOT_YET else None for row in rows]
        return [
            FoundByWords(to_memory(row), row["_score"], row["words"], vector)
            for row, vector in zip(rows, made, strict=True)
        ]

    async def all(self, scope: Scope, *, beginning: str = "") -> list[Memory]:
        """The rows of a scope, or those whose id has this beginning, the newest first."""
        rows_of = is_of(scope) + (f" AND starts_with(`id`, {literal(beginning)})" if beginning else "")
        async with _told(self._place, "read"):
            rows = await self._table.query().where(rows_of).select(list(SHOWN)).to_list()
        return sorted(map(to_memory, rows), key=lambda memory: (-memory.created_at_ms, memory.id))

    async def without_vector(self, embedder: str) -> list[tuple[str, str]]:
        """Id and text of this agent's rows that have no vector of this embedder."""
        async with _told(self._place, "read"):
            rows = await self._table.query().where(self._waiting(embedder)).select(["id", "text"]).to_list()
        return [(row["id"], row["text"]) for row in rows]

    async def count_without_vector(self, embedder: str) -> int:
        """How many these are."""
        async with _told(self._place, "read"):
            return int(await self._table.count_rows(self._waiting(embedder)))

    async def count(self, scope: Scope) -> int:
        """How many rows a scope has."""
        async with _told(self._place, "read"):
            return int(await self._table.count_rows(is_of(scope)))

    async def set_vectors(self, vectors: Mapping[str, Vector], embedder: str) -> None:
        """Gives rows, by id, their vectors; rows that are gone stay gone."""
        async with self._writing, _told(self._place, "written"):
            import pyarrow

            dimensions = len(next(iter(vectors.values())))
            await self._ensure_dimensions(dimensions)
            kind = pyarrow.list_(pyarrow.float32(), dimensions)
            await self._merge(
                {
                    "id": pyarrow.array(list(vectors)),
                    "vector": pyarrow.array(list(map(list, vectors.values())), kind),
                    "embedder": pyarrow.array([embedder] * len(vectors)),
                }
            )

    async def tidy(self) -> None:
        """Joins small files, brings new rows into the index, and lets go of what was replaced an hour ago.

        What is stored stands already, so that a failure is only logged, and tried again later.
        """
        async with self._writing:
            self._writes = 0
            try:
                async with _told(self._place, "tidied"):
                    await self._table.optimize(cleanup_older_than=KEPT_VERSIONS)
            except TableUnusable as error:
                log.warning("%s", error)

    async def clear(self, scope: Scope) -> None:
        """Writes the rows of a scope anew and lets go of every earlier version of the table.

        A row that is deleted is only marked; its bytes stay in a file that other rows lie in too.
        """
        async with self._writing, _told(self._place, "cleared"):
            await self._table.update(where=is_of(scope), updates_sql={"importance": "importance"})
            await self._table.optimize(cleanup_older_than=NO_VERSIONS)
            self._writes = 0

    def _waiting(self, embedder: str) -> str:
        return f"`agentId` = {literal(self._agent_id)} AND `embedder` <> {literal(embedder)}"

    @_again_after_others
    async def _complete(self) -> None:
        """Adds what a table of another program has not: our columns, words, the index over them."""
        names = set((await self._table.schema()).names)
        if lacking := {k: v for k, v in added_columns(self._agent_id).items() if k not in names}:
            await self._table.add_columns({name: literal(value) for name, value in lacking.items()})
        if not any("words" in index.columns for index in await self._table.list_indices()):
            from lancedb.index import FTS

            # words are cut and stop words left out before they come here, see `words_of`
            index = FTS(base_tokenizer="simple", stem=True, remove_stop_words=False)
            await self._table.create_index("words", config=index)
        rows = await self._table.query().where("`words` = ''").select(["id", "text"]).to_list()
        for begin in range(0, len(rows), _WRITTEN_AT_ONCE):
            import pyarrow

            some = rows[begin : begin + _WRITTEN_AT_ONCE]
            words = {row["id"]: words_of(row["text"]) or " " for row in some}
            await self._merge({"id": pyarrow.array([*words]), "words": pyarrow.array([*words.values()])})

    async def _merge(self, columns: Mapping[str, Any]) -> None:
        import pyarrow

        await self._table.merge_insert("id").when_matched_update_all().execute(pyarrow.table(dict(columns)))
        self._writes += 1

    async def _ensure_dimensions(self, dimensions: int) -> None:
        """Vectors of another length are those of another embedder: their column is made anew, rows stay."""
        if vector_dimensions(await self._table.schema()) != dimensions:
            await self._make_column_anew(dimensions)
            await self._table.update({"embedder": NOT_YET})

    @_again_after_others
    async def _make_column_anew(self, dimensions: int) -> None:
        import pyarrow

        schema = await self._table.schema()
        if vector_dimensions(schema) == dimensions:
            return
        if "vector" in schema.names:
            await self._table.drop_columns(["vector"])
        await self._table.add_columns(pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), dimensions)))


async def _opened_or_made(database: Any) -> Any:
    """The table, made where there is none. LanceDB says in its words alone why a table cannot be opened, so
    one that cannot be made either is opened once more, for the reason, or because another program made it."""
    try:
        return await database.open_table(TABLE)
    except ValueError:
        with suppress(ValueError, RuntimeError, OSError):
            return await database.create_table(TABLE, schema=_schema())
    return await database.open_table(TABLE)


async def _unless_made_anew(query: Any) -> list[dict[str, Any]] | None:
    """The rows with their vectors; None while the column is made anew, for then it is gone for a moment."""
    try:
        return cast("list[dict[str, Any]]", await query.to_list())
    except ValueError as error:
        if "No field named vector" not in str(error):
            raise
        return None


def _schema() -> Any:
    import pyarrow

    return pyarrow.schema(
        [
            pyarrow.field("id", pyarrow.string(), nullable=False),
            pyarrow.field("text", pyarrow.string(), nullable=False),
            pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), _FIRST_DIMENSIONS)),
            pyarrow.field("importance", pyarrow.float64()),
            pyarrow.field("category", pyarrow.string()),
            pyarrow.field("createdAt", pyarrow.int64()),
            *(pyarrow.field(name, pyarrow.string()) for name in added_columns("")),
        ]
    )


@asynccontextmanager
async def _told(place: str, doing: str) -> AsyncIterator[None]:
    """Turns what LanceDB raises into a sentence; it has no exceptions of its own."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].partition(", /")[0][:300] or type(error).__name__
        raise TableUnusable(
            f"The LanceDB table in {place} could not be {doing}: {reason.rstrip('.')}."
        ) from error
