"""The git history of a workspace that is a folder. Merges are `documents/merging.py`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from nacre.memory.contracts.workspace import HistoryState

GIT_ANSWER_SECONDS = 2.0
GIT_INIT_SECONDS = 10.0


async def begin_git(directory: Path) -> tuple[HistoryState, str]:
    """Starts a git history in a folder that has none; what came of it, and a sentence if it failed."""
    if (directory / ".git").exists():
        return "present", ""
    problem = await _git(directory, "--version", within_seconds=GIT_ANSWER_SECONDS)
    if not problem:
        init = ("-c", "init.defaultBranch=main", f"--git-dir={directory / '.git'}", "init", "--quiet")
        problem = await _git(directory, *init, within_seconds=GIT_INIT_SECONDS)
    if problem:
        return "unavailable", f"The workspace {directory} has no git history: {problem}."
    return "initialised", ""


async def _git(directory: Path, *arguments: str, within_seconds: float) -> str:
    """Runs git; `""` when it worked, else why not."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        return f"git cannot be started ({error.strerror or error})"
    try:
        async with asyncio.timeout(within_seconds):
            _, complaint = await process.communicate()
    except TimeoutError:
        return f"git did not answer within {within_seconds:.0f} seconds"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return f"git failed: {complaint.decode(errors='replace').strip()}" if process.returncode else ""
