"""The git repository of a workspace: what changed in its notes, and commits without the owner's index."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, is_markdown
from nacre.memory.files.sources.sources import SOURCES_FOLDER
from nacre.memory.workspace.git import OURS, GitFailed, run_git

_INDEX = "nacre-index"
_UNFINISHED = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"),
)
_NO_ENTRY = "0" * 40
_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Nacre"), ("EMAIL", "nacre@localhost"))
}


class Repository:
    """The repository that lies in `root` itself; one around it is never touched. Its methods block.

    Raises:
        GitFailed: of each method, when git is not there or refuses.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git_dir = root / ".git"
        self._own_index: Mapping[str, str] = {}

    @property
    def is_there(self) -> bool:
        """Whether the folder has a repository of its own."""
        return self.git_dir.exists()

    def open(self) -> None:
        """Finds where the repository keeps its things, which may be elsewhere, as in a work tree."""
        told = self.git("rev-parse", "--absolute-git-dir").decode("utf-8", "surrogateescape").strip()
        self.git_dir = Path(told)
        self._own_index = {"GIT_INDEX_FILE": str(self.git_dir / _INDEX)}

    def is_ours(self) -> bool:
        """Whether Nacre began it."""
        try:
            return self.git("config", "--local", "--type=bool", OURS).strip() == b"true"
        except GitFailed:
            return False

    def busy_with(self) -> str:
        """What the owner is in the middle of, as a clause; `""` when a commit may be made."""
        if any((self.git_dir / name).exists() for name in _UNFINISHED):
            return "a merge, rebase or the like is not finished"
        if (self.git_dir / "index.lock").exists():
            return "another git command is at work"
        try:
            self.git("symbolic-ref", "--quiet", "HEAD")
        except GitFailed:
            return "no branch is checked out"
        return ""

    def head(self) -> str:
        """The present commit; `""` before the first."""
        try:
            return self.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
        except GitFailed:
            return ""

    def changed(self, head: str) -> list[str]:
        """The notes, and files of sources, that differ from the commit `head`, in a fixed order.

        What the owner has staged is theirs to commit, and left out; so is what git ignores.
        """
        staged = self._staged(head)
        self._git_own("read-tree", "--reset", head) if head else self._git_own("read-tree", "--empty")
        # tells by its status that files differ, which is no failure
        self._git_own("update-index", "-q", "--refresh")
        differing = self._git_own("diff-files", "--name-only", "-z")
        new = self._git_own("ls-files", "--others", "--exclude-standard", "-z")
        names = {os.fsdecode(name) for name in (differing + new).split(b"\0") if name}
        return sorted(name for name in names - staged if self._is_kept(name))

    def before(self, head: str, name: str) -> bytes | None:
        """A file as the commit has it; `None` if it has none."""
        try:
            return self.git("cat-file", "--filters", f"{head}:{name}") if head else None
        except GitFailed:
            return None

    def put(self, name: str, data: bytes | None) -> None:
        """Makes a file of the next tree have these bytes; `None` takes it out."""
        if data is None:
            entry = f"0 {_NO_ENTRY}\t{name}"
        else:
            blob = self.git("hash-object", "-w", f"--path={name}", "--stdin", given=data).decode().strip()
            entry = f"100644 {blob}\t{name}"
        self._git_own("update-index", "-z", "--index-info", given=os.fsencode(entry) + b"\0")

    def commit(self, head: str, message: str) -> str:
        """A commit of what was `put`, on top of `head`; `head` itself if nothing differs.

        The owner's index follows for what is not staged there, so that `git status` shows nothing of it.

        Raises:
            GitFailed: also if somebody else has committed since; nothing was committed then.
        """
        tree = self._git_own("write-tree").decode().strip()
        if head and tree == self.git("rev-parse", f"{head}^{{tree}}").decode().strip():
            return head
        parent = ("-p", head) if head else ()
        made = self.git("commit-tree", tree, *parent, given=message.encode("utf-8", "replace"), who=True)
        commit = made.decode().strip()
        self._follow(head, commit)
        self.git("update-ref", "-m", "nacre: notes", "HEAD", commit, head or _NO_ENTRY)
        return commit

    def git(self, *arguments: str, given: bytes = b"", who: bool = False) -> bytes:
        """What git prints."""
        return run_git(self.root, *arguments, given=given, environment=_WHO if who else None)

    def _git_own(self, *arguments: str, given: bytes = b"") -> bytes:
        return run_git(self.root, *arguments, given=given, environment=self._own_index)

    def _is_kept(self, name: str) -> bool:
        path = self.root / name
        if path.is_symlink() or (path.exists() and path.stat().st_size > MAX_NOTE_BYTES):
            return False
        sources = name.startswith(f"{SOURCES_FOLDER}/") and name.endswith(".jsonl")
        return sources or name == ".gitignore" or is_markdown(name)

    def _staged(self, head: str) -> set[str]:
        """What the owner's index has otherwise than the commit, and this class did not put there."""
        index = _entries(self.git("ls-files", "-s", "-z"))
        own = _entries(self._git_own("ls-files", "-s", "-z")) if (self.git_dir / _INDEX).exists() else {}
        there = _tree(self.git("ls-tree", "-r", "-z", head)) if head else {}
        if not index:
            return set()  # there is none, or all is new
        return {
            name
            for name in index.keys() | there.keys()
            if index.get(name) != there.get(name) and index.get(name) != own.get(name)
        }

    def _follow(self, head: str, commit: str) -> None:
        """Brings the owner's index along, before the branch: killed in between, `changed` knows its own."""
        before = _tree(self.git("ls-tree", "-r", "-z", head)) if head else {}
        after = _tree(self.git("ls-tree", "-r", "-z", commit))
        index = _entries(self.git("ls-files", "-s", "-z"))
        lines = [
            f"100644 {after[name]}\t{name}" if name in after else f"0 {_NO_ENTRY}\t{name}"
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name) and index.get(name) == before.get(name)
        ]
        if lines:
            self.git("update-index", "-z", "--index-info", given=_joined(lines))


def _joined(lines: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(line) + b"\0" for line in lines)


def _entries(listed: bytes) -> dict[str, str]:
    """Names to blobs, of `ls-files -s`."""
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return {os.fsdecode(name): head.split()[1].decode() for head, _tab, name in rows}


def _tree(listed: bytes) -> dict[str, str]:
    """Names to blobs, of `ls-tree -r`."""
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return {os.fsdecode(name): head.split()[2].decode() for head, _tab, name in rows}
