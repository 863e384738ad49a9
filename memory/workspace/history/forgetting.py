"""Removes lines from all commits. This is the only code that rewrites history.

It reads git's own stream of a history (`fast-export`), changes notes in it, and imports it again
(`fast-import`). Commits keep their authors, times and messages and get new names.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, is_markdown
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.repository import BRANCH, Repository

_AT_ONCE = 500
_DATA = re.compile(rb"data (\d+)\n")

Without = Callable[[bytes], bytes]
"""Returns a note's bytes without what is to be forgotten."""


def versions_with(repository: Repository, says: Callable[[bytes], bool], *, of_owner: bool = False) -> int:
    """The number of stored file versions that match, in any commit, whether or not a branch has it.

    With `of_owner`, reads the objects of the workspace's own `.git`, which is the owner's.

    Raises:
        GitFailed: the versions cannot be read.
    """
    environment = owners_objects(repository) if of_owner else {}
    how = "--batch-check=%(objecttype) %(objectname) %(objectsize)"
    listed = repository.git("cat-file", "--batch-all-objects", how, environment=environment)
    rows = (row.split() for row in listed.decode().splitlines())
    blobs = [name for kind, name, size in rows if kind == "blob" and int(size) <= MAX_NOTE_BYTES]
    found = 0
    for start in range(0, len(blobs), _AT_ONCE):
        read = repository.blobs(blobs[start : start + _AT_ONCE], environment=environment)
        found += sum(map(says, read.values()))
    return found


def owners_objects(repository: Repository) -> dict[str, str]:
    """The environment in which git reads the objects of the workspace's `.git` and nothing else of it.

    Raises:
        GitFailed: there are no objects, or they are behind a link.
    """
    git_dir = repository.root / ".git"
    objects = git_dir / "objects"
    if git_dir.is_symlink() or objects.is_symlink() or not objects.is_dir():
        raise GitFailed(f"{git_dir} leads elsewhere")
    return {"GIT_OBJECT_DIRECTORY": str(objects)}


def forget_in_history(repository: Repository, without: Without, *, only: Sequence[str] = ()) -> None:
    """Rewrites every note of every commit, or those of the names `only`, and removes the old commits.

    All changes must have been committed in the same `opened`.

    Raises:
        GitFailed: git refused; the branch is as before, or as intended.
    """
    if not repository.head():
        return
    listed = repository.git(
        "rev-list", "--objects", BRANCH, "--", *(f":(top,literal){name}" for name in only)
    )
    rows = (row.partition(" ") for row in listed.decode("utf-8", "replace").splitlines())
    notes = {name.encode() for name, _blank, path in rows if is_markdown(path)}
    stream = repository.git("fast-export", "--show-original-ids", "--reencode=no", BRANCH)
    changed = b"".join(_changed(io.BytesIO(stream), notes, without))
    repository.git("fast-import", "--quiet", "--force", "--date-format=raw", stdin=changed)
    repository.forget_seen()
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")


def _changed(stream: BinaryIO, notes: set[bytes], without: Without) -> Iterator[bytes]:
    kind = original = b""
    for line in iter(stream.readline, b""):
        if line in (b"blob\n",) or line.startswith(b"commit "):
            kind, original = line.split()[0], b""
        if line.startswith(b"original-oid "):
            original = line.split()[1]
            continue
        sized = _DATA.fullmatch(line)
        if sized is None:
            yield line
            continue
        data = stream.read(int(sized[1]))
        if kind == b"blob" and original in notes:
            data = without(data)
        yield b"data %d\n" % len(data) + data
