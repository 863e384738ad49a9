"""Notes become commits: a hand's first, then each session's; what is the owner's in git is left alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nacre.memory.workspace.history.history_keeper import HistoryKeeper
from nacre.memory.workspace.history.undo import UndoConflict, commits, last_to_undo, named
from tests.faults.apart.isolation import tree_bytes
from tests.memory.workspace.history.home import LOG, Home
from tests.memory.workspace.history.owners_git import owner_git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


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
    assert home.git("show", f"main~2:{LOG}") == "- by hand\n"
    assert home.git("show", f"main:{LOG}") == home.text()
    assert home.git("ls-tree", "-r", "--name-only", "main").split() == [
        ".gitignore",
        ".sources/2026-11.jsonl",
        "MEMORY.md",
        LOG,
    ]
    before = home.repository.head()
    assert await home.commit() == ""
    assert home.repository.head() == before


async def test_the_owners_repository_is_left_alone(home: Home) -> None:
    """What is staged stays staged, no file of it changes, and a repository around it is not touched."""
    for root in (home.root, home.state_dir):
        owner_git(root, "init", "-q")
    (home.root / "MEMORY.md").write_text("# Memory\n\nstaged\n", encoding="utf-8")
    owner_git(home.root, "add", "MEMORY.md")
    before = [tree_bytes(root / ".git") for root in (home.root, home.state_dir)]
    await home.note("- Tea is green", "s1")

    assert await home.commit() == ""

    assert [tree_bytes(root / ".git") for root in (home.root, home.state_dir)] == before
    assert home.git("show", "main:MEMORY.md") == "# Memory\n\nstaged\n"
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")


async def test_undo_takes_out_a_sessions_lines_alone(home: Home) -> None:
    """What a hand and a later session wrote beside them stays; the undo is a commit, and can be undone."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    first = named(home.repository, "main")
    await home.note("- The cat is Mia", "s2")
    await home.commit()

    made, paths = home.undo(first)

    assert (paths, home.text()) == ([LOG], "- The cat is Mia\n")
    assert commits(home.repository)[0].undoes == first
    assert last_to_undo(home.repository).session_id == "s2"
    home.undo(made)
    assert home.text() == "- Tea is green\n- The cat is Mia\n"


async def test_other_line_ends_are_a_hands(home: Home) -> None:
    """A note that a hand converted is the hand's commit; what the session wrote is not undone with it."""
    await home.note("- Tea is green", "s1")
    await home.note("- The cat is Mia", "s2")
    await home.commit()
    owner_git(home.root, "init", "-q")
    owner_git(home.root, "config", "core.autocrlf", "true")
    text = home.text().replace("\n", "\r\n")
    (home.root / LOG).write_bytes(text.encode())

    await home.commit()

    assert home.subjects()[0] == (f"Changes by hand in {LOG}", "")
    with pytest.raises(UndoConflict):
        home.undo(last_to_undo(home.repository).commit)
    assert (home.root / LOG).read_bytes() == text.encode()
    home.undo(named(home.repository, "main"))
    assert (home.root / LOG).read_bytes() == b"- Tea is green\n- The cat is Mia\n"


async def test_a_linked_note_is_a_conflict(home: Home, tmp_path: Path) -> None:
    """A note that became a link out of the workspace is named, and what it leads to stays."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    outside = tmp_path / "outside.md"
    (home.root / LOG).rename(outside)
    (home.root / LOG).symlink_to(outside)
    await home.commit()

    with pytest.raises(UndoConflict, match="link"):
        home.undo(last_to_undo(home.repository).commit)

    assert outside.read_text(encoding="utf-8") == "- Tea is green\n"


async def test_a_conflict_changes_nothing(home: Home) -> None:
    """The file and line are told."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    commit = named(home.repository, "main")
    (home.root / LOG).write_text("- Tea is black\n", encoding="utf-8")
    await home.commit()
    before = home.repository.head()

    with pytest.raises(UndoConflict, match=rf"{LOG}#L1"):
        home.undo(commit)

    assert (home.text(), home.repository.head()) == ("- Tea is black\n", before)


async def test_without_git_notes_are_kept_and_it_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is told once, also by the next start; with git there again, all of it is committed."""
    keeper = HistoryKeeper(home.workspace, commits=True, state_dir=home.state_dir)
    await home.note("- Tea is green", "s1")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")
        keeper.notes_changed()
        await keeper.close()

    again = HistoryKeeper(home.workspace, commits=True, state_dir=home.state_dir)
    assert [notice.partition(" (")[0] for notice in again.notices] == [
        "The notes are saved but not committed to git yet: git cannot be started"
    ]
    again.turn_ended()
    third = HistoryKeeper(home.workspace, commits=True, state_dir=home.state_dir)
    assert (again.notices, third.notices) == ((), ())
    third.notes_changed()
    await third.close()
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")


async def test_what_git_would_wait_for_or_follow_is_left_out(home: Home, tmp_path: Path) -> None:
    """A pipe as `.gitignore` is told at once, linked sources and notes of elsewhere are in no commit."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("2026-01.jsonl", "secret.md"):
        (elsewhere / name).write_text("secret\n", encoding="utf-8")
    (home.root / ".sources").symlink_to(elsewhere)
    (home.root / "linked").symlink_to(elsewhere)
    (home.root / "memory").mkdir()
    (home.root / "memory/2026-11-20.md").write_text("- by hand\n", encoding="utf-8")
    os.mkfifo(home.root / "memory/.gitignore")

    assert "memory/.gitignore" in await home.commit()
    (home.root / "memory/.gitignore").unlink()
    assert await home.commit() == ""

    names = home.git("ls-tree", "-r", "--name-only", "main").split()
    assert names == [".gitignore", "MEMORY.md", "memory/2026-11-20.md"]


async def test_an_empty_folder_is_not_a_history_of_removals(home: Home) -> None:
    """What looks like a drive that is not mounted removes nothing; a note that is gone is a commit."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    aside = home.root.rename(home.state_dir / "aside")
    home.root.mkdir()
    assert await home.commit() == ""
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")
    home.root.rmdir()
    aside.rename(home.root)

    (home.root / LOG).unlink()

    assert await home.commit() == ""
    assert home.subjects()[0] == (f"Changes by hand in {LOG}", "")


async def test_a_workspace_that_moves_keeps_its_history(home: Home, tmp_path: Path) -> None:
    """Under another path it goes on; a folder with other notes, or a copy beside the first, gets its own."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    copy, moved, other = (Home(tmp_path, name) for name in ("copy", "moved", "other"))
    shutil.copytree(home.root, copy.root)
    await other.note("- something else", "s2")
    assert await copy.commit() == ""
    assert copy.repository.git_dir.exists()
    assert home.repository.git_dir.exists()

    home.root.rename(moved.root)
    (moved.root / "new.md").write_text("- by hand\n", encoding="utf-8")
    assert await other.commit() == ""
    assert await moved.commit() == ""

    assert [session for _subject, session in moved.subjects()] == ["", "s1", ""]
    assert [session for _subject, session in other.subjects()] == ["s2"]
