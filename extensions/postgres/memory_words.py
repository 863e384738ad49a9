"""Word search in PostgreSQL: `tsvector` finds the chunks, and the server computes BM25.

`ts_rank_cd` of a single word or phrase is the sum of the weights of its positions, which is the weighted
frequency that BM25 needs. Document frequencies are counted once and cached. As in the SQLite store, the
rarest words select the chunks, which bounds the cost of frequent words.
"""

from __future__ import annotations

import base64
import hashlib
import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple, cast, get_args

import apsw

from nacre.memory.contracts.records import Source
from nacre.memory.contracts.store import Scope
from nacre.memory.contracts.words import FIELD_WEIGHTS, FIELDS, Atom, Field, MatchQuery, WordFields
from nacre.memory.stores.sqlite.schema import TOKENIZE
from nacre.memory.stores.sqlite.words import MOST_ROWS, word_plan

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


BUILD_TABLES: tuple[LiteralString, ...] = (
    "memory_meta",
    "memory_files",
    "memory_chunks",
    "memory_words",
    "memory_chunk_vectors",
    "memory_failures",
    "memory_builds",
)
"""The tables with a `build` column."""

_HEAD = """
SELECT build, chunks, tokens, changed FROM memory_builds
WHERE agent = %(agent)s AND build = coalesce(
    %(build)s, (SELECT live FROM memory_indexes WHERE memory_indexes.agent = %(agent)s), 1)
"""


class Head(NamedTuple):
    """The state of a build: its number, its chunks and tokens, and the number of writes."""

    build: int
    chunks: int
    tokens: int
    changed: int


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A connection inside a transaction, and the build that its statements use."""

    connection: Connection
    agent: str
    build: int

    def rows(self, sql: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement, which may use `%(agent)s` and `%(build)s`."""
        found: list[tuple[Any, ...]] = self.connection.execute(sql, self._with(values)).fetchall()
        return found

    def searched(self, sql: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """`rows`, planned for the values, because a generic prepared plan takes twice as long."""
        cursor = self.connection.execute(sql, self._with(values), prepare=False)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def value(self, sql: LiteralString, **values: Any) -> Any:
        """The first column of the first row, or `None` without a row."""
        row = self.connection.execute(sql, self._with(values)).fetchone()
        return None if row is None else row[0]

    def change(self, sql: LiteralString, **values: Any) -> int:
        """Runs a statement and returns the number of changed rows."""
        count: int = self.connection.execute(sql, self._with(values)).rowcount
        return count

    def change_each(self, sql: LiteralString, each: Iterable[Mapping[str, Any]]) -> None:
        """Runs a statement for many values in few round trips."""
        if rows := [self._with(values) for values in each]:
            with self.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"agent": self.agent, "build": self.build, **values}


