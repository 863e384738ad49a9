"""The builds of an index: how one is begun, published and dropped. Plain functions inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, LiteralString

from nacre.memory.stores.postgres.reading.moment import BUILD_TABLES

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

ID_STEP = 1 << 32
"""How far the ids of a build start above those of the one before, so that no id ever means two chunks."""

_OPEN = "INSERT INTO memory_indexes (agent) VALUES (%(agent)s) ON CONFLICT DO NOTHING"
_ADD_BUILD = """
INSERT INTO memory_builds (agent, build, next_chunk) VALUES (%(agent)s, %(build)s, %(next_chunk)s)
ON CONFLICT DO NOTHING
"""
_INDEX = "SELECT live, hidden, hidden_for FROM memory_indexes WHERE agent = %(agent)s FOR UPDATE"
_NEXT_CHUNK = "SELECT max(next_chunk) FROM memory_builds WHERE agent = %(agent)s"
_HIDE = "UPDATE memory_indexes SET hidden = %(build)s, hidden_for = %(hidden_for)s WHERE agent = %(agent)s"
_PUBLISH = """
UPDATE memory_indexes SET live = hidden, hidden = NULL, hidden_for = NULL
WHERE agent = %(agent)s AND hidden = %(build)s AND building_by = %(holder)s
"""
_ANSWER = (
    "UPDATE memory_indexes SET live = %(build)s, hidden = NULL, hidden_for = NULL WHERE agent = %(agent)s"
)
_OTHERS: LiteralString = "DELETE FROM {table} WHERE agent = %(agent)s AND build <> ALL(%(kept)s)"
_LEFT = """
SELECT hidden_for, EXISTS (
    SELECT 1 FROM memory_builds WHERE memory_builds.agent = %(agent)s AND build <> live
) FROM memory_indexes WHERE memory_indexes.agent = %(agent)s
"""


def open_index(connection: Connection, agent: str) -> None:
    """Makes the row of an agent's index, and its first build, if they are not there."""
    if connection.execute(_OPEN, {"agent": agent}).rowcount:
        connection.execute(_ADD_BUILD, {"agent": agent, "build": 1, "next_chunk": 1})


def begin_build(connection: Connection, agent: str, identity: Mapping[str, str]) -> int:
    """The number of the unfinished build for this identity, or of a fresh one; others are dropped."""
    live, hidden, hidden_for = _index(connection, agent)
    if hidden is not None and hidden_for == identity_text(identity):
        return int(hidden)
    build = _added(connection, agent, max(live, hidden or 0) + 1)
    values = {"agent": agent, "build": build, "hidden_for": identity_text(identity)}
    connection.execute(_HIDE, values)
    drop_others(connection, agent)
    return build


def begin_anew(connection: Connection, agent: str) -> None:
    """Has an empty build answer, and drops all others."""
    live, hidden, _ = _index(connection, agent)
    build = _added(connection, agent, max(live, hidden or 0) + 1)
    connection.execute(_ANSWER, {"agent": agent, "build": build})
    drop_others(connection, agent)


def publish_build(connection: Connection, agent: str, build: int, holder: str) -> bool:
    """Has a hidden build answer; whether it was still this holder's to publish."""
    values = {"agent": agent, "build": build, "holder": holder}
    return bool(connection.execute(_PUBLISH, values).rowcount)


def forget_hidden(connection: Connection, agent: str) -> None:
    """Drops every build but the one that answers."""
    connection.execute(_HIDE, {"agent": agent, "build": None, "hidden_for": None})
    drop_others(connection, agent)


def drop_others(connection: Connection, agent: str) -> None:
    """Deletes the rows of builds that neither answer nor are being filled."""
    live, hidden, _ = _index(connection, agent)
    kept = [live] if hidden is None else [live, hidden]
    for table in BUILD_TABLES:
        connection.execute(_OTHERS.replace("{table}", table), {"agent": agent, "kept": kept})


def left_behind(connection: Connection, agent: str) -> tuple[str | None, bool]:
    """What a hidden build is for, and whether there are rows of builds that do not answer."""
    row = connection.execute(_LEFT, {"agent": agent}).fetchone()
    return (None, False) if row is None else (row[0], bool(row[1]))


def identity_text(identity: Mapping[str, str]) -> str:
    """An identity as a row says what a hidden build is for."""
    return json.dumps(identity, sort_keys=True)


def _added(connection: Connection, agent: str, build: int) -> int:
    row = connection.execute(_NEXT_CHUNK, {"agent": agent}).fetchone()
    last = row[0] if row and row[0] is not None else 1
    connection.execute(_ADD_BUILD, {"agent": agent, "build": build, "next_chunk": last + ID_STEP})
    return build


def _index(connection: Connection, agent: str) -> tuple[Any, ...]:
    row = connection.execute(_INDEX, {"agent": agent}).fetchone()
    return row if row is not None else (1, None, None)
