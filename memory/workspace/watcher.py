"""The only file that imports watchdog: reports when a note in a folder of this machine may have changed.

It reads no files. It watches the workspace's folder without sub-folders (for MEMORY.md), and `memory/`,
`chats/` and extra folders with theirs. Its threads sleep until the system reports something. It polls instead
where the system cannot watch (too many watches) or does not notice changes: a kernel only sees its own, not
those by another machine on a network drive or by the host of a virtual machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nacre.closing import stop_tasks
from nacre.memory.contracts.notes import IGNORED_FOLDERS, is_markdown
from nacre.record import Record

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

log = logging.getLogger(__name__)

_GROUP_SECONDS = 0.2
_POLL_SECONDS = 2.0
_RESTART_SECONDS = 30.0
MOUNTS_FILE = Path("/proc/self/mountinfo")
"""Linux's list of mounts. Other systems have none, and all folders count as local there."""

_REMOTE_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "davfs", "lustre", "glusterfs"}
    | {"vboxsf", "vmhgfs", "virtiofs", "prl_fs", "drvfs", "fakeowner", "ncpfs", "coda", "orangefs"}
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


class WatchPlan(Record):
    """Folders to watch: `flat` without their sub-folders, `deep` with them."""

    flat: tuple[Path, ...]
    deep: tuple[Path, ...]


def watch_plan(workspace: Path | None, places: Sequence[Path]) -> WatchPlan:
    """The existing folders to watch for notes at these places. Links are not followed."""
    flat, deep = [workspace] if workspace else [], []
    for path in [path for path in places if path.exists() and not path.is_symlink()]:
        if path.is_dir():
            deep.append(path)
        elif path.parent != workspace:
            flat.append(path.parent)
    return WatchPlan(flat=tuple(dict.fromkeys(flat)), deep=tuple(dict.fromkeys(deep)))


def concerns_workspace(workspace: Path, top: Collection[str], path: str) -> bool:
    """Like `concerns_notes`, for a workspace in which only the names `top` matter, or everything below
    `.`."""
    changed = Path(path)
    if changed.parent == workspace and "." not in top:
        return changed.name in top
    return concerns_notes(path, (workspace,))


def concerns_notes(path: str, folders: Sequence[Path]) -> bool:
    """Whether a change at this path can affect notes, because it is a Markdown file or a folder of notes.
    The `folders` of notes may lie anywhere, as the workspace does in `~/.nacre`."""
    changed = Path(path)
    inner = next((changed.relative_to(each) for each in folders if changed.is_relative_to(each)), changed)
    # A moved or deleted folder comes as one event with the folder's name.
    is_note = is_markdown(changed.name) or not changed.suffix
    return is_note and IGNORED_FOLDERS.isdisjoint(inner.parts)


def remote_file_system(folder: Path) -> str:
    """The type of the remote file system of a folder (`nfs4`, `fuse.sshfs`); `""` for a local one."""
    try:
        mounts = MOUNTS_FILE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return remote_type(Path(os.path.realpath(folder)), mounts)


def remote_type(folder: Path, mounts: str) -> str:
    """Like `remote_file_system`, for a real path and the text of `/proc/self/mountinfo` (man 5 proc)."""
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


_Folder: TypeAlias = tuple[Path, bool]
"""A folder, and whether its sub-folders are watched too."""


