"""Decides which files of the workspace's `hooks/` folder may run: those the owner trusted in a terminal.

Trust applies to the SHA-256 digest of a file's bytes together with its name, stored in the agent's state
folder. Whoever changes a file in the workspace, including the model, loses its trust.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.foreign_code import LOAD_SECONDS, ForeignCodeFailed, run_foreign
from nacre.runtime.hooks.hooks import Hooks
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file, set_aside

log = logging.getLogger(__name__)

HOOKS_FOLDER = "hooks"
MAX_HOOK_BYTES = 1024 * 1024
"""A larger file is not a hook and is not read completely."""

HookState: TypeAlias = Literal["trusted", "not trusted", "changed", "unusable"]

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class HookFile(Record):
    """A file of the folder: `name` without `.py`, and its bytes.

    With a `problem`, it has no bytes and never runs.
    """

    name: str
    data: bytes = b""
    problem: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def state(self, trusted: Mapping[str, str]) -> HookState:
        """Whether it may run, given the trusted digests by name."""
        if self.problem:
            return "unusable"
        known = trusted.get(self.name)
        if known is None:
            return "not trusted"
        return "trusted" if known == self.sha256 else "changed"


def hook_files(workspace: Path) -> tuple[HookFile, ...]:
    """The `*.py` files of the workspace's `hooks/` folder, sorted by name, each read once.

    Only regular files directly in a real folder count: symbolic links are not followed.

    Raises:
        OSError: the folder exists but cannot be listed.
    """
    try:
        folder = os.open(workspace / HOOKS_FOLDER, _FLAGS | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".py"))
        return tuple(_hook_file(folder, name) for name in names)
    finally:
        os.close(folder)


def _hook_file(folder: int, file_name: str) -> HookFile:
    name = file_name.removesuffix(".py")
    if not _NAME.fullmatch(name):
        return HookFile(name=name, problem="its name may have up to 64 letters, digits, '_' and '-'")
    try:
        descriptor = os.open(file_name, _FLAGS | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return HookFile(name=name, problem="it cannot be opened, or is a symbolic link")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return HookFile(name=name, problem="it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(MAX_HOOK_BYTES + 1)
        except OSError as error:
            return HookFile(name=name, problem=f"it cannot be read: {error.strerror or error}")
    if len(data) > MAX_HOOK_BYTES:
        return HookFile(name=name, problem=f"it is longer than {MAX_HOOK_BYTES} bytes")
    return HookFile(name=name, data=data)


class TrustedHooks:
    """The file with the digests that the owner trusts. An unreadable file trusts nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def digests(self) -> Mapping[str, str]:
        """The trusted digest of each name.

        Raises:
            ValueError: the file is invalid; the message says what to do.
            SessionError: the system refused, or it is not a regular file.
        """
        found = read_plain(self._file)
        return {} if found is None else self._parsed(found[0])

    def trust(self, hook: HookFile, *, now: Callable[[], datetime]) -> None:
        """Trusts a file with the content that was read. An unreadable digest file is set aside.

        Raises:
            SessionError: the system refused.
        """
        self._change(lambda digests: {**digests, hook.name: hook.sha256}, now)

    def distrust(self, name: str, *, now: Callable[[], datetime]) -> bool:
        """Revokes trust; returns whether the file was trusted.

        Raises:
            SessionError: the system refused.
        """
        return self._change(lambda digests: {key: digests[key] for key in digests if key != name}, now)

    def _change(
        self, changed: Callable[[Mapping[str, str]], Mapping[str, str]], now: Callable[[], datetime]
    ) -> bool:
        make_folder(self._file.parent)
        with locked(self._file):
            found = read_plain(self._file)
            try:
                digests = {} if found is None else self._parsed(found[0])
            except ValueError:
                assert found is not None
                set_aside(self._file, found[0], now=now)
                digests = {}
            new = changed(digests)
            if new == digests and found is not None:
                return False
            text = json.dumps({"version": _VERSION, "hooks": dict(sorted(new.items()))}, indent=2)
            replace_file(self._file, f"{text}\n".encode())
            return new != digests

    def _parsed(self, data: bytes) -> dict[str, str]:
        try:
            value = json.loads(data)
            hooks = value["hooks"] if value["version"] == _VERSION else None
            if isinstance(hooks, dict) and all(
                _NAME.fullmatch(name) and isinstance(digest, str) and _DIGEST.fullmatch(digest)
                for name, digest in hooks.items()
            ):
                return hooks
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        raise ValueError(
            f"{self._file} cannot be read, so no hook of the workspace is trusted. "
            "`nacre admin extensions hooks trust NAME` sets it aside and creates a new one."
        )


def register_workspace_hooks(
    workspace: Path, trusted: TrustedHooks, hooks: Hooks, *, load_seconds: float = LOAD_SECONDS
) -> tuple[str, ...]:
    """Calls `register(hooks)` of each trusted file, in the order of their names.

    Returns a sentence for the owner about each file that was left out, including one that takes longer than
    `load_seconds`. Nothing of such a file stays registered.
    """
    try:
        files = hook_files(workspace)
        digests = trusted.digests() if files else {}
    except ValueError as error:
        return (str(error),)
    except (OSError, SessionError) as error:
        log.warning("could not load the hooks of the workspace: %s", error)
        return (f"The hooks of the workspace were not loaded: {error}",)
    problems = (_register(file, file.state(digests), workspace, hooks, load_seconds) for file in files)
    return tuple(text for text in problems if text)


def _register(file: HookFile, state: str, workspace: Path, hooks: Hooks, load_seconds: float) -> str:
    shown = f"{HOOKS_FOLDER}/{file.name}.py"
    if state == "unusable":
        return f"{shown!r} of the workspace was not loaded: {file.problem}."
    if state != "trusted":
        why = "was changed since it was trusted" if state == "changed" else "is not trusted"
        return (
            f"{shown} of the workspace {why} and does not run. "
            f"To run it: nacre admin extensions hooks trust {file.name}"
        )
    own = Hooks()
    try:
        run_foreign(lambda: _run(file, str(workspace / shown), own), shown, seconds=load_seconds)
    except ForeignCodeFailed as error:
        log.warning("%s of the workspace failed to load", shown, exc_info=error.__cause__)
        return f"{shown} of the workspace was not loaded. It failed: {error}"
    hooks.take_over(own)
    log.info("%s of the workspace runs", shown)
    return ""


def _run(file: HookFile, path: str, hooks: Hooks) -> None:
    # An import would read the file again, or a compiled file beside it.
    module = ModuleType(f"nacre_workspace_hook_{file.name}_{file.sha256[:16]}")
    module.__file__ = path
    code = compile(file.data, path, "exec", dont_inherit=True)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    exec(code, module.__dict__)
    register = getattr(module, "register", None)
    if not callable(register):
        raise TypeError("it does not define register(hooks)")
    result = register(hooks)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("register(hooks) must be a plain function")
