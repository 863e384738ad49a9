"""Nearest chunks by vector: a coarse pass over sign codes, then exact cosines.

The only file that knows sqlite-vec. A `VectorReader` belongs to one reader thread. sqlite-vec answers the
first query in place, because most commands make just one. From then on, or without that extension, the reader
holds the codes in memory, and the vectors while there are few. It follows writes by the rising ids of rows.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from nacre.memory.contracts.records import VectorEngine
from nacre.memory.contracts.store import Scope, Vector
from nacre.memory.stores.sqlite.connection import Connection, SqliteError, read_in_turn
from nacre.memory.stores.sqlite.words import Narrowed, narrowed
from nacre.memory.vectors.vector_math import (
    NUMBER_BYTES,
    cosines,
    is_zero,
    lengths,
    plain_floats,
    plain_question,
    plain_question_code,
    question,
    question_code,
)

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Places: TypeAlias = numpy.typing.NDArray[numpy.intp]
    Mask: TypeAlias = numpy.typing.NDArray[numpy.bool_]

Row: TypeAlias = tuple[int, int, int, bytes, bytes | None]

_FIRST_WORDS = 4
"""The 64-bit words of a long code that the first step compares, because memory bandwidth is the limit."""

_FIRST_KEEP = 8
"""How many times the wanted number the first step keeps."""

_FARTHEST = 32_767
"""A distance above that of any code, to which the distance of a whole code can be added."""

_BLOCK = 16_384
"""The number of codes to compare at a time, so that results stay in the processor's cache."""

_FEW_VECTORS = 1_500
_GROWTH = 0.3

_SAMPLED = 8_192
"""The number of distances that estimate a threshold."""


def candidates_for(dimensions: int, limit: int, count: int = 0) -> int:
    """The number of coarse candidates, which grows with shorter codes and with more vectors.

    With 384 numbers, .98 of the true nearest 30 are among them, from 1,000 to 39,000 vectors of real texts
    (docs/engineering/recall.md).
    """
    growing: float = (count / _FEW_VECTORS) ** _GROWTH * min(1.0, 384 / dimensions)
    return max(2 * limit, round(300 * max(1.0 if dimensions >= 384 else 2.0, growing)))


