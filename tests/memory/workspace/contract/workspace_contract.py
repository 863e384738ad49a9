"""What every workspace must do, whatever holds the files. A member's test file inherits `WorkspaceContract`.

Nothing here may name a folder of this machine: the next member is a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from nacre.memory.contracts.workspace import Appended, FileBytes, PathOutsideRoot, Workspace

OpenWorkspace = Callable[[], Workspace]
OUTSIDE = ("../secret.md", "memory/../../secret.md", "/etc/passwd", "~/a.md", "", "a\x00b.md", "C:\\a.md")


async def text_of(workspace: Workspace, name: str) -> str:
    """What a file says."""
    return (await workspace.read(name)).data.decode()


class WorkspaceContract:
    """Subclass it with a fixture `open_workspace` that opens the same, at first empty, files each time."""

    async def test_what_is_written_is_read_by_another(self, open_workspace: OpenWorkspace) -> None:
        """Bytes come back as they went in, with their name and size; a bound cuts them."""
        await open_workspace().change("memory/note.md", lambda _: b"caf\xe9\r\n" + b"x" * 100)

        found = await open_workspace().read("memory/note.md", max_bytes=6)

        assert (found.relative, found.data) == (PurePosixPath("memory/note.md"), b"caf\xe9\r\n")
        assert (found.size_bytes, found.is_cut, found.has_other_names) == (106, True, False)
        assert open_workspace().is_there
        assert open_workspace().place

    async def test_what_is_not_there_is_told(self, open_workspace: OpenWorkspace) -> None:
        """A missing file, a missing folder, and a folder that is read as a file."""
        workspace = open_workspace()
        await workspace.make({}, folders=("memory",))

        with pytest.raises(FileNotFoundError):
            await workspace.read("none.md")
        with pytest.raises(FileNotFoundError):
            await workspace.list_folder("none")
        with pytest.raises(IsADirectoryError):
            await workspace.read("memory")

    @pytest.mark.parametrize("name", OUTSIDE)
    async def test_no_name_leads_out(self, open_workspace: OpenWorkspace, name: str) -> None:
        """Whatever is asked with such a name is refused, and many files at once tell it file by file."""
        workspace = open_workspace()
        await workspace.make({"in.md": b"inside"})

        for asked in (
            workspace.read(name),
            workspace.append(name, "text"),
            workspace.change(name, lambda _: b""),
            workspace.list_folder(name),
            workspace.real_name(name),
        ):
            with pytest.raises(PathOutsideRoot):
                await asked
        many = await workspace.read_many((name, "in.md"))
        assert isinstance(many[name], PathOutsideRoot)
        assert isinstance(inside := many["in.md"], FileBytes)
        assert inside.data == b"inside"

    async def test_names_are_made_plain(self, open_workspace: OpenWorkspace) -> None:
        """The file need not exist; the root is the empty path."""
        workspace = open_workspace()

        assert await workspace.real_name("./memory//a.md") == PurePosixPath("memory/a.md")
        assert await workspace.real_name(".") == PurePosixPath()

    async def test_a_folder_lists_its_names(self, open_workspace: OpenWorkspace) -> None:
        """Sorted, with folders told from files, without hidden ones; or those with a beginning."""
        workspace = open_workspace()
        names = ("memory/b.md", "memory/2026-03-14.md", "memory/a/deep.md", "memory/.hidden.md")
        for name in names:
            await workspace.change(name, lambda _: b"text")

        entries = await workspace.list_folder("memory")

        assert [(entry.name, entry.is_folder, entry.size_bytes) for entry in entries] == [
            ("2026-03-14.md", False, 4),
            ("a", True, 0),
            ("b.md", False, 4),
        ]
        assert all((entry.modified_ns > 0) is not entry.is_folder for entry in entries)
        some = await workspace.list_folder("memory", beginnings=("2026-03-14", "2026-03-15"))
        assert [entry.name for entry in some] == ["2026-03-14.md"]

    async def test_a_fingerprint_tells_a_change(self, open_workspace: OpenWorkspace) -> None:
        """Equal while nobody writes, another after a write of another size; none where there is no file."""
        workspace = open_workspace()
        await workspace.change("a.md", lambda _: b"one")
        await workspace.change("b.md", lambda _: b"two")
        first = await workspace.fingerprints(("a.md", "b.md", "none.md", "../out.md"))
        assert await workspace.fingerprints(("a.md", "b.md", "none.md", "../out.md")) == first

        await workspace.change("a.md", lambda _: b"another")

        second = await workspace.fingerprints(("a.md", "b.md", "none.md"))
        assert second["a.md"] != first["a.md"]
        assert second["b.md"] == first["b.md"]
        assert first["none.md"] is None
        before, after = first["a.md"], second["a.md"]
        assert before is not None
        assert after is not None
        assert after.changed_ns >= before.changed_ns > 0

    async def test_many_files_are_read_at_once(self, open_workspace: OpenWorkspace) -> None:
        """Each with its bytes, or with the reason why there are none."""
        workspace = open_workspace()
        await workspace.make({"a.md": b"first", "b.md": b"second"}, folders=("memory",))

        found = await workspace.read_many(("b.md", "none.md", "a.md", "memory"), max_bytes=3)

        assert [item.data for item in found.values() if isinstance(item, FileBytes)] == [b"sec", b"fir"]
        assert isinstance(found["none.md"], FileNotFoundError)
        assert isinstance(found["memory"], IsADirectoryError)

    async def test_an_append_begins_on_a_fresh_line(self, open_workspace: OpenWorkspace) -> None:
        """What stands there is not touched, a list goes on, and what stands there already is left out."""
        workspace = open_workspace()
        await workspace.change("memory/log.md", lambda _: b"torn")

        await workspace.append("memory/log.md", "- a\n")
        again = await workspace.append("memory/log.md", "- a\n- b")
        nothing = await workspace.append("memory/log.md", "- b")
        await workspace.append("memory/log.md", "- b", skip_repeats=False)

        assert again == Appended(written="- b", skipped_parts=1)
        assert nothing == Appended(written="", skipped_parts=1)
        assert await text_of(workspace, "memory/log.md") == "torn\n\n- a\n- b\n- b\n"

    async def test_an_append_stands_under_its_heading(self, open_workspace: OpenWorkspace) -> None:
        """A heading is written above what is new, and only behind the heading that it is to end."""
        workspace = open_workspace()

        await workspace.append("log.md", "- a", heading="## Noon", below="## Morning")
        await workspace.append("log.md", "- b\n- a", heading="## Morning, 9")
        await workspace.append("log.md", "- c", heading="## Noon", below="## Morning")
        await workspace.append("log.md", "- d", heading="## Noon", below="## Morning")

        text = (await workspace.read("log.md")).data.decode()
        assert text == "- a\n\n## Morning, 9\n\n- b\n\n## Noon\n\n- c\n- d\n"

    async def test_appends_at_once_are_all_kept(self, open_workspace: OpenWorkspace) -> None:
        """Two writers with workspaces of their own lose no line and tear none."""
        one, other = open_workspace(), open_workspace()
        await asyncio.gather(
            *(one.append("log.md", f"- one {at}") for at in range(15)),
            *(other.append("log.md", f"- other {at}") for at in range(15)),
        )

        lines = (await text_of(one, "log.md")).splitlines()
        assert sorted(lines) == sorted([f"- {who} {at}" for who in ("one", "other") for at in range(15)])

    async def test_a_change_sees_the_old_bytes_or_is_refused(self, open_workspace: OpenWorkspace) -> None:
        """A missing file is `None`; an exception leaves everything as it was."""
        workspace, seen = open_workspace(), list[bytes | None]()

        def grown(old: bytes | None) -> bytes:
            seen.append(old)
            return (old or b"") + b"x"

        def refused(_old: bytes | None) -> bytes:
            raise ValueError("no")

        await workspace.change("a.md", grown)
        await workspace.change("a.md", grown)
        with pytest.raises(ValueError, match="no"):
            await workspace.change("a.md", refused)
        with pytest.raises(ValueError, match="no"):
            await workspace.change("b.md", refused)

        assert seen == [None, b"x"]
        assert await text_of(workspace, "a.md") == "xx"
        assert (await workspace.fingerprints(("b.md",)))["b.md"] is None

    async def test_a_change_to_nothing_removes(self, open_workspace: OpenWorkspace) -> None:
        """The file is gone for everybody; one that is not there stays so, and can be made again."""
        await open_workspace().make({"a.md": b"once", "b.md": b"kept"})

        for name in ("a.md", "never.md"):
            await open_workspace().change(name, lambda _: None)

        found = await open_workspace().fingerprints(("a.md", "b.md", "never.md"))
        assert [bool(mark) for mark in found.values()] == [False, True, False]
        await open_workspace().change("a.md", lambda old: b"again" if old is None else b"")
        assert (await open_workspace().read("a.md")).data == b"again"

    async def test_changes_at_once_come_one_after_the_other(self, open_workspace: OpenWorkspace) -> None:
        """None of them is made on bytes that another has replaced."""

        def count(old: bytes | None) -> bytes:
            return str(int(old or b"0") + 1).encode()

        await asyncio.gather(*(open_workspace().change("count.md", count) for _ in range(20)))

        assert await text_of(open_workspace(), "count.md") == "20"

    async def test_what_exists_is_not_made_again(self, open_workspace: OpenWorkspace) -> None:
        """The names that were made come back in order; the others keep their words."""
        workspace = open_workspace()
        await workspace.change("SOUL.md", lambda _: b"mine")

        made = await workspace.make({"AGENTS.md": b"theirs", "SOUL.md": b"theirs"}, folders=("shared",))

        assert made == ("AGENTS.md",)
        assert await text_of(workspace, "SOUL.md") == "mine"
        assert [entry.name for entry in await workspace.list_folder(".")] == [
            "AGENTS.md",
            "SOUL.md",
            "shared",
        ]
        assert await workspace.make({"AGENTS.md": b"x"}, folders=("shared",)) == ()
