"""Two texts that came from a third, made one by `git merge-file`. Edge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre.memory.workspace.documents.steps import HERE_MARK, THERE_MARK, Text, only_appended
from nacre.memory.workspace.git import git_environment
from nacre.records.record import Record

MERGE_SECONDS = 60.0
_NO_TEXT = 128
"""git's codes below it count conflicts; the others are failures."""


class MergeFailed(Exception):
    """git is not there, or failed."""


class Merged(Record):
    """One text of two. Where `is_conflict`, both stand in it between marks; without a text git took none."""

    text: bytes | None
    is_conflict: bool


def merged(base: Text, there: bytes, here: bytes) -> Merged:
    """One text with the changes of both; where both only went on behind the base, one behind the other.

    Raises:
        MergeFailed: git cannot be started, or does not end.
    """
    how = ["--union"] if only_appended(base, there, here) else []
    labels = [mark.split(b" ", 1)[1].decode() for mark in (HERE_MARK, THERE_MARK)]
    with TemporaryDirectory(prefix="nacre-merge-") as folder:
        names = ("here", "base", "there")
        for name, text in zip(names, (here, base or b"", there), strict=True):
            Path(folder, name).write_bytes(text)
        marks = ["-L", labels[0], "-L", "before", "-L", labels[1]]
        try:
            done = subprocess.run(
                ["git", "merge-file", "-p", "-q", *how, *marks, *names],
                cwd=folder,
                env={**git_environment(), "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=MERGE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MergeFailed(f"git, which merges files, cannot be used ({error}). Install git.") from error
    if 0 <= done.returncode < _NO_TEXT:
        return Merged(text=done.stdout, is_conflict=done.returncode > 0)
    return Merged(text=None, is_conflict=True)
