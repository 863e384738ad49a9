"""A damaged index is set aside and built again; nothing is lost, and nothing foreign is touched."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import IndexUnusable
from nacre.memory.contracts.settings import VectorStoreSettings
from nacre.memory.stores.sqlite.connection import PAGE_BYTES
from nacre.memory.stores.sqlite.opening import SqliteIndexPlace, set_aside
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


async def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    """A wrong `store.path` is an error that names the problem; the other file stays as it is."""
    workspace(tmp_path, {"MEMORY.md": "tea"})
    (tmp_path / "state").mkdir()
    with sqlite3.connect(tmp_path / INDEX) as other:
        other.execute("CREATE TABLE mail (subject TEXT)")
        other.execute("INSERT INTO mail VALUES ('hello')")
    other.close()
    before = (tmp_path / INDEX).read_bytes()

    with pytest.raises(IndexUnusable, match="another program"):
        await open_engine(tmp_path)

    assert (tmp_path / INDEX).read_bytes() == before


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

    first, second = SqliteIndexPlace(index, VectorStoreSettings(), lambda: NOON).quarantined()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {name + suffix for name in (first, second) for suffix in ("", "-wal", "-shm")}
