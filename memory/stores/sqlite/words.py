"""Word search in the index, with a bound on the cost of frequent words.

BM25 over every chunk with a common word takes longer than the rest of a search and is of little use. If a
query would touch too many chunks, its rarest words select the chunks, and its common words are only weighed
there; chunks with only common words are skipped. If a query has only common words, a chunk must have the
rarest few together with another one. Small indexes never reach this bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, get_args

from nacre.memory.contracts.records import Source
from nacre.memory.contracts.store import Scope
from nacre.memory.contracts.words import FIELD_WEIGHTS, FIELDS, Atom, MatchQuery
from nacre.memory.stores.sqlite.connection import Connection
from nacre.record import Record

MOST_ROWS = 1_000
"""How many rows a query's words may select; scoring one takes about half a microsecond."""

MOST_OF_ALL = 100
"""In a large index they may select this fraction of all rows, up to `TOO_MANY_ROWS`."""

ENOUGH_ROWS = 100
"""Below this number of rows, common words also select, at any cost, because there would be too little to
rank."""

TOO_MANY_ROWS = 4_000
"""A word with more rows than this selects only together with others."""

MOST_WEIGHED = 50_000
"""How many rows the weighed words may have together; BM25 counts 30 per microsecond."""

_REMEMBERED_ATOMS = 20_000
_BM25 = f"bm25(chunks_fts, {', '.join(str(FIELD_WEIGHTS[field]) for field in FIELDS)})"


class _Split(NamedTuple):
    """The expressions of words that select, of words that are weighed, and of words that select together.

    `nearly` is used if the last are in too few chunks: the rarest of them with any other word, since any word
    in any chunk would take ten times as long. Each may be empty.
    """

    choosing: str
    weighed: str = ""
    together: str = ""
    nearly: str = ""


class WordReader:
    """BM25 over one reader connection. Not thread-safe."""

    def __init__(self, *, most_rows: int = MOST_ROWS, too_many_rows: int = TOO_MANY_ROWS) -> None:
        self._most_rows = most_rows
        self._too_many_rows = too_many_rows
        self._data_version = -1
        self._count = 0
        self._counted_at = 0
        self._rows: OrderedDict[str, int] = OrderedDict()

    def count(self, connection: Connection) -> int:
        """The number of chunks, counted again after each write."""
        version = connection.pragma("data_version")
        if version != self._data_version:
            self._count = connection.execute("SELECT count(*) FROM chunks").get
            self._data_version = version
            if self._count <= self._most_rows:
                self._rows.clear()
        return self._count

    def counts_of(self, connection: Connection, atoms: Sequence[Atom]) -> list[int]:
        """The approximate number of rows with each atom."""
        self.count(connection)
        return [self._rows_of(connection, expression(atom)) for atom in atoms]

    def lexical(
        self, connection: Connection, query: MatchQuery, limit: int, scope: Scope
    ) -> dict[int, float]:
        """The negated bm25 of the best chunks, best first."""
        inside = narrowed(connection, scope)
        condition = f" AND {inside.admits('chunks_fts.rowid')}" if inside else ""
        arguments = inside.arguments if inside else ()
        choosing, weighed, together, nearly = self._split(connection, query)
        best = _best(connection, choosing, condition, arguments, limit) if choosing else {}
        if weighed and choosing:
            # Chunks in both lists are scored by all words. A chunk beyond the end of this list is worse than
            # all of it, and stays below the limit with the score of its selecting words as well.
            best.update(_best(connection, f"({choosing}) AND ({weighed})", condition, arguments, limit))
            best = _highest(best, limit)
        if together:
            found = _best(connection, together, condition, arguments, limit)
            if not inside and len(best.keys() | found) < limit:
                found = _best(connection, nearly, condition, arguments, limit)
            for chunk_id, score in found.items():
                best[chunk_id] = max(score, best.get(chunk_id, score))
            best = _highest(best, limit)
        if together and not inside and len(best) < limit:
            best = _best(connection, any_of(map(expression, query.atoms)), condition, arguments, limit)
        if inside and weighed and len(best) < limit:
            # A narrow scope has few chunks with the rare words, so every word may select. The plus keeps
            # SQLite from querying the full-text index once for each chunk of the scope.
            condition = f" AND +chunks_fts.rowid IN ({inside.members})"
            best = _best(connection, any_of(map(expression, query.atoms)), condition, arguments, limit)
        return best

    def is_known(self, connection: Connection, atom: Atom) -> bool:
        row = connection.execute(
            "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1", (expression(atom),)
        ).fetchone()
        return row is not None

    def _split(self, connection: Connection, query: MatchQuery) -> _Split:
        count, atoms = self.count(connection), [*map(expression, query.atoms)]
        if count <= self._most_rows or len(atoms) < 2:
            return _Split(any_of(atoms))
        rows = {atom: self._rows_of(connection, atom) for atom in atoms}
        plan = word_plan(
            rows,
            chunk_count=count,
            most_rows=rows_to_choose(count, least=self._most_rows, most=self._too_many_rows),
            too_many_rows=self._too_many_rows,
        )
        choosing, weighed, others = map(any_of, (plan.choosing, plan.weighed, plan.others))
        if not plan.together:
            return _Split(choosing, weighed)
        together = " AND ".join(f"({atom})" for atom in plan.together)
        return _Split(
            choosing,
            weighed,
            f"{together} AND ({others})" if others else together,
            f"({plan.together[0]}) AND ({any_of([*plan.together[1:], *plan.others])})",
        )

    def _rows_of(self, connection: Connection, atom: str) -> int:
        if abs(self._count - self._counted_at) * 10 > self._counted_at:
            self._rows.clear()
            self._counted_at = self._count
        rows = self._rows.get(atom)
        if rows is None:
            rows = int(
                connection.execute("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", (atom,)).get
            )
            self._rows[atom] = rows
            if len(self._rows) > _REMEMBERED_ATOMS:
                self._rows.popitem(last=False)
        return rows


