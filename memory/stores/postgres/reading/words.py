"""Word search in Postgres: `tsvector` finds the chunks, and BM25 is computed where they lie.

`ts_rank_cd` of a single word or phrase is the sum of its places' weights: exactly the weighted frequency that
BM25 asks for. How often a word stands in the index is counted once and remembered. What a frequent word may
cost is bounded as in the file member: the rarest words choose the chunks.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import LiteralString

from nacre.memory.contracts.store import Scope
from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.stores.postgres.reading.moment import Head, Moment
from nacre.memory.stores.postgres.reading.scope import narrowed
from nacre.memory.stores.postgres.reading.tokens import WEIGHTS, Tokens, any_of
from nacre.memory.stores.sqlite.words import MOST_ROWS, TOO_MANY_ROWS, needed_together, split_by_rarity

LEAST_IDF = 1e-6
"""What a word counts that more than half of all chunks have."""

_REMEMBERED_ATOMS = 20_000
_COUNTS = """
SELECT (
    SELECT count(*) FROM memory_words WHERE agent = %(agent)s AND build = %(build)s AND words @@ asked.atom
) FROM unnest(%(atoms)s::text[]::tsquery[]) WITH ORDINALITY AS asked (atom, place) ORDER BY place
"""
_IS_KNOWN = """
SELECT 1 FROM memory_words
WHERE agent = %(agent)s AND build = %(build)s AND words @@ %(atom)s::tsquery LIMIT 1
"""
# With f the weighted frequency and K = k₁ (1 − b + b · length / usual length), f (k₁ + 1) / (f + K) is
# (k₁ + 1) (1 − K / (f + K)); k₁ is 1.2 and b 0.75.
_BEST: LiteralString = """
SELECT chunk_id, (
    SELECT sum(
        asked.idf * 2.2 * (1 - weight.k / (weight.k + ts_rank_cd(%(weights)s::real[], words, asked.atom)))
    ) FROM unnest(%(atoms)s::text[]::tsquery[], %(idfs)s::float8[]) AS asked (atom, idf)
) AS score
FROM memory_words, LATERAL (SELECT 1.2 * (0.25 + 0.75 * tokens / %(usual_tokens)s::float8) AS k) AS weight
WHERE agent = %(agent)s AND build = %(build)s AND words @@ %(query)s::tsquery
"""
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

    def is_known(self, moment: Moment, atom: Atom, tokens: Tokens) -> bool:
        """Whether an atom stands in any chunk."""
        asked = tokens.atom(atom)
        return bool(asked) and moment.value(_IS_KNOWN, atom=asked) is not None

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
            found = moment.rows(
                _BEST + condition + _ORDER,
                query=asked.query,
                atoms=list(asked.atoms),
                idfs=[idfs[atom] for atom in asked.atoms],
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
            known.update(zip(missing, counted, strict=True))
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
