"""Word search in Postgres: `tsvector` finds the chunks, and BM25 is computed where they lie.

`ts_rank_cd` of a single word or phrase is the sum of its places' weights: exactly the weighted frequency that
BM25 asks for. How often a word stands in the index is counted once and remembered. What a frequent word may
cost is bounded as in the file member: the rarest words choose the chunks.
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
from nacre.memory.stores.sqlite.words import MOST_ROWS, TOO_MANY_ROWS, needed_together, split_by_rarity

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
"""The tables whose rows belong to a build."""

_HEAD = """
SELECT build, chunks, tokens, changed FROM memory_builds
WHERE agent = %(agent)s AND build = coalesce(
    %(build)s, (SELECT live FROM memory_indexes WHERE memory_indexes.agent = %(agent)s), 1)
"""


class Head(NamedTuple):
    """A build as it is now: its number, how many chunks and words it has, and how often it was written."""

    build: int
    chunks: int
    tokens: int
    changed: int


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A connection inside a transaction, and the build that statements are about."""

    connection: Connection
    agent: str
    build: int

    def rows(self, sql: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement; `%(agent)s` and `%(build)s` are there in it."""
        found: list[tuple[Any, ...]] = self.connection.execute(sql, self._with(values)).fetchall()
        return found

    def searched(self, sql: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """`rows` of a statement that is planned for its values each time.

        What a prepared one is planned for after some calls, any values, takes twice as long.
        """
        cursor = self.connection.execute(sql, self._with(values), prepare=False)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def value(self, sql: LiteralString, **values: Any) -> Any:
        """The first column of the first row, or `None` without a row."""
        row = self.connection.execute(sql, self._with(values)).fetchone()
        return None if row is None else row[0]

    def change(self, sql: LiteralString, **values: Any) -> int:
        """How many rows a statement changed."""
        count: int = self.connection.execute(sql, self._with(values)).rowcount
        return count

    def change_each(self, sql: LiteralString, each: Iterable[Mapping[str, Any]]) -> None:
        """The same statement for many values, in few trips to the server."""
        if rows := [self._with(values) for values in each]:
            with self.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"agent": self.agent, "build": self.build, **values}


def head_of(connection: Connection, agent: str, build: int | None) -> Head:
    """The build with this number, or the one that answers; an empty one where there is none yet."""
    row = connection.execute(_HEAD, {"agent": agent, "build": build}).fetchone()
    return Head(*row) if row else Head(build or 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """What a scope leaves of the index: conditions on a row `chunks`, and their values."""

    conditions: LiteralString
    values: dict[str, Any]

    def admits(self, chunk_id: LiteralString) -> LiteralString:
        """A condition on a column with chunk ids, that begins with AND."""
        return (
            " AND EXISTS (SELECT 1 FROM memory_chunks AS chunks WHERE chunks.agent = %(agent)s"
            " AND chunks.build = %(build)s AND chunks.id = " + chunk_id + self.conditions + ")"
        )


def narrowed(moment: Moment, scope: Scope) -> Narrowed | None:
    """What `scope` leaves of the index; `None` when it admits everything."""
    conditions: LiteralString = ""
    if scope.after is not None:
        conditions += " AND chunks.day >= %(after)s"
    if scope.before is not None:
        conditions += " AND (chunks.day <= %(before)s" + (" OR chunks.day IS NULL)" if scope.undated else ")")
    if scope.below:
        conditions += " AND starts_with(chunks.path, %(below)s)"
    others = [source for source in get_args(Source) if source not in scope.sources]
    if others and moment.value(
        # A look for each, in the order of the key: a plan for any source reads all files where it has none.
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
"""How words are cut here: part of an index's identity."""

_MARK_CHARS = 4
"""What stands for an agent: 24 bits. Two agents with the same cost each other time, and see nothing."""

_MOST_WORD_BYTES = 500
"""Longer words are cut here, in chunks and in questions; a `tsvector` takes 2,046 bytes."""

_MOST_POSITION = 16_383
"""Words behind this one count, but not how often: a `tsvector` knows no later place."""

_GAP = 2
_LETTERS: dict[Field, str] = {"text": "A", "title": "B", "parts": "C"}
WEIGHTS = "{0," + ",".join(str(FIELD_WEIGHTS[field]) for field in ("parts", "title", "text")) + "}"
"""What a word in each field counts, from weight D to A, as `ts_rank_cd` takes it."""


def mark_of(agent: str) -> str:
    """What stands before each word of an agent."""
    digest = hashlib.blake2b(agent.encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_MARK_CHARS]


class Tokens:
    """Cuts texts for one agent; several threads may share it."""

    def __init__(self, agent: str) -> None:
        self._mark = mark_of(agent)
        name, *arguments = TOKENIZE.replace("'", "").split(" categories ")[0].split()
        categories = TOKENIZE.split("'")[1]
        self._cutting = threading.Lock()
        connection = apsw.Connection(":memory:")
        self._cut = connection.fts5_tokenizer(name, [*arguments, "categories", categories])

    def words(self, fields: WordFields) -> tuple[str, int]:
        """A chunk's words as the text of a `tsvector`, and how many there are."""
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
        """An atom as the text of a `tsquery`, empty when it has no word; legal whatever was typed."""
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


def any_of(queries: Iterable[str]) -> str:
    """The query that is met when any of these is; empty without any."""
    return " | ".join(queries)


LEAST_IDF = 1e-6
"""What a word counts that more than half of all chunks have."""

_REMEMBERED_ATOMS = 20_000
_COUNTS = """
SELECT (
    SELECT count(*) FROM memory_words WHERE agent = %(agent)s AND build = %(build)s AND words @@ asked.atom
) FROM unnest(%(atoms)s::text[]::tsquery[]) WITH ORDINALITY AS asked (atom, place) ORDER BY place
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
"""What one atom adds to the score of a row."""
_ORDER: LiteralString = " ORDER BY score DESC, chunk_id LIMIT %(limit)s"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query for chunks, and the atoms that they are weighed by."""

    query: str
    atoms: Sequence[str]


class WordReader:
    """BM25 for one store. What it remembers may be used by several threads at once."""

    def __init__(self) -> None:
        self._counted_at = 0
        self._changed: tuple[int, int] = (0, -1)
        self._rows: OrderedDict[str, int] = OrderedDict()

    def counts_of(self, moment: Moment, head: Head, atoms: Sequence[Atom], tokens: Tokens) -> list[int]:
        """In about how many chunks each atom stands."""
        asked = [tokens.atom(atom) for atom in atoms]
        rows = self._rows_of(moment, head, asked)
        return [rows.get(atom, 0) for atom in asked]

    def lexical(
        self, moment: Moment, head: Head, query: MatchQuery, limit: int, scope: Scope, tokens: Tokens
    ) -> dict[int, float]:
        """The BM25 of the best chunks, best first."""
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

        def best(asked: Asked) -> dict[int, float]:
            places = range(len(asked.atoms))
            scores = " + ".join(_SCORE.replace("{at}", str(at)) for at in places)
            found = moment.searched(
                _BEST.replace("{scores}", scores) + condition + _ORDER,
                query=asked.query,
                **{f"atom_{at}": asked.atoms[at] for at in places},
                **{f"idf_{at}": idfs[asked.atoms[at]] for at in places},
                weights=WEIGHTS,
                usual_tokens=max(head.tokens / head.chunks, 1e-9),
                limit=limit,
                **(inside.values if inside else {}),
            )
            return {chunk_id: float(score) for chunk_id, score in found}

        everything = Asked(query=any_of(atoms), atoms=atoms)
        if head.chunks <= MOST_ROWS or len(atoms) < 2:
            return best(everything)
        choosing, weighed, together = _split({atom: rows[atom] for atom in atoms}, head.chunks)
        scores = best(Asked(query=any_of(choosing), atoms=[*choosing, *weighed])) if choosing else {}
        if together is not None:
            for chunk_id, score in best(together).items():
                scores[chunk_id] = max(score, scores.get(chunk_id, score))
            scores = _highest(scores, limit)
        if len(scores) < limit and (together is not None or weighed) and (inside or together is not None):
            # Few chunks have the rare words, in a narrow scope above all: there every word may choose.
            scores = best(everything)
        return scores

    def _rows_of(self, moment: Moment, head: Head, atoms: Iterable[str]) -> Mapping[str, int]:
        """In how many chunks each atom is: remembered until a large index has changed by a tenth."""
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
            counted = [int(row[0]) for row in moment.rows(_COUNTS, atoms=missing)]
            found.update(zip(missing, counted, strict=True))
            # A word that is nowhere may come at any time: it is asked for again.
            known.update((atom, count) for atom, count in zip(missing, counted, strict=True) if count)
            while len(known) > _REMEMBERED_ATOMS:
                known.popitem(last=False)
        return {atom: count for atom, count in found.items() if count is not None}


def idf(rows: int, chunks: int) -> float:
    """What a word counts by how many chunks have it (Robertson and Zaragoza 2009, as FTS computes it)."""
    return max(math.log((chunks - rows + 0.5) / (rows + 0.5)) if chunks > rows else 0.0, LEAST_IDF)


def _split(rows: Mapping[str, int], chunks: int) -> tuple[list[str], list[str], Asked | None]:
    """The atoms that choose, those that are only weighed, and a query of those that choose together."""
    choosing, weighed = split_by_rarity(rows, chunk_count=chunks)
    common = max(choosing, key=rows.__getitem__)
    if rows[common] <= TOO_MANY_ROWS or not weighed:
        return choosing, weighed, None
    rare = [atom for atom in choosing if atom != common]
    telling = [atom for atom in rows if rows[atom] <= chunks / 2 and atom not in rare]
    frequent = sorted({common, *telling}, key=rows.__getitem__)
    needed = needed_together([rows[atom] for atom in frequent], chunk_count=chunks)
    others = [*frequent[needed:], *rare]
    together = " & ".join(frequent[:needed])
    query = f"{together} & ({any_of(others)})" if others else together
    return rare, [common, *weighed], Asked(query=query, atoms=[*frequent[:needed], *others])


def _highest(scores: Mapping[int, float], limit: int) -> dict[int, float]:
    return dict(sorted(scores.items(), key=itemgetter(1), reverse=True)[:limit])
