"""A folder that a workspace is brought to, and what both had when they last met. Edge.

That lies in the folder's `.nacre/`, a file for a file, and goes with the folder wherever it is moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.workspace.documents.steps import KEPT_FOLDER, THEIRS, Text, has_marks, travels
from nacre.memory.workspace.folder import change_locked, file_bytes
from nacre.memory.workspace.paths import contained_path
from nacre.records.record import Record

MOST_BYTES = 1 << 30
"""As much as one field of a database holds."""


class FolderUnusable(Exception):
    """The folder is another workspace's, or what is kept in it cannot be read."""


class Seen(Record):
    """Files by name, and what was passed over, each with the reason."""

    files: dict[str, bytes]
    passed_over: dict[str, str]

    def is_passed_over(self, name: str) -> bool:
        """Whether a file of this name is, or lies in, what was passed over: nothing is known of it."""
        return any(name == each or name.startswith(f"{each}/") for each in self.passed_over)


class FolderTree:
    """The folder `root`. Methods block, and raise `OSError` for what the disk refuses."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept = root / KEPT_FOLDER
        self._met = self._kept / "met"
        self._locks = self._kept / "locks"

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return str(self._root)

    def belong_to(self, workspace: str) -> None:
        """Makes the folder one of this workspace, if it is none yet.

        Raises:
            FolderUnusable: it is another workspace's.
        """
        note = self._kept / "workspace.json"
        try:
            known = json.loads(note.read_bytes())["workspace"]
        except FileNotFoundError:
            self._locks.mkdir(parents=True, exist_ok=True, mode=0o700)
            change_locked(self._kept / ".gitignore", lambda _: b"*\n", self._locks)
            text = json.dumps({"version": 1, "workspace": workspace}, indent=2) + "\n"
            change_locked(note, lambda _: text.encode(), self._locks)
            return
        except (ValueError, KeyError, TypeError) as error:
            raise FolderUnusable(f"{note} cannot be read. Choose a new folder.") from error
        if known != workspace:
            raise FolderUnusable(
                f"The folder {self._root} is of another workspace ({known}), and this is {workspace}. "
                "Choose another folder."
            )

    def here(self) -> Seen:
        """What the folder has and is brought along; links and what is no file are left out."""
        return seen_below(self._root)

    def met(self) -> dict[str, bytes]:
        """What both had when they last met."""
        return seen_below(self._met).files if self._met.is_dir() else {}

    def unresolved(self, here: dict[str, bytes], met: dict[str, bytes]) -> list[str]:
        """The names of those files whose conflict nobody has ended yet."""
        marked = (name for name, text in here.items() if has_marks(text) and met.get(name) != text)
        beside = (name for name in here if (self._root / (name + THEIRS)).exists())
        return sorted({*marked, *beside})

    def put(self, name: str, text: Text, *, seen: Text) -> None:
        """Replaces a file that is still as it was seen; `None` removes it, or has it made.

        Raises:
            FileBusy: somebody changed it meanwhile; it is as they left it.
            PathOutsideRoot: a link leads out of the folder.
        """
        path = contained_path(self._root, name)
        if text is None:
            with suppress(FileNotFoundError):
                if file_bytes(self._root, name, max_bytes=MOST_BYTES).data != seen:
                    raise _changed(name)
                path.unlink()
            self._remove_empty(path.parent)
            return

        def change(old: bytes | None) -> bytes:
            if old != seen:
                raise _changed(name)
            return text

        change_locked(path, change, self._locks)

    def put_beside(self, name: str, theirs: bytes) -> None:
        """Lays the workspace's text beside a file that cannot be merged."""
        change_locked(contained_path(self._root, name + THEIRS), lambda _: theirs, self._locks)

    def note_met(self, name: str, text: Text) -> None:
        """Notes what both have now."""
        path = contained_path(self._met, name)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            change_locked(path, lambda _: text, self._locks)

    def _remove_empty(self, folder: Path) -> None:
        root = Path(os.path.realpath(self._root))
        with suppress(OSError):  # the first that is not empty ends it
            while folder != root:
                folder.rmdir()
                folder = folder.parent


def _changed(name: str) -> FileBusy:
    return FileBusy(f"{name!r} was changed in the folder meanwhile. Do it once more.")


def seen_below(root: Path, *, kept: Sequence[Path] = ()) -> Seen:
    """What a folder has that travels, without what lies in `kept`, real paths inside of it.

    Raises:
        OSError: a folder cannot be listed, or a file cannot be read.
    """
    seen = Seen(files={}, passed_over={})
    real = Path(os.path.realpath(root))
    passed = [place.relative_to(real).as_posix() for place in kept]
    for path in _walk(root, passed):
        name = path.relative_to(root).as_posix()
        try:
            name.encode()
            if path.is_symlink():
                seen.passed_over[name] = "a link, which is not followed"
            elif path.is_file():
                seen.files[name] = file_bytes(root, name, max_bytes=MOST_BYTES).data
        except (PathOutsideRoot, UnicodeEncodeError) as error:
            seen.passed_over[os.fsencode(name).decode("utf-8", "backslashreplace")] = str(error)
    return seen


def _walk(root: Path, passed: Sequence[str]) -> Iterator[Path]:
    """The files and links below a folder that travel, by name; none of the names `passed`, or below one."""

    def refuse(error: OSError) -> None:
        raise error  # files that cannot be seen would count as removed

    for folder, folders, names in os.walk(root, onerror=refuse):
        inside = Path(folder)
        prefix = "" if inside == root else f"{inside.relative_to(root).as_posix()}/"
        links = [each for each in folders if (inside / each).is_symlink()]
        goes = {each for each in (*folders, *names) if travels(prefix + each) and prefix + each not in passed}
        folders[:] = sorted(each for each in folders if each in goes and each not in links)
        yield from (inside / each for each in sorted((*names, *links)) if each in goes)