class VectorTable:
    """The sign codes and ids of vectors of one length, and the vectors themselves up to `most_bytes`.

    Rows are only added; a place in the table is an index of a row.
    """

    def __init__(self, dimensions: int, *, most_bytes: int) -> None:
        self.dimensions = dimensions
        self._most = most_bytes // (NUMBER_BYTES * dimensions) if dimensions else 0
        self.whole = self._most > 0
        """Whether the table has the vectors and not only their codes."""
        self._words = -(-dimensions // 64)
        # The words that every search compares are stored column by column, the others row by row.
        self._first = _FIRST_WORDS if self._words >= 2 * _FIRST_WORDS else self._words
        self._count = 0
        self._keys: Any = None
        self._columns: Any = None
        self._rest: Any = None
        self._vectors: Any = None
        self._lengths: Any = None
        self._by_chunk: Any = None

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[Row]) -> None:
        """Adds (row id, chunk id, vector id, code, vector) and skips other lengths."""
        import numpy as np

        code_bytes, vector_bytes = 8 * self._words, NUMBER_BYTES * self.dimensions
        if self.whole and self._count + len(rows) > self._most:
            self.whole, self._vectors, self._lengths = False, None, None
        rows = [
            row
            for row in rows
            if len(row[3]) == code_bytes and (not self.whole or len(row[4] or b"") == vector_bytes)
        ]
        if not rows:
            return
        self._reserve(self._count + len(rows))
        span = slice(self._count, self._count + len(rows))
        self._keys[span] = [row[:3] for row in rows]
        codes = np.frombuffer(b"".join(row[3] for row in rows), dtype=np.uint64).reshape(-1, self._words)
        self._columns[:, span] = codes[:, : self._first].T
        self._rest[span] = codes[:, self._first :]
        if self.whole:
            vectors = np.frombuffer(b"".join(row[4] or b"" for row in rows), dtype="<i2")
            self._vectors[span] = vectors = vectors.reshape(-1, self.dimensions)
            self._lengths[span] = lengths(vectors.astype("<f4"))
        self._count += len(rows)
        self._by_chunk = None

    def coarse(self, code: bytes, count: int, *, outside: Mask | None = None) -> Places:
        """The places of about `count` codes nearest to `code`, ascending, except those marked by
        `outside`."""
        import numpy as np

        query = np.frombuffer(code, dtype=np.uint64)
        if not self._count or len(query) != self._words:
            return np.empty(0, dtype=np.intp)
        inside = self._count if outside is None else self._count - int(np.count_nonzero(outside))
        if count >= inside:
            return np.arange(self._count) if outside is None else np.flatnonzero(~outside)
        distances = self._first_distances(query)
        if outside is not None:
            distances[outside] = _FARTHEST
        if self._first == self._words:
            return _smallest(distances, count)
        places = _smallest(distances, min(inside, count * _FIRST_KEEP))
        differing = np.bitwise_count(self._rest.take(places, axis=0) ^ query[self._first :])
        return places[_smallest(distances[places] + differing.sum(axis=1, dtype=np.uint16), count)]

    def likeliest(self, query: bytes, places: Places, count: int) -> Places:
        """The `count` places at which the question's numbers agree best with the stored signs.

        This is closer to the cosine than the distance in bits, which ignores the size of numbers.
        """
        import numpy as np

        if len(places) <= count:
            return places
        codes = np.concatenate(
            (self._columns.take(places, axis=1).T, self._rest.take(places, axis=0)), axis=1
        ).view(np.uint8)
        signs = np.unpackbits(codes, axis=1, count=self.dimensions).astype("<f4")
        agreeing = np.vecdot(signs, np.frombuffer(query, dtype="<f4"))
        return np.sort(places[np.argpartition(-agreeing, count)[:count]])

    def all_but(self, chunk_ids: Sequence[int]) -> Mask:
        """Marks every place except those of these chunks."""
        import numpy as np

        outside = np.ones(self._count, dtype=np.bool_)
        outside[self.places_of(chunk_ids)] = False
        return outside

    def places_of(self, chunk_ids: Sequence[int]) -> Places:
        import numpy as np

        if not self._count:
            return np.empty(0, dtype=np.intp)
        if self._by_chunk is None:
            chunks = self._keys[: self._count, 1]
            order = np.argsort(chunks, kind="stable")
            self._by_chunk = order, chunks[order]
        order, chunks = self._by_chunk
        firsts, ends = np.searchsorted(chunks, chunk_ids), np.searchsorted(chunks, chunk_ids, side="right")
        counts = ends - firsts
        # firsts[i], firsts[i] + 1, … up to ends[i] for each chunk.
        before = np.cumsum(counts) - counts
        return cast("Places", order[np.repeat(firsts - before, counts) + np.arange(counts.sum())])

    def keys(self, places: Places) -> list[list[int]]:
        """[row id, chunk id, vector id] at each of these places."""
        return cast("list[list[int]]", self._keys[places].tolist()) if len(places) else []

    def cosines(self, query: bytes, places: Places) -> list[tuple[int, int, float]]:
        """(row id, chunk id, cosine) at these places, the highest cosine first. The table must be `whole`."""
        import numpy as np

        if not len(places):
            return []
        numbers = self._vectors.take(places, axis=0).astype("<f4")
        cosines = np.vecdot(numbers, np.frombuffer(query, dtype="<f4")) / self._lengths.take(places)
        order = np.argsort(-cosines, kind="stable")
        rows, chunks, _ = self._keys[places[order]].T.tolist()
        return list(zip(rows, chunks, cosines[order].tolist(), strict=True))

    def _first_distances(self, query: numpy.typing.NDArray[numpy.uint64]) -> Any:
        import numpy as np

        # Three calls a block, because each takes Python's lock again.
        distances = np.empty(self._count, dtype=np.uint16)
        differing = np.empty((self._first, _BLOCK), dtype=np.uint64)
        counted = np.empty((self._first, _BLOCK), dtype=np.uint8)
        words = query[: self._first, np.newaxis]
        for start in range(0, self._count, _BLOCK):
            end = min(self._count, start + _BLOCK)
            size = end - start
            np.bitwise_xor(self._columns[:, start:end], words, out=differing[:, :size])
            np.bitwise_count(differing[:, :size], out=counted[:, :size])
            np.add.reduce(counted[:, :size], axis=0, dtype=np.uint16, out=distances[start:end])
        return distances

    def _reserve(self, count: int) -> None:
        import numpy as np

        held = 0 if self._keys is None else len(self._keys)
        if count > held:
            size = max(count, held + held // 2)
            self._keys = _grown(self._keys, np.empty((size, 3), dtype=np.int64), self._count)
            columns = np.empty((self._first, size), dtype=np.uint64)
            if self._count:
                columns[:, : self._count] = self._columns[:, : self._count]
            self._columns = columns
            rest = np.empty((size, self._words - self._first), dtype=np.uint64)
            self._rest = _grown(self._rest, rest, self._count)
            if self.whole:
                vectors = np.empty((min(size, self._most), self.dimensions), dtype=np.int16)
                self._vectors = _grown(self._vectors, vectors, self._count)
                self._lengths = _grown(self._lengths, np.empty(len(vectors), dtype="<f4"), self._count)


def _grown(old: Any, new: Any, count: int) -> Any:
    if count:
        new[:count] = old[:count]
    return new


def _smallest(distances: Any, count: int) -> Places:
    import numpy as np

    if count >= len(distances):
        return np.arange(len(distances))
    # A sample gives the threshold; counting all distances would take twice as long.
    step = -(-len(distances) // _SAMPLED)
    threshold = int(np.searchsorted(np.cumsum(np.bincount(distances[::step])), count / step))
    near = distances <= threshold
    while np.count_nonzero(near) < count:
        threshold += 1
        near = distances <= threshold
    while np.count_nonzero(nearer := distances < threshold) >= count:
        threshold -= 1
        near = nearer
    places = np.flatnonzero(near)
    if len(places) <= 2 * count:
        return places
    return np.sort(places[np.argpartition(distances[places], count)[:count]])


RESIDENT_BYTES = 64 << 20
"""The memory for vectors beside their codes: 87,000 of 384 numbers, or 21,000 of 1,536."""

EXACT_UP_TO = 1_500
"""Up to this many vectors, each one is compared exactly, because a coarse pass would not be faster."""

WORTH_A_THREAD = 20_000
"""From this many codes on, to compare them takes longer than to hand them to another thread."""

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
        worth_a_thread: int = WORTH_A_THREAD,
    ) -> None:
        self._prepare = prepare
        self._worth_a_thread = worth_a_thread
        self._engine: VectorEngine | None = None
        self._resident_bytes = resident_bytes
        self._table = VectorTable(0, most_bytes=0)
        self._seen = self._gone = self._last_row = 0
        self._data_version = -1
        self._masks: OrderedDict[Narrowed, Mask] = OrderedDict()
        self._beside: ThreadPoolExecutor | None = None
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

    def begin_nearest(
        self, connection: Connection, vector: Vector, limit: int, scope: Scope
    ) -> Callable[[], dict[int, float]]:
        """Returns a function that returns the chunks whose best piece has the highest cosine, best first.

        Many codes are compared meanwhile on another thread: NumPy and SQLite both work without Python's lock.
        """
        self.questions += 1
        in_place = self.answers_in_place(connection)
        query = plain_question(vector) if in_place else question(vector)
        if is_zero(query):
            return dict
        inside = narrowed(connection, scope)
        if in_place:
            wanted = candidates_for(len(vector), limit)
            if _row_count(connection) <= EXACT_UP_TO:
                wanted = EXACT_UP_TO
            rows = _stored_coarse(connection, plain_question_code(query), wanted, inside)
            found = _best_pieces(_scored_in_place(connection, query, "id", rows), limit)
            return lambda: found
        self._follow(connection, len(vector))
        outside = self._outside(connection, inside) if inside else None
        coarse: Callable[[], Places] = partial(self._coarse, self._table, query, limit, outside)
        if len(self._table) >= self._worth_a_thread:
            self._beside = self._beside or ThreadPoolExecutor(1, thread_name_prefix="memory-codes")
            coarse = self._beside.submit(coarse).result
        return lambda: _best_pieces(self._scored(connection, query, coarse()), limit)

    @staticmethod
    def _coarse(table: VectorTable, query: bytes, limit: int, outside: Mask | None) -> Places:
        is_small = len(table) <= EXACT_UP_TO
        wanted = EXACT_UP_TO if is_small else candidates_for(table.dimensions, limit, len(table))
        places = table.coarse(question_code(query), wanted, outside=outside)
        if not table.whole and not is_small:
            places = table.likeliest(query, places, 2 * limit + _READ_BESIDE)
        return places

    def close(self) -> None:
        """Ends the other thread."""
        if self._beside is not None:
            self._beside.shutdown(wait=False)

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
        while True:
            embedding = "embedding" if self._table.whole else "NULL"
            found = connection.execute(
                f"SELECT chunk_vectors.id, chunk_id, vector_id, code, {embedding} FROM chunk_vectors"
                " LEFT JOIN vectors ON vectors.id = vector_id"
                " WHERE chunk_vectors.id > ? ORDER BY chunk_vectors.id LIMIT ?",
                (self._last_row, _LOAD_ROWS),
            )
            rows = cast("list[Row]", found.fetchall())
            if not rows:
                break
            self._table.add([row for row in rows if row[3]])
            self._last_row = rows[-1][0]
            self._seen += len(rows)
        self._gone = self._seen - total


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
