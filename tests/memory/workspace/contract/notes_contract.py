"""What every workspace must do for the index. A member's test file inherits `NotesContract` too.

Nothing here may name a folder of this machine: the next member is a database.
"""

from __future__ import annotations

import asyncio

import pytest

from nacre.memory.contracts.notes import NoteBytes, WantedNotes
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from tests.memory.workspace.contract.workspace_contract import OpenWorkspace

ALL = (WantedNotes(name="MEMORY.md"), WantedNotes(name="memory"))


async def _write(workspace: Workspace, *names: str) -> None:
    for name in names:
        await workspace.change(name, lambda _: b"- a note\n")


class NotesContract:
    """Subclass it with a fixture `open_workspace` that opens the same, at first empty, files each time."""

    async def test_the_notes_that_are_asked_for_are_listed(self, open_workspace: OpenWorkspace) -> None:
        """In the order of asking and by name, each once; only Markdown, and none in a folder of tools."""
        workspace = open_workspace()
        await _write(
            workspace,
            "memory/b.md",
            "memory/deep/a.MD",
            "memory/a.md",
            "memory/a.txt",
            "memory/node_modules/x.md",
            "MEMORY.md",
            "NOTES.md",
            "shared/plan.md",
            "shared/old/plan.md",
        )

        found = await workspace.list_notes(
            (
                *ALL,
                WantedNotes(name="memory/a.md", is_required=True),
                WantedNotes(name="shared", pattern=("*.md",), is_required=True),
                WantedNotes(name="none.md"),
                WantedNotes(name="gone", is_required=True),
            )
        )

        assert [note.name for note in found.notes] == [
            "MEMORY.md",
            "memory/a.md",
            "memory/b.md",
            "memory/deep/a.MD",
            "shared/plan.md",
        ]
        told = {item.path.rpartition("/")[2]: item.reason for item in found.skipped}
        assert told["gone"] == "missing"
        assert "none.md" not in told
        assert found.may_be_deleted("memory/was-here.md")

    async def test_the_whole_workspace_may_be_asked_for(self, open_workspace: OpenWorkspace) -> None:
        """Its name is a dot; a pattern below it counts from the root."""
        workspace = open_workspace()
        await _write(workspace, "a.md", "memory/b.md")

        everything = await workspace.list_notes((WantedNotes(name=".", is_required=True),))
        top = await workspace.list_notes((WantedNotes(name=".", pattern=("*.md",), is_required=True),))

        assert [note.name for note in everything.notes] == ["a.md", "memory/b.md"]
        assert [note.name for note in top.notes] == ["a.md"]

    async def test_marks_tell_a_change(self, open_workspace: OpenWorkspace) -> None:
        """Equal while nobody writes; after a write others, and not older than the clock was before it."""
        workspace = open_workspace()
        await _write(workspace, "memory/a.md", "memory/b.md")
        first, again = [await workspace.list_notes(ALL) for _ in range(2)]
        before_ns = await workspace.now_ns()

        await workspace.append("memory/a.md", "- more")

        (old_a, old_b), (new_a, new_b) = first.notes, (await workspace.list_notes(ALL)).notes
        assert first == again
        assert new_a.marks != old_a.marks
        assert new_b == old_b
        assert (old_a.marks.device, old_a.marks.inode) != (old_b.marks.device, old_b.marks.inode)
        assert new_a.marks.size_bytes == old_a.marks.size_bytes + len("- more\n")
        assert 0 < old_a.marks.changed_ns <= before_ns <= new_a.marks.changed_ns
        assert new_a.marks.changed_ns <= await workspace.now_ns()

    async def test_notes_are_read_whole_with_their_marks(self, open_workspace: OpenWorkspace) -> None:
        """The marks are those of a listing; what cannot be read has its error, the others their bytes."""
        workspace = open_workspace()
        await workspace.change("memory/a.md", lambda _: b"caf\xe9\r\n" * 1_000)
        (note,) = (await workspace.list_notes(ALL)).notes

        read = await workspace.read_notes(("memory/none.md", "memory/a.md"))

        assert read["memory/a.md"] == NoteBytes(data=b"caf\xe9\r\n" * 1_000, marks=note.marks)
        assert isinstance(read["memory/none.md"], FileNotFoundError)

    @pytest.mark.parametrize("name", ["../secret.md", "memory/../../secret.md", "/etc/hosts"])
    async def test_no_note_is_read_outside(self, open_workspace: OpenWorkspace, name: str) -> None:
        """A name that leads out is refused, though no listing gives one."""
        workspace = open_workspace()
        await _write(workspace, "MEMORY.md")

        assert isinstance((await workspace.read_notes((name,)))[name], PathOutsideRoot)

    async def test_a_change_is_told_until_the_watch_is_closed(self, open_workspace: OpenWorkspace) -> None:
        """Another writer's change calls back on this loop; a watch that is closed has no problem."""
        workspace, told = open_workspace(), asyncio.Event()
        await workspace.make({"MEMORY.md": b""}, folders=("memory",))
        watch = workspace.watch(ALL, told.set)

        async with asyncio.timeout(20):
            while not told.is_set():
                # Again and again: the watch may need a moment to begin.
                await open_workspace().append("memory/a.md", "- again", skip_repeats=False)
                await asyncio.wait({asyncio.create_task(told.wait())}, timeout=0.05)

        assert watch.problem == ""
        await watch.close()
