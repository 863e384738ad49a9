"""A damaged index is set aside and built again; nothing is lost, and nothing foreign is touched."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.contracts.settings import VectorStoreSettings
from nacre.memory.stores.index_file import SqliteIndexPlace, set_aside
from nacre.memory.stores.sqlite.connection import PAGE_BYTES
from nacre.memory.stores.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from tests.memory.doubles import NOON, open_engine, workspace

INDEX = "state/main.sqlite"


async def _indexed(tmp_path: Path, *, files: int = 60) -> None:
    notes = {
        f"memory/{number}.md": f"note {number} about cats {'and more ' * 200}" for number in range(files)
    }
    workspace(tmp_path, notes)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    await engine.close()


def _overwrite(path: Path, *, at: int, size: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(b"\xa5" * size)


@pytest.mark.parametrize("damage", ["head", "middle", "cut", "empty text"])
async def test_a_damaged_index_is_set_aside_and_built_again(tmp_path: Path, damage: str) -> None:
    """Whatever is broken, opening works, the broken file is kept under another name, and search finds."""
    await _indexed(tmp_path)
    path = tmp_path / INDEX
    if damage == "head":
        _overwrite(path, at=0, size=4096)
    elif damage == "middle":
        _overwrite(path, at=2 * PAGE_BYTES, size=6 * PAGE_BYTES)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[: 3 * PAGE_BYTES + 77])
    else:
        path.write_text("no database at all\n" * 500)

    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")

    assert len((await engine.search("note 7 cats", min_score=0)).hits) > 0
    status = await engine.status()
    assert (status.files, len(status.quarantined)) == (60, 1)
    assert status.quarantined[0].startswith("main.sqlite.corrupt-20260314T120000Z")
    assert (tmp_path / "state" / status.quarantined[0]).stat().st_size > 0
    await engine.close()


@pytest.mark.parametrize(
    "bits", [(0, 7), pytest.param(range(8), marks=pytest.mark.slow)], ids=["ends", "all"]
)
@pytest.mark.covers("ATT-7")
async def test_no_flipped_bit_of_the_head_takes_the_index_away(tmp_path: Path, bits: Sequence[int]) -> None:
    """Wherever one bit of the first hundred bytes is another, notes are found: by this index or a new one."""
    await _indexed(tmp_path, files=2)
    state, path = tmp_path / "state", tmp_path / INDEX
    sound = path.read_bytes()
    # The marks of the file, its formats, its encoding, and the versions of the tables and of the index.
    for byte in (16, 18, 19, 21, 40, 44, 47, 56, 59, 60, 61, 62, 63, 68, 69, 70, 71):
        for bit in bits:
            for left in state.iterdir():
                left.unlink()
            path.write_bytes(sound[:byte] + bytes([sound[byte] ^ 1 << bit]) + sound[byte + 1 :])
            engine = await open_engine(tmp_path)
            await engine.sync(reason="cli")
            hits = (await engine.search("note 1 cats", min_score=0)).hits
            await engine.close()
            assert hits, (byte, bit)
            assert _marks(path) == (APPLICATION_ID, SCHEMA_VERSION), (byte, bit)


def _marks(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as index:
        [(program,)], [(version,)] = (
            index.execute("PRAGMA application_id"),
            index.execute("PRAGMA user_version"),
        )
        return program, version


async def test_an_index_with_a_strange_mark_is_set_aside_by_name(tmp_path: Path) -> None:
    """A file whose tables are ours is an index, whatever its mark says; what was set aside is told."""
    await _indexed(tmp_path, files=2)
    path = tmp_path / INDEX
    _overwrite(path, at=70, size=1)

    engine = await open_engine(tmp_path)

    assert len((await engine.status()).quarantined) == 1
    await engine.close()


async def test_a_status_that_finds_damage_names_the_index_that_it_set_aside(tmp_path: Path) -> None:
    """The first answer says what happened, and not only the one after it."""
    await _indexed(tmp_path)
    engine = await open_engine(tmp_path)
    path = tmp_path / INDEX
    _overwrite(path, at=PAGE_BYTES, size=path.stat().st_size - PAGE_BYTES)

    status = await engine.status()
    await engine.close()

    assert [name.partition(".corrupt-")[0] for name in status.quarantined] == ["main.sqlite"]


async def test_damage_that_shows_while_running_is_healed(tmp_path: Path) -> None:
    """An index that breaks under an open engine is replaced by the next call that runs into it."""
    await _indexed(tmp_path, files=400)
    engine = await open_engine(tmp_path)
    assert (await engine.search("note 7 cats", min_score=0)).hits
    size = (tmp_path / INDEX).stat().st_size
    _overwrite(tmp_path / INDEX, at=0, size=size)

    status = await engine.status(deep=True)
    await engine.sync(reason="cli")

    assert len(status.quarantined) == 1
    assert (await engine.status()).files == 400
    assert (await engine.search("note 7 cats", min_score=0)).hits
    await engine.close()


@pytest.mark.covers("ATT-7")
async def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    """A wrong `store.path` is an error that names the problem; the other file stays as it is."""
    workspace(tmp_path, {"MEMORY.md": "tea"})
    (tmp_path / "state").mkdir()
    with sqlite3.connect(tmp_path / INDEX) as other:
        other.execute("CREATE TABLE mail (subject TEXT)")
        other.execute("INSERT INTO mail VALUES ('hello')")
    other.close()
    before = (tmp_path / INDEX).read_bytes()

    with pytest.raises(IndexUnusable, match=r"main\.sqlite is a database of another program.*store\.path"):
        await open_engine(tmp_path)

    assert (tmp_path / INDEX).read_bytes() == before


@pytest.mark.covers("SEED-27", "PART-7")
async def test_an_index_that_was_deleted_is_built_again(tmp_path: Path) -> None:
    """The index is derived data: deleting it costs a sync and nothing else."""
    await _indexed(tmp_path)
    for path in (tmp_path / "state").iterdir():
        path.unlink()

    engine = await open_engine(tmp_path)

    assert (await engine.search("note 7 cats", min_score=0)).hits
    await engine.close()


@pytest.mark.parametrize(
    "place",
    ["state", "state/main.sqlite", *(f"state/main.sqlite.{end}" for end in ("lock", "rebuild", "building"))],
)
async def test_a_place_where_no_index_can_be_is_a_sentence(tmp_path: Path, place: str) -> None:
    """Whatever the file system refuses, opening or syncing says which index, and what to check."""
    workspace(tmp_path, {"MEMORY.md": "tea"})
    if place == "state":
        (tmp_path / place).write_text("a file in the place of the folder")
    else:
        (tmp_path / place / "in-the-way").mkdir(parents=True)

    async def used() -> None:
        engine = await open_engine(tmp_path)
        try:
            await engine.sync(reason="cli")
            await engine.sync(reason="cli", force=True)
        finally:
            await engine.close()

    with pytest.raises(IndexUnusable, match=r"main\.sqlite"):
        await used()


def test_a_damaged_index_takes_its_side_files_along(tmp_path: Path) -> None:
    """A fresh database never meets the old write-ahead log; twice in one second loses neither."""
    index = tmp_path / "main.sqlite"
    for _ in range(2):
        for suffix in ("", "-wal", "-shm"):
            index.with_name(index.name + suffix).write_bytes(b"damaged")
        set_aside(index, NOON)

    place = SqliteIndexPlace(index, VectorStoreSettings(), lambda: NOON, owns_folder=True)
    first, second = place.quarantined()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {name + suffix for name in (first, second) for suffix in ("", "-wal", "-shm")}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.covers("PART-22", "ATT-6")
async def test_the_index_is_the_owners_alone(tmp_path: Path, umask: int) -> None:
    """New files and those of an open folder end up the owner's, whatever the umask; others' stay."""
    workspace(tmp_path, {"MEMORY.md": "private words"})
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    for name in ("main.sqlite.corrupt-20260101T000000Z", "main.sqlite.clock", "main.sqlited", "other.txt"):
        (state / name).touch()
        (state / name).chmod(0o644)
    before = os.umask(umask)
    try:
        engine = await open_engine(tmp_path)
        await engine.sync(reason="cli")
        await engine.sync(reason="cli", force=True)
        modes = {path.name: path.stat().st_mode & 0o777 for path in state.iterdir()}
        await engine.close()
    finally:
        os.umask(before)

    assert {"main.sqlite", "main.sqlite-wal", "main.sqlite.lock"} < modes.keys()
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {
        "main.sqlited": 0o644,
        "other.txt": 0o644,
    }
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.covers("ATT-6")
async def test_an_index_that_was_open_to_all_is_mended_at_start(tmp_path: Path) -> None:
    """One made under another umask; a folder that the owner named for it keeps its mode."""
    await _indexed(tmp_path, files=1)
    (tmp_path / INDEX).chmod(0o644)
    (tmp_path / "state").chmod(0o755)

    engine = await open_engine(tmp_path, {"store": {"path": str(tmp_path / INDEX)}})
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in (INDEX, "state")]
    await engine.close()

    assert modes == [0o600, 0o755]
