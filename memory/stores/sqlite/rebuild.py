"""What a full rebuild does to the two files of an index: plain functions over connections.

The hidden file beside the index survives a kill and is taken up again when it was made for the same identity.
Publishing copies its pages into the live file inside one transaction of the live file: open readers of every
process keep the old content until the commit, and a kill at any byte leaves either the old index or the new
one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from nacre.memory.contracts.errors import refusals_told
from nacre.memory.stores.sqlite.connection import Connection, copy_database, open_connection, transaction

ID_STEP = 1 << 32
"""How far the ids of a rebuilt index start above the live one's, so that no id ever means two chunks."""

_MADE_FOR = "rebuild_identity"
_BUILD = "build"
_FILES = ("-wal", "-shm", ".clock", ".lock", "")
"""The database itself is deleted last: as long as it is there, the next sync looks for it and goes on."""
_NUMBERED = ("chunks", "chunk_vectors")
_COPY_ROWS = 2_000


def rebuild_path(index: Path) -> Path:
    """The hidden file that belongs to an index."""
    return index.with_name(index.name + ".rebuild")


def remove_database(path: Path) -> None:
    """Deletes a database file with its side files.

    Raises:
        IndexUnusable: a file cannot be deleted.
    """
    with refusals_told(path):
        for suffix in _FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def marks(identity: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """Rows of `meta` that say what a hidden index is made for, and that it comes after the live one."""
    return {_MADE_FOR: _text(identity), _BUILD: str(_build(live) + 1)}


def goes_on(hidden: Mapping[str, str], live: Mapping[str, str], identity: Mapping[str, str]) -> bool:
    """Whether a hidden index with these rows of `meta` is an unfinished one for this identity."""
    return hidden.get(_MADE_FOR) == _text(identity) and _build(hidden) > _build(live)


def copy_vectors(connection: Connection, live: Path) -> None:
    """Copies vectors in runs, so that no transaction grows with the index."""
    connection.execute("ATTACH ? AS live", (str(live),))
    try:
        with transaction(connection):
            connection.execute("INSERT OR IGNORE INTO main.embedders (name) SELECT name FROM live.embedders")
        last = 0
        while True:
            end = connection.execute(
                "SELECT max(id) FROM (SELECT id FROM live.vectors WHERE id > ? ORDER BY id LIMIT ?)",
                (last, _COPY_ROWS),
            ).get
            if end is None:
                return
            with transaction(connection):
                connection.execute(
                    "INSERT OR IGNORE INTO main.vectors"
                    " (embedder_id, text_hash, used_at, embedding, sentences)"
                    " SELECT main.embedders.id, text_hash, used_at, embedding, x'' FROM live.vectors"
                    " JOIN live.embedders ON live.embedders.id = embedder_id"
                    " JOIN main.embedders USING (name) WHERE live.vectors.id > ? AND live.vectors.id <= ?",
                    (last, end),
                )
            last = end
    finally:
        connection.execute("DETACH live")


def replace_content(connection: Connection, live: Path, hidden: Path) -> None:
    """Under the lock: the last vectors into the hidden file, then all of it into the live one."""
    source = open_connection(hidden)
    try:
        copy_vectors(source, live)
        copy_database(source, connection)
    finally:
        source.close()
    remove_database(hidden)
    connection.pragma("wal_checkpoint(TRUNCATE)")


def next_ids(connection: Connection) -> dict[str, int]:
    """Where the ids of a rebuilt index start."""
    last = dict.fromkeys(_NUMBERED, 0) | {
        str(name): int(seq) for name, seq in connection.execute("SELECT name, seq FROM sqlite_sequence")
    }
    return {name: seq + ID_STEP for name, seq in last.items()}


def start_ids(connection: Connection, first_ids: Mapping[str, int]) -> None:
    """Has the ids of an empty index start there."""
    with transaction(connection):
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", first_ids.items())


def _build(meta: Mapping[str, str]) -> int:
    return int(meta.get(_BUILD, "0"))


def _text(identity: Mapping[str, str]) -> str:
    return json.dumps(identity, sort_keys=True)
