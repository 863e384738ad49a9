"""A workspace in a database and a folder: nothing is overwritten unseen, whoever writes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from nacre.extensions.postgres.document_rows import DocumentRows
from nacre.extensions.postgres.exchange import (
    Exchanged,
    FolderTree,
    FolderUnusable,
    PushRefused,
    Step,
    pull,
    pulled,
    push,
    pushed,
    travels,
)
from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.workspace import PostgresWorkspace
from tests.extensions.postgres.opened import database_at

pytestmark = pytest.mark.postgres
THREE = b"one\n\ntwo\n\nthree\n"


class Both:
    """A workspace, and the folder that it is brought to."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.workspace = PostgresWorkspace(database, agent="main")
        self.rows = DocumentRows(database, "main")
        self.tree = FolderTree(folder)

    def write(self, name: str, text: bytes | None) -> None:
        """As an editor does; `None` removes the file."""
        path = self.folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)

    def here(self) -> dict[str, bytes]:
        """What an editor sees."""
        return self.tree.here().files

    async def there(self) -> dict[str, bytes]:
        """What the assistant sees."""
        return {name: found.body for name, found in (await self.rows.files()).items()}


@pytest.fixture
async def both(database_url: str, tmp_path: Path) -> AsyncIterator[Both]:
    """A workspace with three files, which the folder has too."""
    async with database_at(database_url) as database:
        both = Both(database, tmp_path / "notes")
        await both.workspace.make({"MEMORY.md": THREE, "memory/a.md": b"a\n", "photo.png": b"\x00\x01"})
        await pull(both.rows, both.tree)
        yield both


async def test_edits_and_removals_go_both_ways(both: Both) -> None:
    """After a pull and a push both have the same; a second round finds nothing."""
    await both.workspace.change("memory/b.md", lambda _: b"new there\n")
    await both.rows.change("photo.png", lambda _: None)
    both.write("memory/a.md", None)
    both.write("deep/er/c.md", b"new here\n")

    pulled = await pull(both.rows, both.tree)
    pushed = await push(both.rows, both.tree)

    assert (pulled.written, pulled.removed) == (["memory/b.md"], ["photo.png"])
    assert (pushed.written, pushed.removed) == (["deep/er/c.md"], ["memory/a.md"])
    wanted = {"MEMORY.md": THREE, "memory/b.md": b"new there\n", "deep/er/c.md": b"new here\n"}
    assert both.here() == await both.there() == wanted
    for again in (await pull(both.rows, both.tree), await push(both.rows, both.tree)):
        assert again == Exchanged()


async def test_what_both_changed_is_merged(both: Both) -> None:
    """Other lines of one file become one text; two logs that both went on have all lines of both."""
    await both.workspace.change("MEMORY.md", lambda _: THREE.replace(b"one", b"ONE"))
    both.write("MEMORY.md", THREE.replace(b"three", b"THREE"))
    await both.workspace.append("memory/a.md", "- theirs")
    both.write("memory/a.md", b"a\n- mine\n")
    with pytest.raises(PushRefused, match=r"MEMORY\.md, memory/a\.md changed in the workspace as well"):
        await push(both.rows, both.tree)

    done = await pull(both.rows, both.tree)
    await push(both.rows, both.tree)

    assert (done.merged, done.conflicts) == (["MEMORY.md", "memory/a.md"], [])
    there = await both.there()
    assert there == both.here()
    assert there["MEMORY.md"] == b"ONE\n\ntwo\n\nTHREE\n"
    assert set(there["memory/a.md"].split(b"\n")) == {b"a", b"- mine", b"- theirs", b""}


async def test_a_conflict_is_marked_and_not_pushed(both: Both) -> None:
    """Both texts stand in the file, a second pull leaves it, and a push names it until it is ended."""
    await both.workspace.change("MEMORY.md", lambda _: THREE.replace(b"two", b"theirs"))
    await both.workspace.change("photo.png", lambda _: b"\x00\x02")
    both.write("MEMORY.md", THREE.replace(b"two", b"mine"))
    both.write("photo.png", b"\x00\x03")

    for _ in range(2):
        assert (await pull(both.rows, both.tree)).conflicts == ["MEMORY.md", "photo.png"]
    marked = both.here()["MEMORY.md"]
    assert b"<<<<<<< this folder\nmine\n=======\ntheirs\n>>>>>>> the workspace\n" in marked
    assert (both.here()["photo.png"], (both.folder / "photo.png.theirs").read_bytes()) == (
        b"\x00\x03",
        b"\x00\x02",
    )
    with pytest.raises(PushRefused, match=r"MEMORY\.md, photo\.png still have conflicts"):
        await push(both.rows, both.tree)

    both.write("MEMORY.md", THREE.replace(b"two", b"ours"))
    both.write("photo.png.theirs", None)
    assert (await push(both.rows, both.tree)).written == ["MEMORY.md", "photo.png"]
    assert (await both.there())["MEMORY.md"] == THREE.replace(b"two", b"ours")


async def test_a_change_goes_before_a_removal(both: Both) -> None:
    """Removed there and changed here stays, and the next push makes it again; the other way it comes back."""
    await both.rows.change("MEMORY.md", lambda _: None)
    both.write("MEMORY.md", b"mine\n")
    await both.workspace.append("memory/a.md", "- theirs")
    both.write("memory/a.md", None)

    done = await pull(both.rows, both.tree)
    await push(both.rows, both.tree)

    assert (done.kept, done.written) == (["MEMORY.md"], ["memory/a.md"])
    assert both.here() == await both.there()
    assert both.here()["MEMORY.md"] == b"mine\n"
    assert b"- theirs" in both.here()["memory/a.md"]


