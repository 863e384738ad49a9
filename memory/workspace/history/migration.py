"""A history copied out of another git folder, as data: nothing that is configured there has an effect.

Nacre once kept the history in the `.git` of the workspace itself. That folder is read and never written. A
damaged repository is rebuilt in the same way, from the newest commit that is whole.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.workspace.git import GitFailed, GitTimedOut, run_git
from nacre.memory.workspace.paths import open_regular

log = logging.getLogger(__name__)

_MAIN = "refs/heads/main"
_MOST_BYTES = 8 << 20
_MOST_CANDIDATES = 50
_SECTION = re.compile(r"\s*\[\s*(?P<name>[^\]]*?)\s*\]")
_MARK = re.compile(r"\s*history\s*=\s*(true|yes|on|1)\s*", re.IGNORECASE)
_REF = re.compile(r"refs/heads/(?!.*\.\.)[\w][\w./-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def has_old_history(root: Path) -> bool:
    """Whether the workspace `root` has a `.git` folder of its own that an earlier Nacre began."""
    git_dir = root / ".git"
    if not _is_folder(git_dir):
        return False
    section = ""
    for line in _text(git_dir / "config").splitlines():
        if found := _SECTION.match(line):
            section = found["name"].casefold()
        elif section == "nacre" and _MARK.fullmatch(line):
            return True
    return False


def new_repository(git_dir: Path, *, until: float | None) -> None:
    """Makes an empty repository; what stands there was not finished. Raises `GitFailed`, `OSError`."""
    shutil.rmtree(git_dir, ignore_errors=True)
    git_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    git_dir.mkdir(mode=0o700)
    run_git(git_dir, "init", "--bare", "--quiet", "--template=", until=until)


def carry_over(root: Path, git_dir: Path, *, until: float | None) -> None:
    """Copies the branch of the workspace's own `.git` into the new repository, if an earlier Nacre began it.

    Raises:
        GitTimedOut: it did not end in time; try again.
    """
    if not has_old_history(root):
        return
    if copy_history(root / ".git", git_dir, until=until):
        log.info("the history of the notes was copied from %s, which is left as it is", root / ".git")
    elif next(_candidates(root / ".git"), ""):
        log.warning("the history in %s cannot be read; a new one begins", root / ".git")


def copy_history(source: Path, git_dir: Path, *, until: float | None) -> bool:
    """Copies the newest whole commit of a git folder, with all before it; `False` if there is none.

    Raises:
        GitTimedOut: it did not end in time.
    """
    objects = source / "objects"
    if not _is_folder(objects) or os.path.lexists(objects / "info/alternates"):
        return False
    lent = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(objects.absolute()))}
    for commit in _candidates(source):
        try:
            asked = f"{commit}\n".encode()
            pack = run_git(
                git_dir,
                "pack-objects",
                "--revs",
                "--stdout",
                "-q",
                given=asked,
                environment=lent,
                until=until,
            )
            run_git(git_dir, "index-pack", "--stdin", given=pack, until=until)
            run_git(git_dir, "update-ref", "-m", "nacre: copied", _MAIN, commit, until=until)
        except GitTimedOut:
            raise
        except GitFailed as error:
            log.info("commit %s of %s is not whole: %s", commit, source, error)
        else:
            return True
    return False


def _candidates(source: Path) -> Iterator[str]:
    """The newest commit that a git folder's files name, then earlier ones."""
    head = _text(source / "HEAD").strip()
    ref = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    found = [] if ref else [head]
    for name in dict.fromkeys((ref, _MAIN)):
        if not _REF.fullmatch(name):
            continue
        found.append(_text(source / name).strip())
        packed = (line.split() for line in _text(source / "packed-refs").splitlines())
        found += [row[0] for row in packed if row[1:] == [name]]
        logged = (line.split() for line in reversed(_text(source / "logs" / name).splitlines()))
        found += [commit for row in logged if len(row) > 1 for commit in (row[1], row[0])]
        if ref:
            break
    whole = [name for name in dict.fromkeys(found) if _COMMIT.fullmatch(name) and name.strip("0")]
    yield from whole[:_MOST_CANDIDATES]


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _text(path: Path) -> str:
    """The text of a small regular file that is no link; `""` for anything else."""
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, PathOutsideRoot):
        return ""


def _quoted(path: str) -> str:
    """A path in a list of object folders, where a colon separates and a quoted one may hold any character."""
    return '"{}"'.format(path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
