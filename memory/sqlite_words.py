"""Word search in the index, with a bound on what a frequent word may cost.

BM25 over every chunk that has a common word takes longer than the rest of a search, and tells least. So when
a query would touch too many chunks, its rarest words choose the candidates, and its commonest are left to the
ranking, which reads the candidates' text. Small indexes never come to that.
"""

from __future__ import annotations

from collections import OrderedDict

from nacre.memory.lexical import FTS_WEIGHTS, MatchQuery
from nacre.memory.sqlite_connection import Connection
from nacre.memory.sqlite_reads import scope_condition
from nacre.memory.store import Scope

MOST_ROWS = 2_000
"""How many rows a query may score; at about a microsecond each for every word that they have."""

ENOUGH_ROWS = 200
"""Below this many rows common words are kept, whatever they cost: there would be too little to rank."""

_REMEMBERED_ATOMS = 20_000
_BM25 = f"bm25(chunks_fts, {', '.join(str(weight) for weight in FTS_WEIGHTS)})"


class WordReader:
    """BM25 over one reader connection. Not to be shared between threads."""

    def __init__(self, *, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._data_version = -1
        self._count = 0
        self._counted_at = 0
        self._rows: OrderedDict[str, int] = OrderedDict()

    def count(self, connection: Connection) -> int:
        """How many chunks there are; counted again only after somebody wrote."""
        version = connection.pragma("data_version")
        if version != self._data_version:
            self._count = connection.execute("SELECT count(*) FROM chunks").get
            self._data_version = version
        return self._count

    def lexical(
        self, connection: Connection, query: MatchQuery, limit: int, scope: Scope
    ) -> dict[int, float]:
        """−bm25 of the best chunks, best first."""
        where, arguments = scope_condition(connection, scope)
        # `ORDER BY rank` would have FTS5 prepare a query of its own for each search, which takes longer.
        rows = connection.execute(
            f"SELECT rowid, -{_BM25} AS score FROM chunks_fts WHERE chunks_fts MATCH ?"
            f"{f' AND rowid IN ({where})' if where else ''} ORDER BY score DESC LIMIT ?",
            (self.affordable(connection, query), *arguments, limit),
        )
        return dict(rows)

    def affordable(self, connection: Connection, query: MatchQuery) -> str:
        """The query's expression, without its commonest words when it would touch too many rows."""
        if self.count(connection) <= self._most_rows or len(query.atoms) < 2:
            return query.expression
        sizes = sorted((self._rows_of(connection, atom), place) for place, atom in enumerate(query.atoms))
        kept: list[int] = []
        total = 0
        for rows, place in sizes:
            if total > ENOUGH_ROWS and total + rows > self._most_rows:
                break
            kept.append(place)
            total += rows
        return " OR ".join(query.atoms[place] for place in sorted(kept))

    def _rows_of(self, connection: Connection, atom: str) -> int:
        """About how many rows have an atom: remembered until the index has changed by a tenth."""
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
