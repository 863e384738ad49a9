"""The only file that imports watchfiles: tells when a memory file may have changed. Reads no file.

Watches the workspace folder itself without its sub-folders (for MEMORY.md), and `memory/`, `chats/` and extra
folders with theirs. Where the system cannot watch (too many watches) or is not told, it looks at intervals
instead: the kernel notices only changes that are made through itself, and not what another machine changes on
a network drive, or the host in a folder of a virtual machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.files.discovery import IGNORED_FOLDERS, NOTE_FOLDERS, ROOT_FILES, is_markdown
from nacre.memory.files.extra_paths import resolved_extra_paths

log = logging.getLogger(__name__)

_STEP_MS = 50
_GROUP_MS = 200
_POLL_MS = 2_000
_RESTART_SECONDS = 30.0
_LONGEST_WAIT = 4
"""Changes that never stop are still synced after this many debounce times."""

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


def watch_plan(workspace: Path, extra_paths: Sequence[str]) -> WatchPlan:
    """Which existing folders have to be watched for this workspace; links are not followed."""
    flat, deep = [workspace], []
    extra = [place.folder for place in resolved_extra_paths(workspace, extra_paths)]
    for path in (*(workspace / folder for folder in NOTE_FOLDERS), *extra):
        if path.is_symlink() or not path.exists():
            continue
        if path.is_dir():
            deep.append(path)
        elif path.parent != workspace:
            flat.append(path.parent)
    return WatchPlan(flat=tuple(dict.fromkeys(flat)), deep=tuple(dict.fromkeys(deep)))


def is_memory_change(workspace: Path, path: str) -> bool:
    """Whether a change at this path can concern memory: a Markdown file, or a folder of notes itself."""
    changed = Path(path)
    if IGNORED_FOLDERS.intersection(changed.parts[:-1]) or changed.name in IGNORED_FOLDERS:
        return False
    if changed.parent == workspace:
        return changed.name in (*ROOT_FILES, *NOTE_FOLDERS)
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


class Watcher:
    """Calls `changed()` at once when something changed, and `settled()` when it is quiet again."""

    def __init__(
        self,
        *,
        workspace: Path,
        extra_paths: Sequence[str],
        debounce_ms: int,
        changed: Callable[[], None],
        settled: Callable[[], None],
        remote: Callable[[Path], str] = remote_file_system,
    ) -> None:
        self._workspace = Path(workspace).resolve()
        self._extra_paths = extra_paths
        self._debounce_seconds = debounce_ms / 1000
        self._changed = changed
        self._settled = settled
        self._remote = remote
        self._timer: asyncio.TimerHandle | None = None
        self._first_change = 0.0
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.problem = ""
        """Why changes are looked for at intervals instead of being told, or `""`."""

    def start(self) -> None:
        """Begins to watch, in background tasks."""
        self._tasks = [
            asyncio.create_task(
                self._watch_forever(deep=deep), name=f"memory-watch-{'deep' if deep else 'flat'}"
            )
            for deep in (False, True)
        ]

    async def close(self) -> None:
        """Stops watching; a pending `settled` call is dropped."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_forever(self, *, deep: bool) -> None:
        failed = False
        watched: tuple[Path, ...] | None = None
        while not self._stop.is_set():
            plan = watch_plan(self._workspace, self._extra_paths)
            folders = plan.deep if deep else plan.flat
            try:
                if not folders or not all(folder.exists() for folder in folders):
                    await asyncio.sleep(_POLL_MS / 1000)
                    watched = watched or ()
                    continue
                if watched is not None:
                    # Something may have changed between two watches.
                    self._note_change()
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
        self.problem = f"looking every {_POLL_MS // 1000} s, because {reason}"
        log.warning("Memory files are looked at, not watched: %s", self.problem)

    async def _watch(self, folders: Sequence[Path], *, deep: bool, polling: bool) -> None:
        """Watches until the set of folders changes."""
        from watchfiles import awatch

        async for changes in awatch(
            *folders,
            watch_filter=lambda _, path: is_memory_change(self._workspace, path),
            debounce=_GROUP_MS,
            step=_STEP_MS,
            recursive=deep,
            force_polling=polling or None,
            poll_delay_ms=_POLL_MS,
            stop_event=self._stop,
            ignore_permission_denied=True,
        ):
            if changes:
                self._note_change()
            plan = watch_plan(self._workspace, self._extra_paths)
            if (plan.deep if deep else plan.flat) != tuple(folders):
                return

    def _note_change(self) -> None:
        loop = asyncio.get_running_loop()
        self._changed()
        if self._timer is None:
            self._first_change = loop.time()
        else:
            self._timer.cancel()
        latest = self._first_change + _LONGEST_WAIT * self._debounce_seconds
        self._timer = loop.call_at(min(loop.time() + self._debounce_seconds, latest), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._settled()