def head_of(connection: Connection, agent: str, build: int | None) -> Head:
    """The build with this number, or the live one; an empty build if there is none yet."""
    row = connection.execute(_HEAD, {"agent": agent, "build": build}).fetchone()
    return Head(*row) if row else Head(build or 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """A scope as conditions on a row `chunks`, with their values."""

    conditions: LiteralString
    values: dict[str, Any]

    def admits(self, chunk_id: LiteralString) -> LiteralString:
        """The condition on a column of chunk ids, beginning with AND."""
        return (
            " AND EXISTS (SELECT 1 FROM memory_chunks AS chunks WHERE chunks.agent = %(agent)s"
            " AND chunks.build = %(build)s AND chunks.id = " + chunk_id + self.conditions + ")"
        )


def narrowed(moment: Moment, scope: Scope) -> Narrowed | None:
    """The conditions of `scope`; `None` if it admits everything."""
    conditions: LiteralString = ""
    if scope.after is not None:
        conditions += " AND chunks.day >= %(after)s"
    if scope.before is not None:
        conditions += " AND (chunks.day <= %(before)s" + (" OR chunks.day IS NULL)" if scope.undated else ")")
    if scope.below:
        conditions += " AND starts_with(chunks.path, %(below)s)"
    others = [source for source in get_args(Source) if source not in scope.sources]
    if others and moment.value(
        # One key lookup per source: a plan for all sources reads all files if there are none.
        "SELECT count(*) FROM unnest(%(others)s::text[]) AS others (source), LATERAL ("
        "SELECT FROM memory_files WHERE agent = %(agent)s AND build = %(build)s"
        " AND memory_files.source = others.source ORDER BY path LIMIT 1) AS found",
        others=others,
    ):
        conditions += " AND chunks.source = ANY(%(sources)s)"
    if not conditions:
        return None
    values = {"after": scope.after, "before": scope.before, "below": f"{scope.below}/"}
    return Narrowed(conditions=conditions, values={**values, "sources": list(scope.sources)})


ANALYSIS = f"tsvector of {TOKENIZE}"
"""The tokenizer, which is part of an index's identity."""

_MARK_CHARS = 4
"""The length of an agent's mark: 24 bits. Agents with equal marks only slow each other down."""

_MOST_WORD_BYTES = 500
"""Longer words are truncated in chunks and in questions; the limit of `tsvector` is 2,046 bytes."""

_MOST_POSITION = 16_383
"""The last position of a `tsvector`; all later words share it."""

_GAP = 2
_LETTERS: dict[Field, str] = {"text": "A", "title": "B", "parts": "C"}
WEIGHTS = "{0," + ",".join(str(FIELD_WEIGHTS[field]) for field in ("parts", "title", "text")) + "}"
"""The weights of the fields, from D to A, for `ts_rank_cd`."""


def mark_of(agent: str) -> str:
    """The prefix of each word of an agent."""
    digest = hashlib.blake2b(agent.encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_MARK_CHARS]


class Tokens:
    """The tokenizer of one agent. Thread-safe."""

    def __init__(self, agent: str) -> None:
        self._mark = mark_of(agent)
        name, *arguments = TOKENIZE.replace("'", "").split(" categories ")[0].split()
        categories = TOKENIZE.split("'")[1]
        self._cutting = threading.Lock()
        connection = apsw.Connection(":memory:")
        self._cut = connection.fts5_tokenizer(name, [*arguments, "categories", categories])

    def words(self, fields: WordFields) -> tuple[str, int]:
        """A chunk's words as a `tsvector` literal, and their number."""
        places: dict[str, list[str]] = defaultdict(list)
        at = count = 0
        for field in FIELDS:
            letter = _LETTERS[field]
            for word in self._tokens(getattr(fields, field), apsw.FTS5_TOKENIZE_DOCUMENT):
                at = min(at + 1, _MOST_POSITION)
                count += 1
                places[word].append(f"{at}{letter}")
            at = min(at + _GAP, _MOST_POSITION)
        return " ".join(f"{self._quoted(word)}:{','.join(at)}" for word, at in places.items()), count

    def atom(self, atom: Atom) -> str:
        """An atom as a `tsquery` literal, empty if it has no word. Always valid syntax."""
        kind = apsw.FTS5_TOKENIZE_QUERY | (apsw.FTS5_TOKENIZE_PREFIX if atom.prefix else 0)
        words = self._tokens(atom.words, kind)
        letter = _LETTERS[atom.field] if atom.field else ""
        marks = [letter] * len(words)
        if atom.prefix and marks:
            marks[-1] = "*" + letter
        pieces = [
            self._quoted(word) + (f":{mark}" if mark else "") for word, mark in zip(words, marks, strict=True)
        ]
        return f"({' <-> '.join(pieces)})" if pieces else ""

    def _tokens(self, text: str, kind: int) -> list[str]:
        with self._cutting:
            found = self._cut(
                text.encode(errors="replace"), kind, None, include_offsets=False, include_colocated=False
            )
        return cast("list[str]", found)

    def _quoted(self, word: str) -> str:
        cut = word.encode()[:_MOST_WORD_BYTES].decode(errors="ignore") if len(word) > 120 else word
        escaped = cut.replace("\\", "\\\\").replace("'", "''")
        return f"'{self._mark}{escaped}'"


LEAST_IDF = 1e-6
"""The IDF of a word that occurs in more than half of all chunks."""

_REMEMBERED_ATOMS = 20_000
_COUNT: LiteralString = """
(SELECT count(*) FROM memory_words
WHERE agent = %(agent)s AND build = %(build)s AND words @@ %(atom_{at})s::tsquery)
"""
# With f the weighted frequency and K = k₁ (1 − b + b · length / usual length), f (k₁ + 1) / (f + K) is
# (k₁ + 1) (1 − K / (f + K)); k₁ is 1.2 and b 0.75.
_BEST: LiteralString = """
SELECT chunk_id, {scores} AS score
FROM memory_words, LATERAL (SELECT 1.2 * (0.25 + 0.75 * tokens / %(usual_tokens)s::float8) AS k) AS weight
WHERE agent = %(agent)s AND build = %(build)s AND words @@ %(query)s::tsquery
"""
_SCORE: LiteralString = """
%(idf_{at})s::float8 * 2.2
    * (1 - k / (k + ts_rank_cd(%(weights)s::real[], words, %(atom_{at})s::tsquery)))
"""
"""One atom's part of the score."""
_ORDER: LiteralString = " ORDER BY score DESC, chunk_id LIMIT %(limit)s"


class WordReader:
    """BM25 for one store, with a cache of document frequencies. Thread-safe."""

    def __init__(self) -> None:
        self._counted_at = 0
        self._changed: tuple[int, int] = (0, -1)
        self._rows: OrderedDict[str, int] = OrderedDict()

    def counts_of(self, moment: Moment, head: Head, atoms: Sequence[Atom], tokens: Tokens) -> list[int]:
        """The approximate document frequency of each atom."""
        asked = [tokens.atom(atom) for atom in atoms]
        rows = self._rows_of(moment, head, asked)
        return [rows.get(atom, 0) for atom in asked]

    def lexical(
        self, moment: Moment, head: Head, query: MatchQuery, limit: int, scope: Scope, tokens: Tokens
    ) -> dict[int, float]:
        """The BM25 scores of the best chunks, best first."""
        atoms = [asked for asked in dict.fromkeys(map(tokens.atom, query.atoms)) if asked]
        if not atoms or not head.chunks:
            return {}
        rows = self._rows_of(moment, head, atoms)
        atoms = [atom for atom in atoms if rows[atom]]
        if not atoms:
            return {}
        inside = narrowed(moment, scope)
        condition = inside.admits("memory_words.chunk_id") if inside else ""
        idfs = {atom: idf(rows[atom], head.chunks) for atom in atoms}

        def best(selecting: str, scoring: Sequence[str]) -> dict[int, float]:
            places = range(len(scoring))
            scores = " + ".join(_SCORE.replace("{at}", str(at)) for at in places)
            found = moment.searched(
                _BEST.replace("{scores}", scores) + condition + _ORDER,
                query=selecting,
                **{f"atom_{at}": scoring[at] for at in places},
                **{f"idf_{at}": idfs[scoring[at]] for at in places},
                weights=WEIGHTS,
                usual_tokens=max(head.tokens / head.chunks, 1e-9),
                limit=limit,
                **(inside.values if inside else {}),
            )
            return {chunk_id: float(score) for chunk_id, score in found}

        if head.chunks <= MOST_ROWS or len(atoms) < 2:
            return best(" | ".join(atoms), atoms)
        plan = word_plan({atom: rows[atom] for atom in atoms}, chunk_count=head.chunks)
        choosing = " | ".join(plan.choosing)
        scores = best(choosing, [*plan.choosing, *plan.weighed]) if choosing else {}
        if plan.together:
            others = [f"({' | '.join(plan.others)})"] if plan.others else []
            together = " & ".join([*plan.together, *others])
            for chunk_id, score in best(together, [*plan.together, *plan.others]).items():
                scores[chunk_id] = max(score, scores.get(chunk_id, score))
            scores = dict(sorted(scores.items(), key=itemgetter(1), reverse=True)[:limit])
        if len(scores) < limit and (plan.together or (plan.weighed and inside)):
            # Few chunks have the rare words, especially in a narrow scope: let every word select.
            scores = best(" | ".join(atoms), atoms)
        return scores

    def _rows_of(self, moment: Moment, head: Head, atoms: Iterable[str]) -> Mapping[str, int]:
        """Document frequencies, cached until a large index has changed by a tenth."""
        state = (head.build, head.changed)
        if state != self._changed:
            other_build = state[0] != self._changed[0]
            if (
                other_build
                or head.chunks <= MOST_ROWS
                or abs(head.chunks - self._counted_at) * 10 > self._counted_at
            ):
                self._rows = OrderedDict()
                self._counted_at = head.chunks
            self._changed = state
        known = self._rows
        found = {atom: known.get(atom) for atom in atoms if atom}
        missing = [atom for atom, count in found.items() if count is None]
        if missing:
            # An array: a row has at most 1,664 columns, and a long question in Chinese more words.
            counts = ", ".join(_COUNT.replace("{at}", str(at)) for at in range(len(missing)))
            values = {f"atom_{at}": atom for at, atom in enumerate(missing)}
            counted: list[int] = moment.searched(f"SELECT ARRAY[{counts}]", **values)[0][0]
            found.update(zip(missing, counted, strict=True))
            # A word that does not occur yet may appear at any time, so zero is not cached.
            known.update((atom, count) for atom, count in zip(missing, counted, strict=True) if count)
            while len(known) > _REMEMBERED_ATOMS:
                known.popitem(last=False)
        return {atom: count for atom, count in found.items() if count is not None}


def idf(rows: int, chunks: int) -> float:
    """The inverse document frequency (Robertson and Zaragoza 2009, as FTS5 computes it)."""
    return max(math.log((chunks - rows + 0.5) / (rows + 0.5)) if chunks > rows else 0.0, LEAST_IDF)