def expression(atom: Atom) -> str:
    """An atom in FTS5's query language; valid for every atom, because its words are a quoted string."""
    words = '"' + atom.words.replace('"', " ") + '"'
    words = f"{words} *" if atom.prefix else words
    return f"{atom.field} : {words}" if atom.field else words


def any_of(expressions: Iterable[str]) -> str:
    """An expression that matches if any of these does; empty without any."""
    return " OR ".join(expressions)


def _best(
    connection: Connection, expression: str, condition: str, arguments: Sequence[str], limit: int
) -> dict[int, float]:
    # `ORDER BY rank` would make FTS5 prepare another query for each search, which takes longer.
    return dict(
        connection.execute(
            f"SELECT chunks_fts.rowid, -{_BM25} AS score FROM chunks_fts WHERE chunks_fts MATCH ?{condition}"
            " ORDER BY score DESC LIMIT ?",
            (expression, *arguments, limit),
        )
    )


def _highest(scores: Mapping[int, float], limit: int) -> dict[int, float]:
    return dict(sorted(scores.items(), key=itemgetter(1), reverse=True)[:limit])


def rows_to_choose(chunk_count: int, *, least: int = MOST_ROWS, most: int = TOO_MANY_ROWS) -> int:
    """How many rows a query's words may select in an index of this size."""
    return max(least, min(chunk_count // MOST_OF_ALL, most))


def needed_together(rows: Sequence[int], *, chunk_count: int) -> int:
    """How many of the rarest words, at least two, leave few enough chunks if they are independent.

    A further required word leaves about half of them.
    """
    left = rows[0] * rows[1] / chunk_count
    needed = 2
    while left > 2 * TOO_MANY_ROWS and needed < len(rows):
        left *= rows[needed] / chunk_count
        needed += 1
    return needed


def split_by_rarity(
    rows: Mapping[str, int], *, chunk_count: int, most_rows: int = MOST_ROWS
) -> tuple[list[str], list[str]]:
    """The atoms that select chunks and the atoms that are weighed in them; `rows` has the frequency of each.

    Both keep the order of `rows`. BM25 ignores words that more than half of all chunks have.
    """
    rarest_first = sorted(rows, key=rows.__getitem__)
    chosen = weighed = 0
    choosing: set[str] = set()
    weighing: set[str] = set()
    for atom in rarest_first:
        if not weighing and (chosen <= ENOUGH_ROWS or chosen + rows[atom] <= most_rows):
            choosing.add(atom)
            chosen += rows[atom]
        elif rows[atom] <= chunk_count / 2 and weighed + rows[atom] <= MOST_WEIGHED:
            weighing.add(atom)
            weighed += rows[atom]
    return [atom for atom in rows if atom in choosing], [atom for atom in rows if atom in weighing]


class WordPlan(NamedTuple):
    """The atoms that select chunks, and those that are only weighed there.

    If the most frequent selecting one has too many rows, it is only weighed, and chunks with all of
    `together`, the rarest first, and any of `others` are found as well.
    """

    choosing: Sequence[str]
    weighed: Sequence[str]
    together: Sequence[str] = ()
    others: Sequence[str] = ()


def word_plan(
    rows: Mapping[str, int],
    *,
    chunk_count: int,
    most_rows: int = MOST_ROWS,
    too_many_rows: int = TOO_MANY_ROWS,
) -> WordPlan:
    """Plans a query by words; `rows` has the frequency of each atom."""
    choosing, weighed = split_by_rarity(rows, chunk_count=chunk_count, most_rows=most_rows)
    common = max(choosing, key=rows.__getitem__)
    if rows[common] <= too_many_rows or not weighed:
        return WordPlan(choosing, weighed)
    rare = [atom for atom in choosing if atom != common]
    telling = [atom for atom in rows if rows[atom] <= chunk_count / 2 and atom not in rare]
    frequent = sorted({common, *telling}, key=rows.__getitem__)
    needed = needed_together([rows[atom] for atom in frequent], chunk_count=chunk_count)
    return WordPlan(rare, [common, *weighed], frequent[:needed], [*frequent[needed:], *rare])


class Narrowed(Record):
    """A scope as a SELECT of chunk ids with its arguments."""

    members: str
    arguments: tuple[str, ...]

    def admits(self, chunk_id: str) -> str:
        """A condition on a column of chunk ids, evaluated row by row, so that few rows cost little."""
        return f"EXISTS ({self.members} AND chunks.id = {chunk_id})"


def narrowed(connection: Connection, scope: Scope) -> Narrowed | None:
    """The SQL of a scope; `None` if it admits everything."""
    conditions: list[str] = []
    arguments: list[str] = []
    for operator, day in ((">=", scope.after), ("<=", scope.before)):
        if day is not None:
            conditions.append(f"(day {operator} ? OR day IS NULL)" if scope.undated else f"day {operator} ?")
            arguments.append(day.isoformat())
    # Without the sources, an index on days suffices.
    tables = "chunks"
    others = [source for source in get_args(Source) if source not in scope.sources]
    if any(
        connection.execute("SELECT EXISTS (SELECT 1 FROM files WHERE source = ?)", (source,)).get
        for source in others
    ):
        tables = "chunks JOIN files ON files.id = chunks.file_id"
        conditions.append(f"source IN ({', '.join('?' * len(scope.sources))})")
        arguments += scope.sources
    if scope.below:
        tables = "chunks JOIN files ON files.id = chunks.file_id"
        # `0` follows `/` in ASCII: everything that begins with the folder's name and a slash.
        conditions.append("files.path >= ? AND files.path < ?")
        arguments += (f"{scope.below}/", f"{scope.below}0")
    if not conditions:
        return None
    members = f"SELECT chunks.id FROM {tables} WHERE {' AND '.join(conditions)}"
    return Narrowed(members=members, arguments=tuple(arguments))
