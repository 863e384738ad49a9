"""Lines taken out of all commits of the present branch: the only code that rewrites history. Edge.

git's own stream of a history is read (`fast-export`), notes in it are changed, and it is read in again
(`fast-import`): commits keep their authors, times and messages, and get other names.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from nacre.memory.contracts.notes import is_markdown
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.repository import Repository

_DATA = re.compile(rb"data (\d+)\n")
_BRANCH = "refs/heads/"

Without = Callable[[bytes], bytes]
"""A note's bytes without what is to go."""


def blobs_with(repository: Repository, says: Callable[[bytes], bool]) -> list[str]:
    """Names of the notes' versions that say it, in any commit, also in those that no branch has any more.

    Raises:
        GitFailed: git refused.
    """
    listed = repository.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
    blobs = [row.split()[1] for row in listed.decode().splitlines() if row.startswith("blob ")]
    told = repository.git("cat-file", "--batch", given="\n".join([*blobs, ""]).encode()) if blobs else b""
    stream, found = io.BytesIO(told), []
    for name in blobs:
        size = int(stream.readline().split()[2])
        data = stream.read(size)
        stream.read(1)
        if says(data):
            found.append(name)
    return found


def forget_in_history(repository: Repository, without: Without, *, only: Sequence[str] = ()) -> None:
    """Takes what is to go out of every note of every commit of the branch, and the old commits away.

    With `only`, out of the notes of these names. Nothing must be left to commit.
    Other branches, tags and remotes stay as they are.

    Raises:
        GitFailed: git refused; the branch is as it was, or as it is to be.
    """
    branch = repository.git("symbolic-ref", "HEAD").decode().strip()
    if not branch.startswith(_BRANCH):
        raise GitFailed("no branch is checked out")
    listed = repository.git("rev-list", "--objects", branch, "--", *map(_literal, only))
    rows = (row.partition(" ") for row in listed.decode("utf-8", "replace").splitlines())
    notes = {name.encode() for name, _blank, path in rows if is_markdown(path)}
    stream = repository.git("fast-export", "--show-original-ids", "--reencode=no", branch)
    changed = b"".join(_changed(io.BytesIO(stream), notes, without))
    repository.git("fast-import", "--quiet", "--force", "--date-format=raw", given=changed)
    for name in ("ORIG_HEAD", "FETCH_HEAD"):
        (repository.git_dir / name).unlink(missing_ok=True)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")


def _literal(name: str) -> str:
    return f":(top,literal){name}"


def _changed(stream: BinaryIO, notes: set[bytes], without: Without) -> Iterator[bytes]:
    """The stream with other bytes for the blobs of `notes`; commands and messages as they are."""
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
