"""Which chunks a search may return, as a condition in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString, get_args

from nacre.memory.contracts.records import Source
from nacre.memory.contracts.store import Scope
from nacre.memory.stores.postgres.reading.moment import Moment


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
        conditions += " AND chunks.day <= %(before)s"
    if scope.below:
        conditions += " AND starts_with(chunks.path, %(below)s)"
    others = [source for source in get_args(Source) if source not in scope.sources]
    if others and moment.value(
        "SELECT EXISTS (SELECT 1 FROM memory_files"
        " WHERE agent = %(agent)s AND build = %(build)s AND source = ANY(%(others)s))",
        others=others,
    ):
        conditions += " AND chunks.source = ANY(%(sources)s)"
    if not conditions:
        return None
    values = {"after": scope.after, "before": scope.before, "below": f"{scope.below}/"}
    return Narrowed(conditions=conditions, values={**values, "sources": list(scope.sources)})
