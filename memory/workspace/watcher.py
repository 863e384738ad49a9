"""The only file that imports watchfiles: tells when a note in a folder of this machine may have changed.

Reads no file. Watches the workspace's folder itself without its sub-folders (for MEMORY.md), and `memory/`,
`chats/` and extra folders with theirs. Where the system cannot watch (too many watches) or is not told, it
looks at intervals instead: the kernel notices only changes that are made through itself, and not what another
machine changes on a network drive, or the host in a folder of a virtual machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.contracts.notes import IGNORED_FOLDERS, is_markdown

log = logging.getLogger(__name__)

_STEP_MS = 50
_GROUP_MS = 200
_POLL_MS = 2_000
_RESTART_SECONDS = 30.0
MOUNTS_FILE = Path("/proc/self/mountinfo")
"""Linux's list of what is mounted where; other systems have none, and folders count as local there."""

_REMOTE_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "davfs", "lustre", "glusterfs"}
    | {"vboxsf", "vmhgfs", "virtiofs", "prl_fs", "drvfs", "fakeowner", "ncpfs", "coda", "orangefs"}
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True)
class WatchPlan:
    """Folders to watch: `flat` without their sub-folders, `deep` with them."""

    flat: tuple[Path, ...]
    deep: tuple[Path, ...]


def watch_plan(workspace: Path | None, places: Sequence[Path]) -> WatchPlan:
    """Which existing folders have to be watched for notes at these places; links are not followed."""
    flat, deep = [workspace] if workspace else [], []
    for path in places:
        if path.is_symlink() or not path.exists():
            continue
        if path.is_dir():
            deep.append(path)
        elif path.parent != workspace:
            flat.append(path.parent)
    return WatchPlan(flat=tuple(dict.fromkeys(flat)), deep=tuple(dict.fromkeys(deep)))


def concerns_workspace(workspace: Path, top: Collection[str], path: str) -> bool:
    """As `concerns_notes`, of a workspace in which only the names `top` are of interest, or all below `.`."""
    changed = Path(path)
    if changed.parent == workspace and "." not in top:
        return changed.name in top
    return concerns_notes(path)


def concerns_notes(path: str) -> bool:
    """Whether a change at this path can concern notes: a Markdown file, or a folder of them itself."""
    changed = Path(path)
    if IGNORED_FOLDERS.intersection(changed.parts[:-1]) or changed.name in IGNORED_FOLDERS:
        return False
    # A folder that was moved in or deleted comes as one event with the folder's name.
    return is_markdown(changed.name) or not changed.suffix


def remote_file_system(folder: Path) -> str:
    """The type of the remote file system that a folder is on (`nfs4`, `fuse.sshfs`); `""` for a local one."""
    try:
        mounts = MOUNTS_FILE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return remote_type(Path(os.path.realpath(folder)), mounts)


def remote_type(folder: Path, mounts: str) -> str:
    """As `remote_file_system`, for a real path and the text of `/proc/self/mountinfo` (man 5 proc)."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        place, mounted = left.split(" ")[4:5], right.split(" ")[:1]
        if not place or not mounted:
            continue
        point = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), place[0]))
        # A later mount on the same folder hides the earlier one.
        if len(point.parts) >= longest and folder.is_relative_to(point):
            longest, kind = len(point.parts), mounted[0]
    return kind if kind in _REMOTE_TYPES or kind.startswith("fuse.") else ""


class FolderWatch:
    """A `NoteWatch` over the folders of `plan()`, in background tasks of the running loop.

    `changed()` is called at each change of a path that `is_wanted`, and when one may have been missed.
    """

    def __init__(
        self,
        plan: Callable[[], WatchPlan],
        is_wanted: Callable[[str], bool],
        changed: Callable[[], None],
        *,
        remote: Callable[[Path], str] = remote_file_system,
    ) -> None:
        self._plan = plan
        self._is_wanted = is_wanted
        self._changed = changed
        self._remote = remote
        self._stop = asyncio.Event()
        self._problem = ""
        self._tasks = [
            asyncio.create_task(
                self._watch_forever(deep=deep), name=f"memory-watch-{'deep' if deep else 'flat'}"
            )
            for deep in (False, True)
        ]

    @property
    def problem(self) -> str:
        return self._problem

    async def close(self) -> None:
        self._stop.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_forever(self, *, deep: bool) -> None:
        failed = False
        watched: tuple[Path, ...] | None = None
        while not self._stop.is_set():
            plan = self._plan()
            folders = plan.deep if deep else plan.flat
            try:
                if not folders or not all(folder.exists() for folder in folders):
                    await asyncio.sleep(_POLL_MS / 1000)
                    watched = watched or ()
                    continue
                if watched is not None:
                    # Something may have changed between two watches.
                    self._changed()
                watched = folders
                polling = failed or await asyncio.to_thread(self._on_remote_drive, folders)
                await self._watch(folders, deep=deep, polling=polling)
            except (OSError, RuntimeError) as error:
                if failed:
                    await asyncio.sleep(_RESTART_SECONDS)
                else:
                    failed = True
                    self._looks_because(f"watching failed: {error}")

    def _on_remote_drive(self, folders: Sequence[Path]) -> bool:
        for folder in folders:
            if kind := self._remote(folder):
                self._looks_because(f"{folder} is not on a local drive ({kind})")
                return True
        return False

    def _looks_because(self, reason: str) -> None:
        self._problem = f"looking every {_POLL_MS // 1000} s, because {reason}"
        log.warning("Memory files are looked at, not watched: %s", self._problem)

    async def _watch(self, folders: Sequence[Path], *, deep: bool, polling: bool) -> None:
        """Watches until the set of folders changes."""
        from watchfiles import awatch

        async for changes in awatch(
            *folders,
            watch_filter=lambda _, path: self._is_wanted(path),
            debounce=_GROUP_MS,
            step=_STEP_MS,
            recursive=deep,
            force_polling=polling or None,
            poll_delay_ms=_POLL_MS,
            stop_event=self._stop,
            ignore_permission_denied=True,
        ):
            if changes:
                self._changed()
            plan = self._plan()
            if (plan.deep if deep else plan.flat) != tuple(folders):
                return
