"""The git history of a workspace that is a folder. Merges are `documents/merging.py`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nacre.memory.contracts.workspace import HistoryState

GIT_ANSWER_SECONDS = 2.0
GIT_INIT_SECONDS = 10.0
GIT_WORK_SECONDS = 60.0

OURS = "nacre.history"
"""The key in a repository's own configuration which says that Nacre began it."""

_QUIET = (
    *("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"),
    *("-c", "gc.auto=0", "-c", "commit.gpgSign=false", "-c", "advice.addEmbeddedRepo=false"),
)
"""No hook of the owner's is run, nothing is signed, and no upkeep starts behind a turn."""


class GitFailed(Exception):
    """git could not do what was asked, or is not there. The message is a clause that says why."""


async def begin_git(directory: Path) -> tuple[HistoryState, str]:
    """Starts a git history in a folder that has none; what came of it, and a sentence if it failed."""
    if (directory / ".git").exists():
        return "present", ""
    try:
        await asyncio.to_thread(_begin, directory)
    except GitFailed as error:
        return "unavailable", f"The workspace {directory} has no git history: {error}."
    return "initialised", ""


def run_git(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    within_seconds: float = GIT_WORK_SECONDS,
) -> bytes:
    """Runs git in the repository of the folder `directory` itself, never in one around it; what it prints.

    It blocks. `given` is what git reads; `environment` is added to that of the process, from which nothing is
    taken that git itself would heed.

    Raises:
        GitFailed: git cannot be started, did not answer in time, or refused.
    """
    places = (f"--git-dir={directory / '.git'}", f"--work-tree={directory}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(
            ["git", *_QUIET, *places, *arguments],
            cwd=directory,
            input=given,
            capture_output=True,
            timeout=within_seconds,
            env={**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git did not answer within {within_seconds:.0f} seconds") from error
    except OSError as error:
        raise GitFailed(f"git cannot be started ({error.strerror or error})") from error
    if ended.returncode:
        raise GitFailed(f"git failed: {ended.stderr.decode(errors='replace').strip()}")
    return ended.stdout


def _begin(directory: Path) -> None:
    run_git(directory, "--version", within_seconds=GIT_ANSWER_SECONDS)
    init = ("-c", "init.defaultBranch=main", "init", "--quiet")
    run_git(directory, *init, within_seconds=GIT_INIT_SECONDS)
    run_git(directory, "config", "--local", OURS, "true", within_seconds=GIT_INIT_SECONDS)