class FolderWatch:
    """A `NoteWatch` over the folders of `plan()`, in a background task of the running loop.

    Calls `changed()` at each change of a path that `is_wanted`, and when a change may have been missed.
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
        self.problem = ""
        self._task = asyncio.create_task(self._watch_forever(), name="memory-watch")

    async def close(self) -> None:
        await stop_tasks(self._task)

    async def _watch_forever(self) -> None:
        failed, has_watched = False, False
        while True:
            folders = [folder for folder in self._folders() if folder[0].exists()]
            if has_watched and folders:
                # Something may have changed between two watches.
                self._changed()
            has_watched = True
            try:
                if folders:
                    polls = failed or await asyncio.to_thread(self._on_remote_drive, folders)
                    await self._watch(folders, polls=polls)
                else:
                    await asyncio.sleep(_POLL_SECONDS)
            except (OSError, RuntimeError) as error:
                if failed:
                    await asyncio.sleep(_RESTART_SECONDS)
                else:
                    failed = True
                    self._poll_because(f"watching failed: {error}")

    def _folders(self) -> list[_Folder]:
        plan = self._plan()
        return [*((folder, False) for folder in plan.flat), *((folder, True) for folder in plan.deep)]

    def _on_remote_drive(self, folders: Sequence[_Folder]) -> bool:
        for folder, _ in folders:
            if kind := self._remote(folder):
                self._poll_because(f"{folder} is not on a local drive ({kind})")
                return True
        return False

    def _poll_because(self, reason: str) -> None:
        self.problem = f"polling every {_POLL_SECONDS:.0f} s, because {reason}"
        log.warning("Memory files are polled, not watched: %s", self.problem)

    async def _watch(self, folders: Sequence[_Folder], *, polls: bool) -> None:
        """Watches until the plan changes, or a folder is replaced.

        Raises:
            OSError: the system cannot watch this much.
        """
        loop, happened = asyncio.get_running_loop(), asyncio.Event()
        changed_paths: deque[str] = deque()

        def report(event: FileSystemEvent) -> None:
            # This runs on the observer's thread, so unwanted events cost the loop nothing.
            paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
            if wanted := [path for path in paths if path in own or self._is_wanted(path)]:
                changed_paths.extend(wanted)
                if not happened.is_set():
                    loop.call_soon_threadsafe(happened.set)

        own = {os.fspath(folder) for folder, _ in folders}
        beginning = asyncio.ensure_future(asyncio.to_thread(_begun, folders, report, polls=polls))
        try:
            await asyncio.shield(beginning)
            while True:
                await happened.wait()
                happened.clear()
                paths = {changed_paths.popleft() for _ in range(len(changed_paths))}
                if any(map(self._is_wanted, paths)):
                    self._changed()
                if own & paths or [folder for folder in self._folders() if folder[0].exists()] != folders:
                    return
                await asyncio.sleep(_GROUP_SECONDS)
        finally:
            # A thread cannot be canceled, so what it starts has to be stopped.
            await asyncio.wait({beginning})
            if not beginning.exception():
                await asyncio.to_thread(_end, beginning.result())


def _begun(
    folders: Sequence[_Folder], report: Callable[[FileSystemEvent], None], *, polls: bool
) -> BaseObserver:
    """An observer that calls `report` on its own thread at each change in these folders.

    Raises:
        OSError: the system cannot watch this much.
    """
    from watchdog import events

    class Handler(events.FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            report(event)

    # Without reading files, and without folders' times, which change with every file.
    kinds: list[type[FileSystemEvent]] = [
        *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileDeletedEvent, events.FileMovedEvent),
        *(events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent),
    ]
    observer: BaseObserver
    if polls:
        from watchdog.observers.polling import PollingObserver

        observer = PollingObserver(timeout=_POLL_SECONDS)
    else:
        from watchdog.observers import Observer

        observer = Observer()
    handler = Handler()
    try:
        observer.start()
        for folder, is_deep in folders:
            # The folder itself may be a link; links inside are not followed.
            observer.schedule(
                handler, folder, recursive=is_deep, event_filter=kinds, follow_symlink=not is_deep
            )
        if sys.platform == "linux" and not polls:
            # watchdog silently skips sub-folders that cannot be watched. If one of them used up the system's
            # watches, none is left for another folder either, and that is reported.
            observer.unschedule(observer.schedule(handler, os.sep, event_filter=[]))
    except BaseException:
        _end(observer)
        raise
    return observer


def _end(observer: BaseObserver) -> None:
    if observer.is_alive():
        observer.stop()
        observer.join()