async def test_a_folder_of_before_is_brought_in(database_url: str, tmp_path: Path) -> None:
    """Notes that lay in a folder get into an empty database as they are; what a program keeps does not."""
    async with database_at(database_url) as database:
        both = Both(database, tmp_path / "notes")
        for name in ("SOUL.md", "memory/a.md", ".git/config", ".obsidian/x.json"):
            both.write(name, b"x\n")
        (both.folder / "link.md").symlink_to("SOUL.md")

        done = await push(both.rows, both.tree)

        assert done.written == sorted(await both.there()) == ["SOUL.md", "memory/a.md"]
        assert done.left_out == ["link.md: a link, which is not followed"]


async def test_a_file_that_became_a_link_is_not_removed(both: Both, tmp_path: Path) -> None:
    """Nothing is known of what lies behind a link: neither way is it written."""
    (tmp_path / "elsewhere").mkdir()
    both.write("memory/a.md", None)
    (both.folder / "memory").rmdir()
    (both.folder / "memory").symlink_to(tmp_path / "elsewhere")
    await both.workspace.append("memory/a.md", "more")

    assert await push(both.rows, both.tree)
    assert (await pull(both.rows, both.tree)).written == []

    assert b"more" in (await both.there())["memory/a.md"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_nothing_of_git_comes_out_of_a_workspace(both: Both) -> None:
    """A model that writes a hook of git into its workspace gets no program run by a pull."""
    await both.workspace.change(".git/hooks/post-merge", lambda _: b"#!/bin/sh\n")
    await both.workspace.change("memory/.Git/config", lambda _: b"x")

    done = await pull(both.rows, both.tree)

    assert len(done.left_out) == 2
    assert sorted(both.here()) == ["MEMORY.md", "memory/a.md", "photo.png"]
    assert not (both.folder / ".git").exists()


async def test_an_empty_folder_removes_nothing(both: Both) -> None:
    """Whoever lost all files of a folder has not asked for the notes to go."""
    for name in both.here():
        both.write(name, None)

    with pytest.raises(PushRefused, match="is empty, which would remove every note"):
        await push(both.rows, both.tree)

    assert len(await both.there()) == 3


async def test_a_folder_has_one_workspace(both: Both) -> None:
    """Another agent's notes are neither brought into it nor overwritten from it."""
    other = DocumentRows(both.database, "other")

    for run in (pull, push):
        with pytest.raises(FolderUnusable, match="belongs to another workspace"):
            await run(other, both.tree)
    assert await other.files() == {}


async def test_all_lines_are_kept_while_the_assistant_writes(both: Both) -> None:
    """Pulls and pushes beside a writer: at the end both have each line of both, once."""

    async def assistant() -> None:
        for at in range(12):
            await both.workspace.append("memory/a.md", f"- theirs {at}", skip_repeats=False)

    writing = asyncio.create_task(assistant())
    for at in range(6):
        await pull(both.rows, both.tree)
        both.write("memory/a.md", both.here()["memory/a.md"] + f"- mine {at}\n".encode())
        for _ in range(20):
            assert not (await pull(both.rows, both.tree)).conflicts
            with suppress(PushRefused):
                await push(both.rows, both.tree)
                break
    await writing
    await pull(both.rows, both.tree)

    wanted = {b"a", *(b"- mine %d" % at for at in range(6)), *(b"- theirs %d" % at for at in range(12))}
    assert both.here() == await both.there()
    lines = [line for line in both.here()["memory/a.md"].split(b"\n") if line]
    assert (set(lines), len(lines)) == (wanted, len(wanted))


TEXTS = (None, b"a", b"b", b"c")
OLD, THERE, HERE = b"old", b"there", b"here"


@pytest.mark.parametrize(
    ("base", "there", "here", "by_pull", "by_push"),
    [
        (OLD, OLD, OLD, Step.NOTHING, Step.NOTHING),
        (None, THERE, THERE, Step.MET, Step.MET),
        (OLD, THERE, OLD, Step.COPY, Step.NOTHING),
        (OLD, OLD, HERE, Step.NOTHING, Step.COPY),
        (OLD, None, OLD, Step.COPY, Step.NOTHING),
        (OLD, OLD, None, Step.NOTHING, Step.COPY),
        (OLD, THERE, HERE, Step.MERGE, Step.MERGE),
        (None, THERE, HERE, Step.MERGE, Step.MERGE),
        (OLD, None, HERE, Step.KEEP, Step.MERGE),
        (OLD, THERE, None, Step.COPY, Step.MERGE),
    ],
)
def test_three_texts_decide(
    base: bytes | None, there: bytes | None, here: bytes | None, by_pull: Step, by_push: Step
) -> None:
    """Whoever did not change a file gets what the other has; a change goes before a removal."""
    assert (pulled(base, there, here), pushed(base, there, here)) == (by_pull, by_push)


def test_no_text_is_ever_lost() -> None:
    """A copy only takes the place of what both had, or of nothing."""
    for base, there, here in product(TEXTS, repeat=3):
        if pulled(base, there, here) is Step.COPY:
            assert here in (base, None)
        if pushed(base, there, here) is Step.COPY:
            assert there == base


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("memory/2026-02-10.md", True),
        (".sources/a.jsonl", True),
        (".gitignore", True),
        (".git/hooks/pre-commit", False),
        ("deep/.GIT/config", False),
        (".nacre/met/a.md", False),
        (".obsidian/plugins/x/main.js", False),
        ("photo.png.theirs", False),
        ("memory/.0123456789abcdef.tmp", False),
    ],
)
def test_what_programs_keep_stays(name: str, goes: bool) -> None:
    """What git or Obsidian would run never comes out of a workspace."""
    assert travels(name) is goes
