"""A `.git` in a workspace that came from elsewhere: nothing that it names is run, not a byte changes."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.forgetting import forget_in_history, versions_with
from nacre.memory.workspace.history.history_keeper import Health, commit_notes
from nacre.memory.workspace.history.repository import BRANCH, Repository
from nacre.memory.workspace.history.undo import commits, shown, undo
from tests.faults.apart.isolation import tree_bytes
from tests.memory.workspace.history.owners_git import POISONS, canary, owner_git, owners_history

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


async def _use_all(state_dir: Path, root: Path) -> Repository:
    """Everything that Nacre does with a history, on this workspace."""
    repository = Repository(root, state_dir=state_dir)
    (root / "MEMORY.md").write_text("# Memory\n- by hand\n", encoding="utf-8")
    assert await commit_notes(FolderWorkspace(root, lock_dir=state_dir / "locks"), state_dir=state_dir) == ""
    newest = commits(repository, "MEMORY.md")[0]
    assert "+- by hand" in shown(repository, newest.commit)
    with repository.opened():
        undo(repository, newest.commit)
        forget_in_history(repository, lambda data: data.replace(b"- by hand\n", b""))
        with suppress(GitFailed):
            versions_with(repository, lambda data: b"hand" in data, of_owner=True)
    health = Health(repository)
    assert health.check() == ""
    health.repair()
    assert versions_with(repository, lambda data: b"by hand" in data) == 0
    return repository


@pytest.mark.parametrize("kind", sorted(POISONS))
async def test_nothing_that_a_repository_names_is_run(tmp_path: Path, kind: str) -> None:
    """Committed, listed, shown, undone, forgotten, looked at: no canary, not a byte changed."""
    root = tmp_path / "state/w"
    run, ran = canary(tmp_path)
    owners_history(root)
    POISONS[kind](root, run)
    before = tree_bytes(root / ".git")

    repository = await _use_all(tmp_path / "state", root)

    assert not ran.exists()
    assert tree_bytes(root / ".git") == before
    assert not any(each.session_id == "old" for each in commits(repository))


@pytest.mark.parametrize("kind", ["gitlink", "symlink"])
async def test_a_repository_elsewhere_gets_no_commit(tmp_path: Path, kind: str) -> None:
    """Where `.git` names a repository in another folder, that is neither read nor written."""
    root, other = tmp_path / "state/w", tmp_path / "other"
    owners_history(other)
    root.mkdir(parents=True)
    (root / "MEMORY.md").write_text("# Memory\n", encoding="utf-8")
    if kind == "gitlink":
        (root / ".git").write_text(f"gitdir: {other / '.git'}\n", encoding="utf-8")
    else:
        (root / ".git").symlink_to(other / ".git")
    before = tree_bytes(other)

    repository = await _use_all(tmp_path / "state", root)

    assert tree_bytes(other) == before
    assert not any(each.session_id == "old" for each in commits(repository))


async def test_a_commit_that_names_files_of_programs_undoes_none(tmp_path: Path) -> None:
    """Undone, a commit whose tree has `.git/hooks/x.md`, as of a restored archive, writes nothing there."""
    state, root = tmp_path / "state", tmp_path / "state/w"
    owners_history(root)
    assert await commit_notes(FolderWorkspace(root, lock_dir=state / "locks"), state_dir=state) == ""
    repository = Repository(root, state_dir=state)
    bare = repository.git_dir
    blob = owner_git(bare, "hash-object", "-w", "--stdin", given=b"#!/bin/sh\n")
    hooks = owner_git(bare, "mktree", given=f"100755 blob {blob}\tpost-merge.md\n".encode())
    git = owner_git(bare, "mktree", given=f"040000 tree {hooks}\thooks\n".encode())
    tree = owner_git(bare, "mktree", given=f"040000 tree {git}\t.git\n100644 blob {blob}\tnote.md\n".encode())
    evil = owner_git(bare, "commit-tree", tree, "-p", "HEAD", "-m", "x")
    made = owner_git(bare, "commit-tree", owner_git(bare, "rev-parse", "HEAD^{tree}"), "-p", evil, "-m", "y")
    owner_git(bare, "update-ref", BRANCH, made)

    with repository.opened():
        _made, paths = undo(repository, made)  # brings back what `evil` had

    assert paths == ["MEMORY.md", "note.md"]
    assert not (root / ".git/hooks/post-merge.md").exists()
