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
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.undo import commits, shown, undo
from tests.faults.apart.isolation import tree_bytes
from tests.memory.workspace.history.owners_git import POISONS, canary, old_history, owner_git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


async def _use_all(state_dir: Path, root: Path) -> Repository:
    """Everything that Nacre does with a history, on this workspace."""
    repository = Repository(root, state_dir=state_dir)
    repository.read()
    commits(repository)
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
    """Carried over, committed, listed, shown, undone, forgotten, looked at: no canary, not a byte changed."""
    root = tmp_path / "state/w"
    run, ran = canary(tmp_path)
    old_history(root)
    POISONS[kind](root, run)
    before = tree_bytes(root / ".git")

    repository = await _use_all(tmp_path / "state", root)

    assert not ran.exists()
    assert tree_bytes(root / ".git") == before
    # Where objects are missing, as with a promisor, the history before them is carried over.
    assert commits(repository)[-1].subject == "The workspace as it was found"


@pytest.mark.parametrize("kind", ["gitlink", "symlink"])
async def test_a_repository_elsewhere_gets_no_commit(tmp_path: Path, kind: str) -> None:
    """Where `.git` names a marked repository in another folder, that is neither read nor written."""
    root, other = tmp_path / "state/w", tmp_path / "other"
    old_history(other)
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


async def test_a_borrowed_object_is_not_fetched(tmp_path: Path) -> None:
    """Objects that another folder lends to a `.git` do not become part of Nacre's history."""
    root, other = tmp_path / "state/w", tmp_path / "other"
    old_history(other)
    root.mkdir(parents=True)
    owner_git(root, "-c", "init.defaultBranch=main", "init", "-q")
    owner_git(root, "config", "nacre.history", "true")
    alternates = root / ".git/objects/info/alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{other / '.git/objects'}\n", encoding="utf-8")
    owner_git(root, "update-ref", "refs/heads/main", owner_git(other, "rev-parse", "HEAD"))

    repository = Repository(root, state_dir=tmp_path / "state")
    repository.read()

    assert commits(repository) == []


async def test_an_old_history_is_carried_over_once(tmp_path: Path) -> None:
    """All commits keep their names, also packed ones; what the owner commits there later is not read."""
    state, root = tmp_path / "state", tmp_path / "state/w"
    old = old_history(root)
    owner_git(root, "gc", "-q")
    repository = Repository(root, state_dir=state)
    assert repository.is_there

    repository.read()

    assert [each.commit for each in commits(repository)] == old
    assert commits(repository)[0].session_id == "old"
    owner_git(root, "commit", "-q", "--allow-empty", "-m", "the owner's own")
    assert await commit_notes(FolderWorkspace(root, lock_dir=state / "locks"), state_dir=state) == ""
    assert [each.commit for each in commits(repository)] == old
    (root / "MEMORY.md").write_text("# Memory\n", encoding="utf-8")
    assert await commit_notes(FolderWorkspace(root, lock_dir=state / "locks"), state_dir=state) == ""
    assert [each.commit for each in commits(repository)][1:] == old


async def test_a_commit_that_names_files_of_programs_undoes_none(tmp_path: Path) -> None:
    """Undone, a carried commit whose tree has `.git/hooks/x.md` writes nothing there."""
    state, root = tmp_path / "state", tmp_path / "state/w"
    old_history(root)
    blob = owner_git(root, "hash-object", "-w", "--stdin", given=b"#!/bin/sh\n")
    hooks = owner_git(root, "mktree", given=f"100755 blob {blob}\tpost-merge.md\n".encode())
    git = owner_git(root, "mktree", given=f"040000 tree {hooks}\thooks\n".encode())
    tree = owner_git(root, "mktree", given=f"040000 tree {git}\t.git\n100644 blob {blob}\tnote.md\n".encode())
    evil = owner_git(root, "commit-tree", tree, "-p", "HEAD", "-m", "x")
    made = owner_git(root, "commit-tree", owner_git(root, "rev-parse", "HEAD^{tree}"), "-p", evil, "-m", "y")
    owner_git(root, "update-ref", "HEAD", made)
    repository = Repository(root, state_dir=state)
    repository.read()

    with repository.opened():
        _made, paths = undo(repository, made)  # brings back what `evil` had

    assert paths == ["MEMORY.md", "note.md"]
    assert not (root / ".git/hooks/post-merge.md").exists()
