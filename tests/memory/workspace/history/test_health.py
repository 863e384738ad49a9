"""A history that cannot be written: told once, nothing of it guessed, repaired without a loss."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.commits import commit_changes
from nacre.memory.workspace.history.history_keeper import Health, HistoryKeeper
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.undo import commits, last_to_undo, undo
from tests.memory.workspace.history.home import LOG, Home

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def _git_program(folder: Path, script: str) -> None:
    """A program `git` in a folder; `REAL` in its script is the real one."""
    real = shutil.which("git")
    folder.mkdir(exist_ok=True)
    (folder / "git").write_text(f"#!/bin/sh\n{script.replace('REAL', str(real))}\n", encoding="utf-8")
    (folder / "git").chmod(0o755)


async def test_a_locked_branch_delays_and_confuses_nothing(home: Home) -> None:
    """Two turns meet a lock; once it is gone both are committed as theirs, and undo takes the last."""
    await home.note("- Tea is green", "s0")
    await home.commit()
    lock = home.repository.git_dir / "refs/heads/main.lock"
    lock.touch()
    for session in ("s1", "s2"):
        await home.note(f"- said in {session}", session)
        assert "lock" in await home.commit()
        assert home.subjects()[0] == (f"Notes in {LOG}", "s0")
    with pytest.raises(GitFailed), home.repository.opened():
        commit_changes(home.repository, lambda notes: [[None] * len(lines) for _name, lines in notes])
    lock.unlink()

    assert await home.commit() == ""

    assert [session for _subject, session in home.subjects()[:3]] == ["s2", "s1", "s0"]
    home.undo(last_to_undo(home.repository).commit)
    assert home.text() == "- Tea is green\n- said in s1\n"


def test_a_history_whose_folder_cannot_be_looked_into_breaks_no_turn(tmp_path: Path) -> None:
    """It belongs to root after `sudo nacre`; here its name is longer than the system allows."""
    repository = Repository(tmp_path / ("w" * 250), state_dir=tmp_path / "state")
    repository.git_dir.parent.mkdir(parents=True)

    assert Health(repository).unreported() == ""


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "HEAD.lock", "packed-refs.lock", "config.lock"])
async def test_a_lock_of_a_killed_git_does_not_stay(home: Home, name: str) -> None:
    """An old one is removed by the next commit, a young one by a repair."""
    lock = home.repository.git_dir / name
    lock.touch()
    an_hour_ago = time.time() - 3600
    os.utime(lock, (an_hour_ago, an_hour_ago))
    await home.note("- Tea is green", "s1")
    assert await home.commit() == ""
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")

    lock.touch()
    Health(home.repository).repair()

    assert not lock.exists()


async def test_a_git_that_hangs_is_killed_in_time(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its commands together have the time of one; its lock goes with it, and closing waits no longer."""
    lock = home.repository.git_dir / "refs/heads/main.lock"
    hangs = f'case "$*" in *fast-import*) touch {lock}; sleep 60 & wait;; *) exec REAL "$@";; esac'
    _git_program(tmp_path / "bin", hangs)
    keeper = HistoryKeeper(home.workspace, commits=True, state_dir=home.state_dir, within_seconds=0.3)
    await home.note("- Tea is green", "s1")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        keeper.notes_changed()
        started = time.monotonic()
        await keeper.close()
        assert time.monotonic() - started < 50

    assert not lock.exists()
    (notice,) = keeper.notices
    assert "took longer than" in notice
    assert "took longer than" in Health(home.repository).check()
    assert await home.commit() == ""
    assert home.subjects()[0] == (f"Notes in {LOG}", "s1")
    assert Health(home.repository).check() == ""


async def test_an_undo_that_cannot_be_committed_changes_nothing(home: Home) -> None:
    """The note is as it was, and what undo would take is still the same."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    lock = home.repository.git_dir / "refs/heads/main.lock"
    lock.touch()
    newest = last_to_undo(home.repository).commit

    with pytest.raises(GitFailed), home.repository.opened():
        undo(home.repository, newest)

    assert home.text() == "- Tea is green\n"
    lock.unlink()
    assert last_to_undo(home.repository).commit == newest


def _newest_object(home: Home) -> Path:
    head = home.repository.head()
    return home.repository.git_dir / "objects" / head[:2] / head[2:]


def _empty_commit(home: Home) -> None:
    path = _newest_object(home)
    path.chmod(0o644)
    path.write_bytes(b"")


def _no_commit(home: Home) -> None:
    _newest_object(home).unlink()


def _empty_head(home: Home) -> None:
    (home.repository.git_dir / "HEAD").write_bytes(b"")


def _empty_branch(home: Home) -> None:
    (home.repository.git_dir / "refs/heads/main").write_bytes(b"")


def _no_branch(home: Home) -> None:
    (home.repository.git_dir / "refs/heads/main").unlink()


DAMAGES = {
    "HEAD emptied": _empty_head,
    "branch emptied": _empty_branch,
    "branch gone": _no_branch,
    "commit emptied": _empty_commit,
    "commit gone": _no_commit,
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
async def test_a_damaged_history_is_rebuilt(home: Home, damage: str) -> None:
    """It is told and not written; a repair keeps the newest whole commit and sets the damaged one aside."""
    await home.note("- Tea is green", "s1")
    await home.commit()
    DAMAGES[damage](home)
    await home.note("- The cat is Mia", "s2")
    health = Health(home.repository)
    assert await home.commit() != ""
    assert health.check() != ""
    assert health.problem() != ""
    text = home.text()

    told = health.repair()

    assert "damaged" in told
    assert (health.check(), health.problem()) == ("", "")
    assert list(home.repository.git_dir.parent.glob("*.damaged-1"))
    assert await home.commit() == ""
    assert (home.text(), commits(home.repository)[-1].subject) == (text, "The workspace as it was found")
    assert home.git("show", f"main:{LOG}") == text
    assert [each.session_id for each in commits(home.repository)][:2] == ["s2", "s1"]
