"""The table itself: tables of others, kills, a full disk, several programs, a library that is not there."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.extensions.lancedb.plugin import open_memories
from nacre.extensions.lancedb.table import MemoryTable, TableUnusable
from tests.extensions.lancedb.homes import call, home, owner, started, texts
from tests.libraries import needs

needs("lancedb", why="the extra lancedb is not installed")

ROOT = Path(__file__).parents[3]
GIVEN = ["id", "text", "vector", "importance", "category", "createdAt"]


def driver(*arguments: str) -> subprocess.Popen[str]:
    """A process that stores memories; what it tells comes out of `stdout`."""
    command = [sys.executable, "-m", "tests.extensions.lancedb.lance_driver", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@pytest.mark.covers("SEED-17")
async def test_the_table_has_the_columns_of_the_description(tmp_path: Path) -> None:
    """`memories`, with these six and no placeholder row; another program reads what was stored."""
    async with started(home(tmp_path, config={"dbPath": "db"})) as engine:
        stored = await call(engine, "memory_store", text="Tea at four.", category="fact", importance=0.9)
    import lancedb

    database = await lancedb.connect_async(str(tmp_path / "db"))
    table = await database.open_table("memories")
    (row,) = await table.query().to_list()

    assert set(GIVEN) < set((await table.schema()).names)
    assert {name: row[name] for name in GIVEN if name != "vector"} == {
        "id": stored["id"],
        "text": "Tea at four.",
        "importance": 0.9,
        "category": "fact",
        "createdAt": 1_773_489_600_000,
    }
    assert len(row["vector"]) == 64


@pytest.mark.covers("SEED-17")
async def test_a_table_of_openclaw_is_taken_over(tmp_path: Path) -> None:
    """Its rows are the owner's, of unknown origin; vectors of its embedder are made anew, texts stay."""
    import lancedb

    database = await lancedb.connect_async(str(tmp_path / "theirs"))
    texts_there = ("I like 深色模式.", "The boat is called Halcyon.")
    await database.create_table(
        "memories",
        [
            {
                "id": f"0000000{number}-1111-4111-8111-111111111111",
                "text": text,
                "vector": [1.0, 0.0, 0.0],
                "importance": 0.7,
                "category": "preference" if number else "gossip",
                "createdAt": 1_700_000_000_000.0,
            }
            for number, text in enumerate(texts_there)
        ],
    )
    async with started(home(tmp_path, config={"dbPath": "theirs"})) as engine:
        await engine.sync()
        found = await call(engine, "memory_recall", query="深色")
        named = await call(engine, "memory_recall", query="boat called?")
        new = await call(engine, "memory_store", text="The boat is blue.")
        status = await engine.status()

    assert [(item["text"], item["category"], item["writtenBy"]) for item in found["memories"]] == [
        (texts_there[0], "other", "import")
    ]
    assert named["memories"][0]["text"] == texts_there[1]
    assert new["action"] == "created"
    assert status == "3 memories"


@pytest.mark.covers("SEED-31")
async def test_rows_are_found_by_words_while_vectors_are_made_anew(tmp_path: Path) -> None:
    """For a moment, or after a kill in it, the table has no column of vectors."""
    async with started(home(tmp_path, config={"dbPath": "db"})) as engine:
        await call(engine, "memory_store", text="The boat is called Halcyon.")
        import lancedb

        database = await lancedb.connect_async(str(tmp_path / "db"))
        await (await database.open_table("memories")).drop_columns(["vector"])

        assert await texts(engine, "boat") == ["The boat is called Halcyon."]


async def test_programs_that_begin_a_table_at_once_do_not_hinder_each_other(tmp_path: Path) -> None:
    """Each makes the columns, the index and room for vectors, or finds that another one did."""
    agents = ["main", "work", "home", "club"]

    async def one(agent_id: str) -> list[str]:
        where = home(tmp_path, agent_id=agent_id, config={"dbPath": "shared"})
        async with started(where) as engine:
            stored = owner(agent_id=agent_id)
            await call(engine, "memory_store", stored, text=f"The parcel for {agent_id} has arrived.")
            return await texts(engine, "parcel", stored)

    found = await asyncio.gather(*map(one, agents))

    assert found == [[f"The parcel for {each} has arrived."] for each in agents]


@pytest.mark.slow
async def test_what_was_told_stands_after_kills(tmp_path: Path) -> None:
    """Two programs store into one table and are killed in the midst of it; each stored row is there, once."""
    told: dict[str, list[str]] = {}
    running = {agent: driver("store", str(tmp_path), agent) for agent in ("main", "work")}
    for agent, process in running.items():
        assert process.stdout is not None
        told[agent] = [process.stdout.readline().strip() for _ in range(8)]
    for agent, process in running.items():
        process.send_signal(signal.SIGKILL)
        told[agent] += [line.strip() for line in process.communicate()[0].splitlines() if line.endswith(".")]

    for agent, stored in told.items():
        where = home(tmp_path, agent_id=agent, config={"dbPath": "shared"})
        memories, _ = await open_memories(where)
        there = [memory.text for memory in await memories.table.all(memories.scope(None))]
        await memories.table.close()
        async with started(where) as engine:
            assert len(there) == len(set(there))
            assert set(stored) <= set(there)
            assert len(there) <= len(stored) + 1
            again = await call(engine, "memory_store", owner(agent_id=agent), text=stored[0])
            assert again["action"] == "duplicate"


@pytest.mark.slow
def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """The model is told; what was there is found, and with room again storing goes on."""
    process = driver("full", str(tmp_path))
    lines = process.communicate(timeout=120)[0].splitlines()

    assert process.returncode == 0
    assert lines[0] == "created"
    assert lines[1].startswith(
        f"The LanceDB table in {tmp_path}/memory/memory-lancedb/main could not be written:"
    )
    assert lines[2] == "['The first parcel.']"
    assert lines[3] == "created"
    assert lines[4] == "['The first parcel.', 'The third parcel.']"


async def test_a_table_that_cannot_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    """The engine does not start, says where and why, and changes no byte."""
    async with started(home(tmp_path, config={"dbPath": "db"})) as engine:
        await call(engine, "memory_store", text="Tea at four.")
    manifests = list((tmp_path / "db" / "memories.lance" / "_versions").glob("*.manifest"))
    for manifest in manifests:
        manifest.write_bytes(b"not a manifest")
    before = _bytes(tmp_path / "db")

    with pytest.raises(TableUnusable, match="db could not be opened: "):
        async with started(home(tmp_path, config={"dbPath": "db"})):
            pass

    assert _bytes(tmp_path / "db") == before


async def test_many_writes_are_tidied(tmp_path: Path) -> None:
    """Small files are joined as they come, so that a search does not open a hundred of them."""
    place = tmp_path / "db"
    async with started(home(tmp_path, config={"dbPath": "db"})) as engine:
        for number in range(34):
            await call(engine, "memory_store", text=f"Parcel {number} has arrived.")
        assert await texts(engine, "parcel 33") != []
    import lancedb

    database = await lancedb.connect_async(str(place))
    table = await database.open_table("memories")
    stats = await table.stats()

    assert await table.count_rows() == 34
    assert stats["fragment_stats"]["num_fragments"] <= 2


async def test_a_row_that_is_gone_gets_no_vector_back(tmp_path: Path) -> None:
    """Forgotten while its vector was being made: it stays forgotten."""
    table = await MemoryTable.open(str(tmp_path), agent_id="main", storage_options={})
    await table.set_vectors({"no-such-id": [0.1, 0.2]}, "words")

    assert await table.without_vector("words") == []
    await table.close()


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
