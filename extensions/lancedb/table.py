"""The table `memories` in LanceDB: its columns, its queries and its writes. Only this file uses lancedb and
pyarrow.

The first six columns are those of OpenClaw's plugin, so that each program reads the other's table. The others
record the agent, the audience, the origin and the words for full-text search. Every write is one LanceDB
commit: a kill leaves it done or not done. Several programs may write to one table at once, and each read sees
what was committed before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ParamSpec, cast, get_args

from nacre.extensions.lancedb.records import (
    DEFAULT_IMPORTANCE,
    Category,
    FoundByWords,
    FoundNear,
    Memory,
    Origin,
    Scope,
    Vector,
    Writer,
)
from nacre.installation import install_command
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Chunk
from nacre.memory.files.sources.source import PRIVATE, Speaker
from nacre.memory.text.lexical import lexical_fields, match_query

P = ParamSpec("P")

TABLE = "memories"
ORIGINAL_COLUMNS = ("id", "text", "importance", "category", "createdAt")
"""Columns of OpenClaw's plugin besides `vector`."""
NONE_YET = ""
"""Marks a row without a vector of the current embedder (in `embedder`) or without words (in `words`)."""
_ORIGIN_COLUMNS = {
    "sessionKey": "",
    "sessionId": "",
    "entryId": "",
    "channel": "",
    "saidBy": "unknown",
    "writtenBy": "import",
}
MEMORY_COLUMNS = (*ORIGINAL_COLUMNS, "agentId", "audience", *_ORIGIN_COLUMNS)
"""The columns that a memory is read from; vectors and words are large."""
log = logging.getLogger(__name__)
KEPT_VERSIONS = timedelta(hours=1)
NO_VERSIONS = timedelta(milliseconds=1)
"""How long other programs may keep reading replaced data before it is removed from disk."""
TIDY_AFTER_WRITES = 32
_WRITTEN_AT_ONCE = 512
_FIRST_DIMENSIONS = 1
"""The vector length of a table without vectors; the first vector recreates the column."""
_MOST_CONFLICTS = 8


