"""Nearest chunks by vector: a coarse pass over sign codes, then exact cosines.

The only file that knows sqlite-vec. A `VectorReader` belongs to one reader thread. sqlite-vec answers the
first query in place, because most commands make just one. From then on, or without that extension, the reader
holds the codes in memory, and the vectors while there are few. It follows writes by the rising ids of rows.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nacre.memory.contracts.records import VectorEngine
from nacre.memory.contracts.store import Scope, Vector
from nacre.memory.stores.sqlite.connection import Connection, SqliteError, read_in_turn
from nacre.memory.stores.sqlite.words import Narrowed, narrowed
from nacre.memory.vectors.vector_math import (
    NUMBER_BYTES,
    cosines,
    is_zero,
    plain_floats,
    plain_question,
    plain_question_code,
    question,
    question_code,
)
from nacre.memory.vectors.vector_table import VectorTable, candidates_for

if TYPE_CHECKING:
    from nacre.memory.vectors.vector_table import Mask, Places

RESIDENT_BYTES = 64 << 20
"""The memory for vectors beside their codes: 87,000 of 384 numbers, or 21,000 of 1,536."""

EXACT_UP_TO = 1_500
"""Up to this many vectors, each one is compared exactly, because a coarse pass would not be faster."""

_READ_BESIDE = 80
"""How many coarse candidates are read from the file beyond twice the wanted number."""

_LOAD_ROWS = 2_048
_REMEMBERED_SCOPES = 16


class VectorReader:
    """Finds nearest chunks over one reader connection. Not thread-safe.

    `prepare` loads the vector functions into a connection, if it can, before they are needed.
    """

    def __init__(
        self,
        prepare: Callable[[Connection], VectorEngine],
        *,
        resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        self._prepare = prepare
        self._engine: VectorEngine | None = None
        self._resident_bytes = resident_bytes
        self._table = VectorTable(0, most_bytes=0)
        self._seen = self._gone = self._last_row = 0
        self._data_version = -1
        self._masks: OrderedDict[Narrowed, Mask] = OrderedDict()
        self.questions = 0

    def engine(self, connection: Connection) -> VectorEngine:
        """The name of what compares vectors on this connection."""
        if self._engine is None:
            self._engine = self._prepare(connection)
        return self._engine

    def described_engine(self, connection: Connection, dimensions: int) -> VectorEngine:
        """The name of what compares vectors of this length from the second query on."""
        engine = self.engine(connection)
        fits = self._fits(_row_count(connection), dimensions)
        later = "vectors in memory" if fits else "sign codes in memory, vectors on disk"
        return engine if engine.problem else replace(engine, later=later)

    def nearest(self, connection: Connection, vector: Vector, limit: int, scope: Scope) -> dict[int, float]:
        """The chunks whose best piece has the highest cosine, best first."""
        self.questions += 1
        in_place = self.answers_in_place(connection)
        query = plain_question(vector) if in_place else question(vector)
        if is_zero(query):
            return {}
        inside = narrowed(connection, scope)
        if in_place:
            wanted = candidates_for(len(vector), limit)
            if _row_count(connection) <= EXACT_UP_TO:
                wanted = EXACT_UP_TO
            rows = _stored_coarse(connection, plain_question_code(query), wanted, inside)
            return _best_pieces(_scored_in_place(connection, query, "id", rows), limit)
        self._follow(connection, len(vector))
        outside = self._outside(connection, inside) if inside else None
        is_small = len(self._table) <= EXACT_UP_TO
        wanted = EXACT_UP_TO if is_small else candidates_for(len(vector), limit, len(self._table))
        places = self._table.coarse(question_code(query), wanted, outside=outside)
        if not self._table.whole and not is_small:
            places = self._table.likeliest(query, places, 2 * limit + _READ_BESIDE)
        return _best_pieces(self._scored(connection, query, places), limit)

    def cosines(self, connection: Connection, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The exact cosine of each chunk's best piece."""
        in_place = self.answers_in_place(connection)
        query = plain_question(vector) if in_place else question(vector)
        if is_zero(query):
            return {}
        if in_place:
            return _best_pieces(_scored_in_place(connection, query, "chunk_id", chunk_ids), None)
        self._follow(connection, len(vector))
        return _best_pieces(self._scored(connection, query, self._table.places_of(chunk_ids)), None)

    def _scored(self, connection: Connection, query: bytes, places: Places) -> Iterable[tuple[int, float]]:
        if self._table.whole:
            return self._still_there(connection, self._table.cosines(query, places))
        keys = self._table.keys(places)
        ids = [key[2] for key in keys]
        stored = read_in_turn(connection, "vectors", "embedding", ids, NUMBER_BYTES * self._table.dimensions)
        if stored is None:
            found = _stored_vectors(connection, self._table.dimensions, ids)
            keys = [key for key in keys if key[2] in found]
            stored = bytearray().join(found[key[2]] for key in keys)
        scores = cosines(query, stored)
        scored = [(key[0], key[1], score) for key, score in zip(keys, scores, strict=True)]
        return self._still_there(connection, sorted(scored, key=itemgetter(2), reverse=True))

    def _outside(self, connection: Connection, inside: Narrowed) -> Mask:
        if inside not in self._masks:
            rows = connection.execute(inside.members, inside.arguments)
            self._masks[inside] = self._table.all_but([chunk_id for (chunk_id,) in rows])
            if len(self._masks) > _REMEMBERED_SCOPES:
                self._masks.popitem(last=False)
        return self._masks[inside]

    def load(self, connection: Connection, dimensions: int) -> None:
        """Reads what the next query would read first, and counts as a query."""
        self.questions += 1
        self._follow(connection, dimensions)

    def answers_in_place(self, connection: Connection) -> bool:
        """Whether reading everything into memory would take longer than it can save."""
        self.engine(connection)
        # if numpy replaces sqlite-vec, it compares no codes
        return self.questions <= 1 and bool(
            connection.execute(
                "SELECT count(*) FROM pragma_function_list WHERE name = 'vec_distance_hamming'"
            ).get
        )

    def _still_there(
        self, connection: Connection, scored: Sequence[tuple[int, int, float]]
    ) -> Iterable[tuple[int, float]]:
        if not self._gone:
            return ((chunk_id, cosine) for _, chunk_id, cosine in scored)
        alive = {
            row[0]
            for row in connection.execute(
                "SELECT id FROM chunk_vectors WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps([row_id for row_id, _, _ in scored]),),
            )
        }
        return ((chunk_id, cosine) for row_id, chunk_id, cosine in scored if row_id in alive)

    def _follow(self, connection: Connection, dimensions: int) -> None:
        version = connection.pragma("data_version")
        if version == self._data_version and self._table.dimensions == dimensions:
            return
        self._masks.clear()
        total = _row_count(connection)
        if self._table.dimensions == dimensions:
            self._load(connection, total)
        if self._table.dimensions != dimensions or self._gone > self._seen // 4:
            most_bytes = self._resident_bytes if self._fits(total, dimensions) else 0
            self._table = VectorTable(dimensions, most_bytes=most_bytes)
            self._seen = self._last_row = 0
            self._load(connection, total)
        self._data_version = version

    def _fits(self, count: int, dimensions: int) -> bool:
        return count * NUMBER_BYTES * dimensions <= self._resident_bytes

    def _load(self, connection: Connection, total: int) -> None:
        while rows := self._rows_above(connection, self._last_row):
            self._table.add([(row[0], row[1], row[2], code, row[4]) for row in rows if (code := row[3])])
            self._last_row = rows[-1][0]
            self._seen += len(rows)
        self._gone = self._seen - total

    def _rows_above(
        self, connection: Connection, row_id: int
    ) -> list[tuple[int, int, int, bytes | None, bytes | None]]:
        embedding = "embedding" if self._table.whole else "NULL"
        rows = connection.execute(
            f"SELECT chunk_vectors.id, chunk_id, vector_id, code, {embedding} FROM chunk_vectors"
            " LEFT JOIN vectors ON vectors.id = vector_id"
            " WHERE chunk_vectors.id > ? ORDER BY chunk_vectors.id LIMIT ?",
            (row_id, _LOAD_ROWS),
        )
        return cast("list[tuple[int, int, int, bytes | None, bytes | None]]", rows.fetchall())


