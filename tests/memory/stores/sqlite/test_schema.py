"""Indexes of earlier versions load for ever, and a kill inside a migration leaves the version before."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path

import pytest

from nacre.memory.stores.sqlite.connection import open_connection, quick_check
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, migrate
from tests.memory.doubles import WordEmbedder, open_engine, workspace
from tests.memory.faults.crash_driver import start

FIXTURES = Path(__file__).parents[3] / "fixtures"
NOTES = {
    "MEMORY.md": "# Max\n\nMax likes green tea.\n",
    "memory/2026-02-10.md": "# Standup\n\n- the zebra ships on Friday\n- café, 记忆, #12\n",
}
"""What the notes said when `index-v1.sqlite.gz` was made."""


def _old_index(folder: Path, version: int) -> Path:
    """An index as a Nacre of that version left it; version 0 is none at all."""
    index = folder / "state" / "main.sqlite"
    index.parent.mkdir()
    if version:
        index.write_bytes(gzip.decompress((FIXTURES / f"index-v{version}.sqlite.gz").read_bytes()))
    return index


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_an_old_index_loads_with_its_vectors(tmp_path: Path, version: int) -> None:
    """Words and vectors that it has are used; nothing is embedded again and nothing is set aside."""
    workspace(tmp_path, NOTES)
    index = _old_index(tmp_path, version)
    embedder = WordEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)

    await engine.sync(reason="cli")

    hits = (await engine.search("when does the zebra ship", min_score=0)).hits
    assert (hits[0].path, hits[0].start_line, hits[0].end_line) == ("memory/2026-02-10.md", 1, 4)
    status = await engine.status()
    assert (status.files, status.vectors, status.quarantined) == (2, 2, ())
    assert embedder.asked == []
    await engine.close()
    connection = open_connection(index, read_only=True)
    assert connection.pragma("user_version") == SCHEMA_VERSION
    connection.close()


async def test_migrated_and_new_indexes_have_the_same_tables(tmp_path: Path) -> None:
    """Nothing depends on which version an index began with."""
    tables = []
    for version in range(SCHEMA_VERSION):
        folder = tmp_path / str(version)
        folder.mkdir()
        connection = open_connection(_old_index(folder, version))
        assert migrate(connection) == SCHEMA_VERSION - version
        tables.append(
            (
                connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall(),
                connection.execute("SELECT k, v FROM chunks_fts_config ORDER BY k").fetchall(),
            )
        )
        connection.close()

    assert all(other == tables[0] for other in tables)


@pytest.mark.parametrize(
    ("version", "killed_at"),
    [
        pytest.param(version, killed, marks=pytest.mark.slow if version else ())
        for version in range(SCHEMA_VERSION)
        for killed in range(version + 1, SCHEMA_VERSION + 1)
    ],
)
async def test_a_kill_inside_a_migration_leaves_the_version_before(
    tmp_path: Path, version: int, killed_at: int
) -> None:
    """The next start goes on from the last committed version, and finds as if nothing had happened."""
    workspace(tmp_path, NOTES)
    index = _old_index(tmp_path, version)
    process = start("migrate", tmp_path, str(killed_at))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    connection = open_connection(index)
    assert (connection.pragma("user_version"), quick_check(connection)) == (killed_at - 1, "")
    connection.close()

    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    hits = (await engine.search("zebra", min_score=0)).hits
    assert [hit.path for hit in hits] == ["memory/2026-02-10.md"]
    assert (await engine.status()).quarantined == ()
    await engine.close()
