"""The tables of the index, as numbered migrations, and the function that applies them.

The index only holds what the Markdown files say, so a file that cannot be migrated is replaced. A migration
is one transaction, so a kill leaves the previous version.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from nacre.memory.contracts.errors import IndexDamaged, IndexUnusable
from nacre.memory.contracts.words import FIELDS
from nacre.memory.stores.sqlite.connection import Connection, transaction
from nacre.memory.vectors.vector_math import whole_numbers

# Mn and Mc are token characters, so that vowel signs do not split Hindi and Thai words.
TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""How FTS5 splits words; part of an index's identity."""

_VERSION_1 = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    read_at_ns INTEGER NOT NULL,
    UNIQUE (source, path)
) STRICT;

-- AUTOINCREMENT: an id is never used twice, so whoever looked one up earlier can miss it, never mistake it.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading_path TEXT NOT NULL,
    day TEXT,
    content_hash TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX chunks_file ON chunks (file_id);
CREATE INDEX chunks_day ON chunks (day) WHERE day IS NOT NULL;

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    {", ".join(FIELDS)}, content='', contentless_delete=1, tokenize="{TOKENIZE}"
);

-- `code` holds the signs of the vector's numbers, one bit each: what the coarse pass compares.
CREATE TABLE chunk_vectors (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chunk_id INTEGER NOT NULL,
    piece INTEGER NOT NULL,
    vector_id INTEGER NOT NULL,
    code BLOB
) STRICT;
CREATE UNIQUE INDEX chunk_vectors_chunk ON chunk_vectors (chunk_id, piece);
CREATE INDEX chunk_vectors_vector ON chunk_vectors (vector_id);

-- Also the embedding cache: a row that no chunk_vectors row points to is kept in case its text comes back.
-- `embedding` is float32, little-endian, of length one; NULL says that the provider refuses this text.
CREATE TABLE embedders (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    embedder_id INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    embedding BLOB,
    UNIQUE (embedder_id, text_hash)
) STRICT;

CREATE TABLE failures (
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    problem TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retry_at_seconds REAL NOT NULL,
    PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
"""

# The bytes of words that a transaction gathers before it writes a segment. The default of one
# megabyte would split each batch of a first index into segments to be merged right afterwards.
_VERSION_2 = "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('hashsize', 16777216);"

# `embedding` becomes scaled 16-bit numbers. In a new table, because pages of the old one
# would stay half empty.
_VERSION_3 = """
CREATE TABLE vectors_3 (
    id INTEGER PRIMARY KEY,
    embedder_id INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    embedding BLOB, -- 16-bit numbers in proportion
    UNIQUE (embedder_id, text_hash)
) STRICT;
INSERT INTO vectors_3
    SELECT id, embedder_id, text_hash, used_at, whole_numbers(embedding) FROM vectors ORDER BY id;
DROP TABLE vectors;
ALTER TABLE vectors_3 RENAME TO vectors;
"""

# `sentences` holds the vectors of the text's sentences in a row, one signed byte per number;
# NULL means that there are none, as with most embedders.
_VERSION_4 = """
ALTER TABLE vectors ADD COLUMN sentences BLOB;
CREATE INDEX vectors_without_sentences ON vectors (id) WHERE sentences IS NULL AND embedding IS NOT NULL;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)
"""Migration n leads from version n to n + 1. Never change a released one; add another.

Each further one must change a table or an index, because a version ahead of our tables counts as a flipped
bit.
"""

SCHEMA_VERSION = len(MIGRATIONS)
_TABLES = {"meta", "files", "chunks", "chunks_fts", "failures"}
"""Tables that every version of an index has."""
APPLICATION_ID = 0x4E616372
"""The `PRAGMA application_id` of an index ("Nacr"), which tells it from other programs' databases."""


def migrate(connection: Connection, *, between: Callable[[int], None] | None = None) -> int:
    """Migrates an index to the newest version and returns the number of steps.

    `between` is called inside each migration's transaction with the new version.

    Raises:
        IndexUnusable: the file belongs to a newer version of Nacre, or to another program.
    """
    steps = 0
    connection.create_scalar_function("whole_numbers", lambda *row: whole_numbers(*row), 1)
    while version_of(connection) < SCHEMA_VERSION:
        with transaction(connection):
            version = version_of(connection)
            if version >= SCHEMA_VERSION:
                break
            connection.execute(MIGRATIONS[version])
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")
            if between is not None:
                between(version + 1)
        steps += 1
    if (version := version_of(connection)) > SCHEMA_VERSION:
        raise IndexUnusable(
            f"The index {connection.filename} has version {version}, this Nacre knows {SCHEMA_VERSION}. "
            "Use the newer Nacre, or delete the index: it is rebuilt from the Markdown files."
        )
    return steps


def version_of(connection: Connection) -> int:
    """The version of an index; 0 for an empty file.

    Two places identify an index, and no single flipped bit changes both: the mark in its header and the names
    of its tables. A file with neither belongs to another program and is left alone.

    Raises:
        IndexDamaged: the header of an index contradicts its tables.
        IndexUnusable: the file belongs to another program.
    """
    version = int(connection.pragma("user_version"))
    application_id = int(connection.pragma("application_id"))
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema")}
    if not tables and not version and application_id in (0, APPLICATION_ID):
        return 0
    is_marked, has_ours = application_id == APPLICATION_ID, tables >= _TABLES
    if not is_marked and not has_ours:
        raise IndexUnusable(
            f"{connection.filename} is a database of another program and is left alone. "
            "Move it away, or name another file in memorySearch.store.path."
        )
    is_newer = version > SCHEMA_VERSION
    if not (is_marked and has_ours and version > 0) or (is_newer and _schema(connection) == _own_schema()):
        where = f"The memory index {connection.filename}"
        raise IndexDamaged(f"{where} is damaged (its header is not that of an index).")
    return version


def _own_schema() -> list[tuple[str, str]]:
    with closing(Connection(":memory:")) as connection:
        migrate(connection)
        return _schema(connection)


def _schema(connection: Connection) -> list[tuple[str, str]]:
    return [
        (str(name), str(sql))
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name")
    ]