def _row_count(connection: Connection) -> int:
    return cast("int", connection.execute("SELECT count(*) FROM chunk_vectors").get)


def _stored_coarse(connection: Connection, code: bytes, count: int, inside: Narrowed | None) -> list[int]:
    rows = connection.execute(
        "SELECT id FROM chunk_vectors WHERE length(code) = ?"
        + (f" AND +chunk_id IN ({inside.members})" if inside else "")
        + " ORDER BY vec_distance_hamming(vec_bit(code), vec_bit(?)) LIMIT ?",
        (len(code), *(inside.arguments if inside else ()), code, count),
    )
    return [row_id for (row_id,) in rows]


def _scored_in_place(
    connection: Connection, query: bytes, column: str, ids: Sequence[int]
) -> list[tuple[int, float]]:
    rows = connection.execute(
        "SELECT chunk_id, vector_id FROM chunk_vectors"
        f" WHERE {column} IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(list(ids)),),
    )
    keys = cast("list[tuple[int, int]]", rows.fetchall())
    stored = _stored_vectors(connection, len(query) // 4, [vector_id for _, vector_id in keys])
    floats = ((plain_floats(blob), query) for blob in stored.values())
    cosines = connection.executemany("SELECT 1 - vec_distance_cosine(?, ?)", floats)
    scores = dict(zip(stored, (cosine for (cosine,) in cosines), strict=True))
    scored = [(chunk_id, scores[key]) for chunk_id, key in keys if key in scores]
    return sorted(scored, key=itemgetter(1), reverse=True)


def _stored_vectors(connection: Connection, dimensions: int, vector_ids: Sequence[int]) -> dict[int, bytes]:
    among = "WHERE length(embedding) = ? AND id IN (SELECT value FROM json_each(?))"
    arguments = (NUMBER_BYTES * dimensions, json.dumps(vector_ids))
    return dict(connection.execute(f"SELECT id, embedding FROM vectors {among}", arguments))


def _best_pieces(scored: Iterable[tuple[int, float]], limit: int | None) -> dict[int, float]:
    best: dict[int, float] = {}
    for chunk_id, cosine in scored:
        if chunk_id not in best:
            if len(best) == limit:
                break
            best[chunk_id] = cosine
    return best


def add_vector_functions(
    connection: Connection, *, enabled: bool = True, extension_path: str | None = None
) -> VectorEngine:
    """Loads sqlite-vec, from `extension_path` if given, and tests it; without it, numpy is used."""
    problem = _load(connection, extension_path) if enabled else "store.vector.enabled is false"
    if not problem:
        version = str(connection.execute("SELECT vec_version()").get)
        return VectorEngine(name=f"sqlite-vec {version.removeprefix('v')}")
    return VectorEngine(name="numpy", problem=problem)


def _load(connection: Connection, extension_path: str | None) -> str:
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(extension_path or _packaged())
        finally:
            connection.enable_load_extension(False)
        # The extension may load without working, a known failure, so it is tested.
        statement = "SELECT vec_distance_hamming(vec_bit(?), vec_bit(?))"
        if connection.execute(statement, (b"\x0f", b"\x3c")).get != 4:
            return "sqlite-vec was loaded but compares vectors wrongly"
    except (SqliteError, ImportError, OSError) as error:
        return f"sqlite-vec could not be loaded ({type(error).__name__}: {error})"
    return ""


def _packaged() -> str:
    # Importing the package for its `loadable_path()` would also import numpy.
    package = find_spec("sqlite_vec")
    if package is None or package.origin is None:
        raise ImportError("the package sqlite-vec is not installed")
    return str(Path(package.origin).with_name("vec0"))
