"""Reading and writing the bank of a real folder: whole or not at all, never over somebody else's change."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import BankUnusable
from nacre.memory.files.bank.reflecting import proposed, write
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from tests.memory.files.bank.logs import DAY, LOG

AT = "2026-03-14T12:00:00+00:00"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with one log, and a note that is none."""
    root = tmp_path / "workspace"
    (root / "memory").mkdir(parents=True)
    (root / DAY).write_text(LOG, encoding="utf-8")
    (root / "memory" / "plans.md").write_text("## Retain\n- W: no log\n", encoding="utf-8")
    return root


def _workspace(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=root.parent / "locks")


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_nothing_is_written_before_it_is_approved(root: Path) -> None:
    """A proposal touches no file; writing it makes the pages; the next one is empty."""
    before = _files(root)

    async def story() -> None:
        workspace = _workspace(root)
        found = await proposed(workspace)
        assert _files(root) == before
        assert "no log" not in found.diff
        await write(workspace, found, at=AT)
        assert (await proposed(workspace)).changes == ()

    asyncio.run(story())
    assert "Marrakech" in (root / "bank/entities/Peter.md").read_text(encoding="utf-8")
    assert _files(root) | before == _files(root)


def test_a_kill_between_two_pages_is_mended_by_the_next_run(root: Path, tmp_path: Path) -> None:
    """After each number of pages that were written, the next run ends with the very same bank."""

    async def story() -> None:
        found = await proposed(_workspace(root))
        whole = {change.path: change.after for change in (*found.changes, found.taken)}
        for written in range(len(found.changes) + 1):
            place = tmp_path / f"killed-{written}"
            (place / "memory").mkdir(parents=True)
            (place / DAY).write_text(LOG, encoding="utf-8")
            workspace = _workspace(place)
            for change in found.changes[:written]:
                await workspace.change(change.path, lambda _old, text=change.after: text.encode())
            rest = await proposed(workspace)
            await write(workspace, rest, at=AT)
            assert {path: (place / path).read_text(encoding="utf-8") for path in whole} == whole

    asyncio.run(story())


@pytest.mark.parametrize(("number", "words"), [(6, "Marrakech"), (8, "warelay")])
def test_what_others_said_is_never_put_on_a_page(root: Path, number: int, words: str) -> None:
    """An item that has a line of a web page or a group, its first or a later one, stays in its log, and is
    told; pages know their source."""
    line = LOG.splitlines()[number]
    page = "- @Peter: Prefers concise replies on WhatsApp. (c=0.95)"
    of_a_tool = Source(written_by="flush", audience=PRIVATE, said_by=("owner", "tool"), at=AT)

    async def story() -> None:
        workspace = _workspace(root)
        (root / DAY).rename(root / "kept")
        await Sources(workspace).keep(DAY, line, lambda _line: of_a_tool)
        (root / "kept").rename(root / DAY)
        found = await proposed(workspace)
        assert words not in found.diff
        assert "not the owner's word" in str(found.unparsed[0])
        await write(workspace, found, at=AT)
        (source,) = await Sources(workspace).of_lines("bank/opinions.md", [page])
        assert source is not None
        assert (source.written_by, source.audience) == ("reflection", PRIVATE)

    asyncio.run(story())


def test_a_page_that_changed_meanwhile_is_left_alone(root: Path) -> None:
    """What the owner wrote between proposal and approval stays, and the sentence says what to do."""
    page = root / "bank/world.md"

    async def story() -> None:
        workspace = _workspace(root)
        found = await proposed(workspace)
        page.parent.mkdir()
        page.write_text("# Mine\n", encoding="utf-8")
        with pytest.raises(BankUnusable, match="Run it again"):
            await write(workspace, found, at=AT)

    asyncio.run(story())
    assert page.read_text(encoding="utf-8") == "# Mine\n"


def test_what_cannot_be_read_is_told_and_not_overwritten(root: Path) -> None:
    """A page in another encoding stops the run with its name."""
    page = root / "bank/world.md"
    page.parent.mkdir()
    page.write_bytes(b"caf\xe9\n")

    with pytest.raises(BankUnusable, match=r"bank/world\.md is no UTF-8"):
        asyncio.run(proposed(_workspace(root)))
    assert page.read_bytes() == b"caf\xe9\n"
