"""What Nacre keeps for its owner alone: folders 0700, files 0600, whatever the umask. Edge.

New files are made so. What an older version, another program or a copy left open is mended at each start.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nacre.runtime.settings.disk.agent_folders import AgentFolders
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE

_TREES = ("locks", "logs", "memory")
PRIVATE_FILES = ("nacre.json5", ENVIRONMENT_FILE, "chat_history")
"""Files of the state folder."""
_OWNERS_BITS = 0o700


def keep_private(state_dir: Path, folders: AgentFolders) -> None:
    """Makes the state folder, and a workspace inside of it, and takes from others what they may do there.

    A workspace that is there, or lies elsewhere, stays as it is: the owner may share it. Of a folder of
    sessions outside of the state folder, only the sessions' files are Nacre's. What the file system refuses
    stays too; some know no modes. A folder that only its owner can enter is not looked into.

    Raises:
        OSError: the state folder cannot be made.
    """
    made = [state_dir, state_dir / "locks"]
    if not folders.database_url and folders.workspace.is_relative_to(state_dir):
        between = [part for part in reversed(folders.workspace.parents) if part.is_relative_to(state_dir)]
        made += [*between, folders.workspace]
    for folder in made:
        folder.mkdir(mode=_OWNERS_BITS, parents=True, exist_ok=True)
    sessions = folders.sessions_file.parent
    for tree in (*(state_dir / name for name in _TREES), folders.agent_dir, sessions):
        if tree != state_dir and tree.is_relative_to(state_dir):
            for path in _open_to_others(tree, spared=folders.workspace):
                _close(path)
    if not sessions.is_relative_to(state_dir):
        for path in _session_files(folders.sessions_file):
            _close(path)
    for path in (*(state_dir / name for name in PRIVATE_FILES), state_dir / "agents", state_dir):
        _close(path)


def _open_to_others(folder: Path, *, spared: Path) -> Iterator[Path]:
    """What lies in a folder that others can enter, and at last the folder itself."""
    with suppress(OSError):
        mode = folder.lstat().st_mode
        if not stat.S_ISDIR(mode) or not mode & 0o077 or spared.is_relative_to(folder):
            return
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _open_to_others(Path(entry.path), spared=spared)
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
        yield folder


def _session_files(index: Path) -> Iterator[Path]:
    with suppress(OSError):
        for entry in os.scandir(index.parent):
            is_ours = entry.name.startswith(index.name) or ".jsonl" in entry.name
            if is_ours and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _close(path: Path) -> None:
    with suppress(OSError):
        mode = path.lstat().st_mode
        if mode & 0o077 and not stat.S_ISLNK(mode):
            path.chmod(mode & _OWNERS_BITS)
