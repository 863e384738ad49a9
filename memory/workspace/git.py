"""Runs git on Nacre's own repositories with only Nacre's settings.

git uses no configuration, attributes, hooks or helpers of the owner, the system or a workspace, because a
folder from elsewhere must not decide what runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

GIT_WORK_SECONDS = 60.0

_CONFIG = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    # Files must be complete after a power failure.
    "core.fsync": "committed,loose-object",
    "core.fsyncMethod": "batch",
    "core.logAllRefUpdates": "true",
    "core.pager": "cat",
    "core.editor": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "diff.external": "",
    "gc.auto": "0",
    "init.defaultBranch": "main",
    "pack.useBitmaps": "false",
    "protocol.allow": "never",
}
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "LC_ALL": "C",
}


class GitFailed(Exception):
    """git refused, or is not installed. The message is a clause."""


class GitTimedOut(GitFailed):
    """git took too long and was killed."""


def run_git(
    git_dir: Path,
    *arguments: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    until: float | None = None,
    good_codes: Collection[int] = (0,),
) -> bytes:
    """Runs git on the repository `git_dir`, which must be Nacre's own, and returns its output. Blocks.

    `stdin` is the standard input. `environment` is added to the process's environment without git's own
    variables. git is killed at `until`, in `time.monotonic()`, or after `GIT_WORK_SECONDS`.

    Raises:
        GitFailed: git cannot be started, or its exit code is not in `good_codes`.
        GitTimedOut: git took too long.
    """
    seconds = GIT_WORK_SECONDS if until is None else max(0.0, until - time.monotonic())
    settings = [word for name, value in _CONFIG.items() for word in ("-c", f"{name}={value}")]
    try:
        process = subprocess.Popen(
            ["git", "--no-pager", *settings, f"--git-dir={git_dir}", *arguments],
            cwd=git_dir if git_dir.is_dir() else git_dir.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**git_environment(), **(environment or {})},
            # A process group of its own, so that git's children are killed with it.
            start_new_session=True,
        )
    except OSError as error:
        raise GitFailed(f"git cannot be started ({error.strerror or error})") from error
    try:
        output, errors = process.communicate(stdin, timeout=seconds)
    except BaseException as error:
        _kill(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise GitTimedOut(f"git took longer than {seconds:.1f} seconds") from error
        raise
    if process.returncode not in good_codes:
        raise GitFailed(f"git failed: {errors.decode(errors='replace').strip()}")
    return output


def git_environment() -> dict[str, str]:
    """The environment of the process, with git's configuration of account and system disabled."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**inherited, **_ENVIRONMENT}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