def _retry_on_conflict(change: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Retries a change that LanceDB refuses because another program changes columns or the index as well."""

    @wraps(change)
    async def retried(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(_MOST_CONFLICTS):
            with suppress(Exception):
                return await change(*args, **kwargs)
        return await change(*args, **kwargs)

    return retried


def added_columns(agent_id: str) -> Mapping[str, str]:
    """Our columns, and their values in rows of another program: the owner's, of unknown origin."""
    return {
        "agentId": agent_id,
        "audience": PRIVATE,
        **_ORIGIN_COLUMNS,
        "embedder": NONE_YET,
        "words": NONE_YET,
    }


def to_row(memory: Memory, agent_id: str, vector: Sequence[float] | None, embedder: str) -> dict[str, Any]:
    origin = memory.origin
    return {
        "id": memory.id,
        "text": memory.text,
        "vector": vector,
        "importance": memory.importance,
        "category": memory.category,
        "createdAt": memory.created_at_ms,
        "agentId": agent_id,
        "audience": memory.audience,
        "sessionKey": origin.session_key,
        "sessionId": origin.session_id,
        "entryId": origin.entry_id,
        "channel": origin.channel,
        "saidBy": origin.said_by,
        "writtenBy": origin.written_by,
        "embedder": NONE_YET if vector is None else embedder,
        "words": words_of(memory.text),
    }


def to_memory(row: Mapping[str, Any]) -> Memory:
    """Converts a row to a memory. Missing and unknown values of other programs become defaults."""
    category, importance = row["category"], row["importance"]
    return Memory(
        id=row["id"],
        text=row["text"],
        importance=min(1.0, max(0.0, float(importance))) if importance is not None else DEFAULT_IMPORTANCE,
        category=category if category in get_args(Category) else "other",
        created_at_ms=int(row["createdAt"] or 0),
        audience=row["audience"],
        origin=Origin(
            session_key=row["sessionKey"],
            session_id=row["sessionId"],
            entry_id=row["entryId"] or "",
            channel=row["channel"],
            said_by=row["saidBy"] if row["saidBy"] in get_args(Speaker) else "unknown",
            written_by=row["writtenBy"] if row["writtenBy"] in get_args(Writer) else "import",
        ),
    )


def words_of(text: str) -> str:
    """The words by which full-text search finds a text, as in the index of notes.

    They are words, parts of identifiers, and single characters and pairs of scripts without spaces, which
    LanceDB's tokenizers do not produce.
    """
    chunk = Chunk(
        source="memory",
        path="",
        start_line=1,
        end_line=1,
        text=text,
        heading_path=(),
        date=None,
        content_hash="",
        ordinal=0,
    )
    fields = lexical_fields(chunk)
    return f"{fields.text} {fields.parts}"


def query_words(question: str) -> tuple[str, tuple[str, ...]]:
    """The words to search for, of which any suffices, and the terms that identify the question; both may be
    empty.
    """
    query = match_query(question)
    if query is None:
        return "", ()
    words = dict.fromkeys(word for atom in query.atoms for word in atom.words.split())
    return " ".join(words), query.terms


def scope_filter(scope: Scope) -> str:
    mine = f"`agentId` = {literal(scope.agent_id)}"
    return mine if scope.audience is None else f"{mine} AND `audience` = {literal(scope.audience)}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def vector_dimensions(schema: Any) -> int:
    """The length of the table's vectors; 0 if another program dropped the column."""
    return int(schema.field("vector").type.list_size) if "vector" in schema.names else 0


class TableUnusable(MemoryIndexError):
    """The LanceDB table cannot be opened, read or written; the message is a sentence."""


def missing_library() -> str:
    """A sentence if LanceDB is not installed, else an empty string."""
    if find_spec("lancedb") is not None:
        return ""
    return f"The package lancedb is not installed. Install it with `{install_command('lancedb')}`."


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
        """Opens or creates the table in a folder or an object store, and adds the columns that a foreign
        table lacks.

        Raises:
            TableUnusable: LanceDB is not installed, or cannot open the table. Nothing was changed.
        """
        if problem := missing_library():
            raise TableUnusable(problem)
        # takes more than a second; do not block the event loop
        await asyncio.to_thread(import_module, "lancedb")
        async with _readable_errors(place, "opened"):
            import lancedb

            database = await lancedb.connect_async(
                place, storage_options=dict(storage_options), read_consistency_interval=timedelta(0)
            )
            opened = cls(await _open_or_create(database), place, agent_id)
            await opened._complete()
            return opened

    async def close(self) -> None:
        if self._writes:
            await self.compact()
        self._table.close()

    async def add(self, memory: Memory, vector: Vector | None, embedder: str) -> None:
        """Stores a memory, with a vector or without one."""
        import pyarrow

        async with self._writing, _readable_errors(self._place, "written"):
            if vector is not None:
                await self._ensure_dimensions(len(vector))
            row = to_row(memory, self._agent_id, vector, embedder)
            await self._table.add(pyarrow.Table.from_pylist([row], schema=await self._table.schema()))
            self._writes += 1
        if self._writes >= TIDY_AFTER_WRITES:
            await self.compact()

    async def delete(self, memory_id: str, scope: Scope) -> bool:
        """Deletes a row of the scope and returns whether there was one."""
        async with self._writing, _readable_errors(self._place, "written"):
            self._writes += 1
            deleted = await self._table.delete(f"{scope_filter(scope)} AND `id` = {literal(memory_id)}")
            return bool(deleted.num_deleted_rows)

    async def near(self, vector: Vector, embedder: str, scope: Scope, limit: int) -> list[FoundNear]:
        """The rows with the nearest vectors of this embedder, by cosine."""
        async with _readable_errors(self._place, "read"):
            if vector_dimensions(await self._table.schema()) != len(vector):
                return []
            query = (
                self._table.query()
                .where(f"{scope_filter(scope)} AND `embedder` = {literal(embedder)}")
                .nearest_to(list(vector))
                .distance_type("cosine")
                .select([*MEMORY_COLUMNS, "words", "_distance"])
                .limit(limit)
            )
            rows = await _rows_with_vectors(query) or []
        return [FoundNear(to_memory(row), 1 - row["_distance"], row["words"]) for row in rows]

    async def by_words(self, words: str, embedder: str, scope: Scope, limit: int) -> list[FoundByWords]:
        """The rows that contain any of the words, the best first. Vectors of other embedders are omitted."""
        async with _readable_errors(self._place, "read"):
            from lancedb.query import MatchQuery

            found = self._table.query().where(scope_filter(scope)).nearest_to_text(MatchQuery(words, "words"))
            query = found.select([*MEMORY_COLUMNS, "words", "vector", "embedder", "_score"]).limit(limit)
            rows = await _rows_with_vectors(query)
            if rows is None:
                rows = await query.select([*MEMORY_COLUMNS, "words", "embedder", "_score"]).to_list()
        vectors = [row.get("vector") if row["embedder"] == embedder != NONE_YET else None for row in rows]
        return [
            FoundByWords(to_memory(row), row["_score"], row["words"], vector)
            for row, vector in zip(rows, vectors, strict=True)
        ]

    async def all(self, scope: Scope, *, id_prefix: str = "") -> list[Memory]:
        """The rows of a scope whose ID starts with `id_prefix`, the newest first."""
        rows_of = scope_filter(scope) + (f" AND starts_with(`id`, {literal(id_prefix)})" if id_prefix else "")
        async with _readable_errors(self._place, "read"):
            rows = await self._table.query().where(rows_of).select(list(MEMORY_COLUMNS)).to_list()
        return sorted(map(to_memory, rows), key=lambda memory: (-memory.created_at_ms, memory.id))

    async def without_vector(self, embedder: str) -> list[tuple[str, str]]:
        """The ID and text of this agent's rows that have no vector of this embedder."""
        async with _readable_errors(self._place, "read"):
            rows = await self._table.query().where(self._waiting(embedder)).select(["id", "text"]).to_list()
        return [(row["id"], row["text"]) for row in rows]

    async def count_without_vector(self, embedder: str) -> int:
        async with _readable_errors(self._place, "read"):
            return int(await self._table.count_rows(self._waiting(embedder)))

    async def count(self, scope: Scope) -> int:
        async with _readable_errors(self._place, "read"):
            return int(await self._table.count_rows(scope_filter(scope)))

    async def set_vectors(self, vectors: Mapping[str, Vector], embedder: str) -> None:
        """Sets the vectors of rows by ID. Rows that no longer exist are not created."""
        async with self._writing, _readable_errors(self._place, "written"):
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

    async def compact(self) -> None:
        """Joins small files, indexes new rows, and removes data that was replaced more than an hour ago.

        A failure is only logged and retried later, because every row is stored already.
        """
        async with self._writing:
            self._writes = 0
            try:
                async with _readable_errors(self._place, "compacted"):
                    await self._table.optimize(cleanup_older_than=KEPT_VERSIONS)
            except TableUnusable as error:
                log.warning("%s", error)

    async def purge(self, scope: Scope) -> None:
        """Rewrites the rows of a scope and removes every earlier version of the table.

        Deleting a row only marks it: its bytes stay in a file that it shares with other rows.
        """
        async with self._writing, _readable_errors(self._place, "cleared"):
            await self._table.update(where=scope_filter(scope), updates_sql={"importance": "importance"})
            await self._table.optimize(cleanup_older_than=NO_VERSIONS)
            self._writes = 0

    def _waiting(self, embedder: str) -> str:
        return f"`agentId` = {literal(self._agent_id)} AND `embedder` <> {literal(embedder)}"

    @_retry_on_conflict
    async def _complete(self) -> None:
        names = set((await self._table.schema()).names)
        if lacking := {k: v for k, v in added_columns(self._agent_id).items() if k not in names}:
            await self._table.add_columns({name: literal(value) for name, value in lacking.items()})
        if not any("words" in index.columns for index in await self._table.list_indices()):
            from lancedb.index import FTS

            # `words_of` has already split the words and removed the stop words
            index = FTS(base_tokenizer="simple", stem=True, remove_stop_words=False)
            await self._table.create_index("words", config=index)
        rows = await self._table.query().where("`words` = ''").select(["id", "text"]).to_list()
        for begin in range(0, len(rows), _WRITTEN_AT_ONCE):
            import pyarrow

            batch = rows[begin : begin + _WRITTEN_AT_ONCE]
            words = {row["id"]: words_of(row["text"]) or " " for row in batch}
            await self._merge({"id": pyarrow.array([*words]), "words": pyarrow.array([*words.values()])})

    async def _merge(self, columns: Mapping[str, Any]) -> None:
        import pyarrow

        await self._table.merge_insert("id").when_matched_update_all().execute(pyarrow.table(dict(columns)))
        self._writes += 1

    async def _ensure_dimensions(self, dimensions: int) -> None:
        if vector_dimensions(await self._table.schema()) != dimensions:
            await self._recreate_vector_column(dimensions)
            await self._table.update({"embedder": NONE_YET})

    @_retry_on_conflict
    async def _recreate_vector_column(self, dimensions: int) -> None:
        import pyarrow

        schema = await self._table.schema()
        if vector_dimensions(schema) == dimensions:
            return
        if "vector" in schema.names:
            await self._table.drop_columns(["vector"])
        await self._table.add_columns(pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), dimensions)))


async def _open_or_create(database: Any) -> Any:
    """Opens the table, or creates it.

    LanceDB reports the reason only in text, so a table that can be neither opened nor created is opened once
    more: for its error, or because another program has created it.
    """
    try:
        return await database.open_table(TABLE)
    except ValueError:
        with suppress(ValueError, RuntimeError, OSError):
            return await database.create_table(TABLE, schema=_schema())
    return await database.open_table(TABLE)


async def _rows_with_vectors(query: Any) -> list[dict[str, Any]] | None:
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
async def _readable_errors(place: str, doing: str) -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].partition(", /")[0][:300] or type(error).__name__
        raise TableUnusable(
            f"The LanceDB table in {place} could not be {doing}: {reason.rstrip('.')}."
        ) from error
