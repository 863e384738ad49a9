"""A workspace without a folder keeps the contract, and the real engine indexes and searches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.engine import MemoryEngine
from tests.memory.doubles import WordEmbedder, open_engine
from tests.memory.workspace.contract.notes_contract import NotesContract
from tests.memory.workspace.contract.remembered import Everything, RememberedWorkspace
from tests.memory.workspace.contract.workspace_contract import OpenWorkspace, WorkspaceContract


@pytest.fixture
def everything() -> Everything:
    """What is remembered."""
    return Everything()


@pytest.fixture
def open_workspace(everything: Everything) -> OpenWorkspace:
    """Opens the same files each time."""
    return lambda: RememberedWorkspace(everything)


class TestRememberedWorkspace(WorkspaceContract):
    """The contract, over no folder."""


class TestRememberedNotes(NotesContract):
    """What the index asks of it."""


@pytest.fixture
async def engine(tmp_path: Path, everything: Everything) -> AsyncIterator[MemoryEngine]:
    """An engine over what is remembered."""
    opened = await _engine(tmp_path, everything)
    yield opened
    await opened.close()


async def _engine(tmp_path: Path, everything: Everything, **settings: Any) -> MemoryEngine:
    return await open_engine(
        tmp_path, settings, workspace=RememberedWorkspace(everything), embedder=WordEmbedder()
    )


async def _found(engine: MemoryEngine, query: str) -> list[str]:
    return [hit.path for hit in (await engine.search(query, min_score=0)).hits]


async def test_notes_without_a_folder_are_searched(engine: MemoryEngine, everything: Everything) -> None:
    """By words and by vectors, with what was said in other chats; files that are no notes are not found."""
    everything.write("MEMORY.md", b"Lisa has a cat called Pepper.")
    everything.write("memory/2026-02-10.md", b"- The zebra escaped.")
    everything.write("chats/group/2026-02-11.md", b"- The giraffe is in the garden.")
    everything.write("NOTES.md", b"The zebra is a secret.")

    report = await engine.sync(reason="test")

    assert (report.indexed_files, report.embedded, report.problem, report.skipped) == (3, 3, "", ())
    assert (await _found(engine, "where is the zebra"))[0] == "memory/2026-02-10.md"
    assert "NOTES.md" not in await _found(engine, "secret zebra")
    assert (await engine.search("giraffe", below="chats/group")).hits[0].path == "chats/group/2026-02-11.md"
    assert (await engine.status()).workspace == "memory"
    assert (await engine.read("MEMORY.md")).text == "Lisa has a cat called Pepper."
    assert (await engine.read("memory/none.md")).missing
    with pytest.raises(ReadRefused):
        await engine.read("NOTES.md")


async def test_only_what_changed_is_read_again(engine: MemoryEngine, everything: Everything) -> None:
    """Marks alone say what is the same; an append keeps the other chunks, and what is gone is forgotten."""
    long_log = "".join(f"## {number}:00\n\n{'Tea with Max. ' * 60}\n\n" for number in range(9))
    everything.write("memory/log.md", long_log.encode())
    everything.write("memory/gone.md", b"The parrot is called Polly.")
    first = await engine.sync(reason="test")
    everything.reads.clear()

    again = await engine.sync(reason="test")
    assert (again.unchanged_files, again.indexed_files, everything.reads) == (2, 0, [])

    everything.write("memory/log.md", long_log.encode() + b"## 21:00\n\nThe zebra escaped.\n")
    everything.remove("memory/gone.md")
    changed = await engine.sync(reason="test")

    assert everything.reads == ["memory/log.md"]
    assert (changed.indexed_files, changed.removed_files) == (1, 1)
    assert changed.embedded <= 2 < first.embedded
    assert "memory/gone.md" not in await _found(engine, "parrot Polly")
    assert (await _found(engine, "zebra"))[0] == "memory/log.md"


async def test_a_change_reaches_the_index_by_itself(tmp_path: Path, everything: Everything) -> None:
    """The watch of the workspace is enough: no call, and no search that looks."""
    everything.write("MEMORY.md", b"tea")
    engine = await _engine(tmp_path, everything, sync={"watchDebounceMs": 10, "onSearch": False})
    await engine.sync(reason="test")
    await engine.start_watching()

    everything.write("memory/2026-02-10.md", b"The zebra escaped.")

    async with asyncio.timeout(20):
        while "memory/2026-02-10.md" not in await _found(engine, "zebra"):
            pass
    assert (await engine.status()).watching == "on"
    await engine.close()
    assert everything.watches == []


async def test_extra_paths_lie_inside_or_on_this_machine(tmp_path: Path, everything: Everything) -> None:
    """A relative one is the workspace's, an absolute one a folder here; one that leads up is told."""
    team = tmp_path / "team"
    team.mkdir()
    (team / "plan.md").write_text("The zebra is ours.")
    (team / "plan.txt").write_text("The zebra is theirs.")
    everything.write("MEMORY.md", b"tea")
    everything.write("projects/one.md", b"The giraffe project.")
    everything.write("projects/deep/two.md", b"Another giraffe.")
    engine = await _engine(tmp_path, everything, extraPaths=["projects/*.md", str(team), "../up"])

    report = await engine.sync(reason="test")

    assert (report.indexed_files, [item.path for item in report.skipped]) == (3, ["../up"])
    plan = (team / "plan.md").as_posix()
    assert (await _found(engine, "zebra"))[0] == plan
    assert (await _found(engine, "giraffe project"))[0] == "projects/one.md"
    assert (await engine.read(plan)).text == "The zebra is ours."
    assert (await engine.read("projects/one.md")).text == "The giraffe project."
    for refused in ("projects/deep/two.md", (tmp_path / "other.md").as_posix(), "../up/a.md"):
        with pytest.raises(ReadRefused):
            await engine.read(refused)
    (team / "plan.md").unlink()
    assert (await engine.sync(reason="test")).removed_files == 1
    await engine.close()
