"""Notes become commits: a hand's first, then each session's; what is the owner's in git is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.git import run_git
from nacre.memory.workspace.history.keeping import HistoryKeeper, commit_notes
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.telling import commits, named
from nacre.memory.workspace.history.undone import UndoConflict, last_to_undo, undo

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

LOG = "memory/2026-11-20.md"


class Home:
    """A workspace with a history."""

    def __init__(self, tmp_path: Path) -> None:
        self.root, self.locks = tmp_path / "w", tmp_path / "locks"
        self.workspace = FolderWorkspace(self.root, lock_dir=self.locks)
        self.repository = Repository(self.root)

    async def note(self, text: str, session: str, path: str = LOG) -> None:
        source = Source(
            written_by="flush",
            audience=PRIVATE,
            session_key=f"agent:main:{session}",
            session_id=session,
            entry_ids=(f"{session}-1",),
            at="2026-11-20T10:00:00+00:00",
        )

        async def begin() -> object:
            return lambda _line: source

        sourced = SourcedWorkspace(self.workspace, Sources(self.workspace), begin)  # type: ignore[arg-type]
        await sourced.append(path, text)

    async def commit(self, mode: str = "auto") -> str:
        return await commit_notes(self.workspace, mode=mode, lock_dir=self.locks)  # type: ignore[arg-type]

    def git(self, *arguments: str) -> str:
        return run_git(self.root, *arguments).decode()

    def subjects(self) -> list[tuple[str, str]]:
        return [(each.subject, each.session_id) for each in commits(self.repository)]

    def text(self, name: str = LOG) -> str:
        return (self.root / name).read_text(encoding="utf-8")


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    """One with a commit."""
    home = Home(tmp_path)
    await home.workspace.make({"MEMORY.md": b"# Memory\n", ".gitignore": b"private/\n"})
    assert (await home.workspace.begin_history())[0] == "initialised"
    assert await home.commit() == ""
    home.repository.open()
    return home


async def test_each_has_a_commit_of_its_own(home: Home) -> None:
    """A hand's lines come first, then each session's, with its key, id and entries; nothing else is told."""
    await home.note("- Tea is green", "s1")
    with (home.root / LOG).open("a", encoding="utf-8") as log:
        log.write("- by hand\n")
    await home.note("- The cat is Mia", "s2")
    (home.root / "photo.png").write_bytes(b"png")
    (home.root / "private").mkdir()
    (home.root / "private/a.md").write_text("ignored", encoding="utf-8")

    assert await home.commit() == ""

    assert home.subjects() == [
        (f"Notes in {LOG}", "s2"),
        (f"Notes in {LOG}", "s1"),
        (f"Changes by hand in {LOG}", ""),
        ("The workspace as it was found", ""),
    ]
    newest = commits(home.repository)[0]
    assert (newest.session_key, newest.entry_ids) == ("agent:main:s2", ("s2-1",))
    assert home.git("show", f"HEAD~2:{LOG}") == "- by hand\n"
    assert home.git("show", f"HEAD:{LOG}") == home.text()
    assert home.git("status", "--porcelain").splitlines() == ["?? photo.png"]
    before = home.repository.head()
    assert await home.commit() == ""
    assert home.repository.head() == before


async def test_what_the_owner_staged_is_left_out(home: Home) -> None:
    """It stays staged, as it was, and a hook of the owner's is not run."""
    (home.root / "MEMORY.md").write_text("# Memory\n\nstaged\n", encoding="utf-8")
    home.git("add", "MEMORY.md")
    hook = home.root / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    await home.note("- Tea is green", "s1")

    assert await home.commit() == ""

    assert home.git("diff", "--cached", "--name-only").split() == ["MEMORY.md"]
    assert home.git("show", "HEAD:MEMORY.md") == "# Memory\n"
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")


async def test_not_in_a_merge_nor_where_it_is_not_wanted(home: Home, tmp_path: Path) -> None:
    """In a merge nothing is committed, and afterwards all is; a repository around or of others stays."""
    (home.root / ".git/MERGE_HEAD").write_text(home.repository.head(), encoding="utf-8")
    before = home.repository.head()
    await home.note("- Tea is green", "s1")

    assert "merge" in await home.commit()
    assert home.repository.head() == before
    (home.root / ".git/MERGE_HEAD").unlink()
    assert await home.commit() == ""
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")

    outer = Home(tmp_path / "outer")
    outer.root.mkdir(parents=True)
    run_git(outer.root.parent, "init", "-q")
    await outer.note("- Tea is green", "s1")
    assert await outer.commit("on") == ""
    assert not (outer.root.parent / ".git/refs/heads/main").exists()

    run_git(outer.root, "init", "-q")
    assert await outer.commit() == ""
    assert outer.repository.head() == ""
    assert await outer.commit("on") == ""
    assert outer.subjects() == [(f"Notes in {LOG}", "s1")]


async def test_undo_takes_out_a_sessions_lines_alone(home: Home) -> None:
    """What a hand and a later session wrote beside them stays; the undo is a commit, and can be undone."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    first = named(home.repository, "HEAD")
    await home.note("- The cat is Mia", "s2")
    await home.commit()

    made, paths = undo(home.repository, first, lock_dir=home.locks)

    assert (paths, home.text()) == ([LOG], "- The cat is Mia\n")
    assert commits(home.repository)[0].undoes == first
    assert last_to_undo(home.repository).session_id == "s2"
    assert home.git("status", "--porcelain") == ""
    undo(home.repository, made, lock_dir=home.locks)
    assert home.text() == "- Tea is green\n- The cat is Mia\n"


async def test_a_conflict_changes_nothing(home: Home) -> None:
    """The file and line are told."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    commit = named(home.repository, "HEAD")
    (home.root / LOG).write_text("- Tea is black\n", encoding="utf-8")
    await home.commit()
    before = home.repository.head()

    with pytest.raises(UndoConflict, match=rf"{LOG}#L1"):
        undo(home.repository, commit, lock_dir=home.locks)

    assert (home.text(), home.repository.head()) == ("- Tea is black\n", before)


async def test_without_git_notes_are_kept_and_it_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's keeper says why nothing is committed; with git there again, all of it is."""
    keeper = HistoryKeeper(home.workspace, mode="auto", lock_dir=home.locks)
    await home.note("- Tea is green", "s1")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")
        keeper.notes_changed()
        await keeper.close()

    assert [notice.partition(" (")[0] for notice in keeper.notices] == [
        "What was noted is kept, and is in no git commit yet: git cannot be started"
    ]
    keeper.notes_changed()
    await keeper.close()
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")
