"""Nearest chunks by vector: a coarse pass over sign codes, then exact cosines, all where the rows lie.

pgvector computes the cosines. Since 0.7 it compares codes as well; before, Postgres' own count of differing
bits does, which chooses the same candidates in more time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import LiteralString

from nacre.memory.contracts.records import VectorEngine
from nacre.memory.contracts.store import Scope, Vector
from nacre.memory.stores.postgres.reading.moment import Moment
from nacre.memory.stores.postgres.reading.scope import narrowed
from nacre.memory.vectors.vector_math import is_zero, question, question_code

EXACT_UP_TO = 1_500
"""With no more vectors than this, each one is compared exactly: the coarse pass would not be faster."""

_FACTS = """
SELECT extversion, to_regprocedure('hamming_distance(bit,bit)') IS NOT NULL
FROM pg_extension WHERE extname = 'vector'
"""
_COUNT = """
SELECT count(*) FROM (
    SELECT 1 FROM memory_chunk_vectors WHERE agent = %(agent)s AND build = %(build)s LIMIT %(most)s
) AS few
"""
_OF_THE_BUILD: LiteralString = """
    SELECT chunk_id, vector_id FROM memory_chunk_vectors
    WHERE agent = %(agent)s AND build = %(build)s AND length(code) = %(bits)s
"""
_HAMMING: LiteralString = " ORDER BY hamming_distance(code, %(code)s::varbit) LIMIT %(wanted)s"
_BIT_COUNT: LiteralString = " ORDER BY bit_count(code # %(code)s::varbit) LIMIT %(wanted)s"
_COSINES: LiteralString = """
SELECT chunk_id, max(-(embedding <#> %(asked)s::vector)) AS cosine FROM ({candidates}) AS candidates
CROSS JOIN LATERAL (
    SELECT embedding FROM memory_vectors
    WHERE agent = %(agent)s AND id = vector_id AND vector_dims(embedding) = %(dimensions)s OFFSET 0
) AS vectors
GROUP BY chunk_id ORDER BY cosine DESC, chunk_id
"""


class VectorReader:
    """Nearest chunks for one store; it remembers what the server can do."""

    def __init__(self) -> None:
        self._facts: tuple[str, bool] | None = None

    def engine(self, moment: Moment) -> VectorEngine:
        """What compares vectors here."""
        version, compares_codes = self._known(moment)
        problem = (
            ""
            if compares_codes
            else (f"pgvector {version} compares no bits (0.7 does): Postgres itself counts those that differ")
        )
        return VectorEngine(name=f"pgvector {version}", problem=problem)

    def nearest(self, moment: Moment, vector: Vector, limit: int, scope: Scope) -> dict[int, float]:
        """The chunks whose best piece has the highest cosine, best first."""
        asked = question(vector)
        if is_zero(asked):
            return {}
        inside = narrowed(moment, scope)
        candidates = _OF_THE_BUILD + (inside.admits("memory_chunk_vectors.chunk_id") if inside else "")
        if moment.value(_COUNT, most=EXACT_UP_TO + 1) > EXACT_UP_TO:
            candidates += _HAMMING if self._known(moment)[1] else _BIT_COUNT
        code = question_code(asked)
        rows = moment.rows(
            _COSINES.replace("{candidates}", candidates) + " LIMIT %(limit)s",
            asked=vector_text(asked),
            dimensions=len(vector),
            code=code_text(code),
            bits=8 * len(code),
            wanted=candidates_for(len(vector), limit),
            limit=limit,
            **(inside.values if inside else {}),
        )
        return dict(rows)

    def cosines(self, moment: Moment, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The exact cosine of each chunk's best piece."""
        asked = question(vector)
        if is_zero(asked):
            return {}
        rows = moment.rows(
            _COSINES.replace("{candidates}", _OF_THE_BUILD + " AND chunk_id = ANY(%(ids)s)"),
            asked=vector_text(asked),
            dimensions=len(vector),
            bits=8 * len(question_code(asked)),
            ids=list(chunk_ids),
        )
        return dict(rows)

    def _known(self, moment: Moment) -> tuple[str, bool]:
        if self._facts is None:
            version, compares_codes = moment.rows(_FACTS)[0]
            self._facts = str(version), bool(compares_codes)
        return self._facts


def candidates_for(dimensions: int, limit: int) -> int:
    """How many coarse candidates are scored exactly: the fewer bits a code has, the more."""
    return max(2 * limit, 300 if dimensions >= 384 else 600)


def vector_text(asked: bytes) -> str:
    """A vector from `question` as pgvector reads it."""
    return "[" + ",".join(map(repr, struct.unpack(f"<{len(asked) // 4}f", asked))) + "]"


def code_text(code: bytes) -> str:
    """A sign code as Postgres reads a string of bits."""
    return format(int.from_bytes(code, "big"), f"0{8 * len(code)}b")
