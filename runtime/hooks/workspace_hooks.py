"""Runs the trusted files of the workspace's `hooks/` folder. The bytes that were hashed are what runs."""

from __future__ import annotations

import inspect
import logging
import sys
from pathlib import Path
from types import ModuleType

from nacre.runtime.contracts.foreign_code import LOAD_SECONDS, ForeignCodeFailed, run_foreign
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.hooks.trust import HOOKS_FOLDER, HookFile, TrustedHooks, hook_files
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)


def register_workspace_hooks(
    workspace: Path, trusted: TrustedHooks, hooks: Hooks, *, load_seconds: float = LOAD_SECONDS
) -> tuple[str, ...]:
    """Calls `register(hooks)` of each trusted file, in the order of their names.

    Gives a sentence for the owner about each file that was left out. Nothing of such a file stays registered.
    A file that takes longer than `load_seconds` is one.
    """
    try:
        files = hook_files(workspace)
        digests = trusted.digests() if files else {}
    except ValueError as error:
        return (str(error),)
    except (OSError, SessionError) as error:
        log.warning("the hooks of the workspace are left out: %s", error)
        return (f"The hooks of the workspace are left out: {error}",)
    said = (_registered(file, file.state(digests), workspace, hooks, load_seconds) for file in files)
    return tuple(text for text in said if text)


def _registered(file: HookFile, state: str, workspace: Path, hooks: Hooks, load_seconds: float) -> str:
    shown = f"{HOOKS_FOLDER}/{file.name}.py"
    if state == "unusable":
        return f"{shown!r} of the workspace is left out: {file.problem}."
    if state != "trusted":
        why = "was changed since it was trusted" if state == "changed" else "is not trusted"
        return f"{shown} of the workspace {why} and does not run. To run it: nacre hooks trust {file.name}"
    own = Hooks()
    try:
        run_foreign(lambda: _run(file, str(workspace / shown), own), shown, seconds=load_seconds)
    except ForeignCodeFailed as error:
        log.warning("%s of the workspace failed to load", shown, exc_info=error.__cause__)
        return f"{shown} of the workspace is left out. It failed: {error}"
    hooks.take_over(own)
    log.info("%s of the workspace runs", shown)
    return ""


def _run(file: HookFile, path: str, hooks: Hooks) -> None:
    # Not by an import: that would read the file again, or a compiled one beside it.
    module = ModuleType(f"nacre_workspace_hook_{file.name}_{file.sha256[:16]}")
    module.__file__ = path
    code = compile(file.data, path, "exec", dont_inherit=True)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    exec(code, module.__dict__)
    register = getattr(module, "register", None)
    if not callable(register):
        raise TypeError("it has no function register(hooks)")
    result = register(hooks)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("register(hooks) must be a plain function")
