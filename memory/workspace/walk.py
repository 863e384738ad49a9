"""Finds the notes in folders of this machine. Opens no file and follows no symbolic link.

Whatever is passed over is listed with its reason. A folder that could not be read is reported as such, so
that nobody takes its files for deleted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from nacre.memory.contracts.notes import (
    IGNORED_FOLDERS,
    FoundNote,
    NoteListing,
    NoteMarks,
    WantedNotes,
    is_markdown,
    matches,
)
from nacre.memory.contracts.records import SkippedPath
from nacre.memory.workspace.files import note_marks

_SYMLINK = "a symbolic link, which is never followed; name its target in extraPaths instead"


def notes_in(root: Path, wanted: Sequence[WantedNotes]) -> NoteListing:
    """The notes of a workspace that is the folder `root`. Never raises for what it cannot read."""
    real_root = Path(os.path.realpath(root))
    prefix_chars = len(os.path.join(real_root, ""))  # noqa: PTH118 - a Path drops the separator
    walk = Walk(lambda path: path[prefix_chars:].replace(os.sep, "/"))
    try:
        entries = os.listdir(real_root)  # noqa: PTH208 - names are enough, and the call proves that the folder is readable
    except OSError as error:
        walk.skip(real_root, f"the workspace is not readable ({error.strerror or type(error).__name__})")
        return NoteListing(skipped=tuple(walk.skipped), unreadable=("",))
    if not entries:
        # An empty workspace is what an unmounted drive looks like.
        walk.unreadable.append("")
    for asked in wanted:
        # Asked of the entries, so that a system that folds case does not find a file under two names.
        if asked.is_required or asked.name.partition("/")[0] in entries:
            walk.visit(real_root / asked.name, asked.pattern, is_required=asked.is_required)
    return walk.listing()


class Walk:
    """Collects notes; `name_of` says under which name the file at an absolute path is known."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._notes: dict[tuple[int, int] | str, FoundNote] = {}
        self.skipped: list[SkippedPath] = []
        self.unreadable: list[str] = []

    def listing(self) -> NoteListing:
        """Everything that was found until now."""
        return NoteListing(
            notes=tuple(self._notes.values()),
            skipped=tuple(self.skipped),
            unreadable=tuple(self.unreadable),
        )

    def visit(self, path: Path, pattern: tuple[str, ...] = (), *, is_required: bool) -> None:
        """Adds the file at `path`, or what lies in the folder of that path and matches `pattern`."""
        try:
            info = path.lstat()
        except FileNotFoundError:
            if is_required:
                self.skip(path, "missing")
                # An extra path that is gone may be an unmounted drive: what was indexed from it stays.
                self._keep(path)
            return
        except OSError as error:
            self._unread(path, error)
            return
        if stat.S_ISLNK(info.st_mode):
            self.skip(path, _SYMLINK)
        elif pattern:
            if not self._folder(path, pattern):
                self.skip(path.joinpath(*pattern), "the pattern matches nothing")
        elif stat.S_ISDIR(info.st_mode):
            self._folder(path, ())
        elif not stat.S_ISREG(info.st_mode):
            self.skip(path, "not a regular file")
        elif is_markdown(path.name):
            self._add(os.fspath(path), note_marks(info))
        elif is_required:
            self.skip(path, "not a Markdown file (.md)")

    def skip(self, path: Path | str, reason: str) -> None:
        """Tells that something was passed over."""
        # A name that is not Unicode must not break whoever prints it.
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        self.skipped.append(SkippedPath(path=shown, reason=reason))

    def _folder(self, folder: Path, pattern: tuple[str, ...]) -> int:
        """Adds the notes below a folder, with a pattern only those it covers; how many there were."""
        count, prefix_chars = 0, len(os.path.join(folder, ""))  # noqa: PTH118 - a Path drops the separator

        def fits(path: str, *, whole: bool) -> bool:
            return not pattern or matches(Path(path[prefix_chars:]).parts, pattern, whole=whole)

        # Not by recursion: folders may be nested deeper than Python calls functions.
        open_folders = [iter(self._entries(os.fspath(folder)))]
        while open_folders:
            entry = next(open_folders[-1], None)
            if entry is None:
                open_folders.pop()
                continue
            try:
                if entry.is_symlink():
                    if not pattern:
                        self.skip(entry.path, _SYMLINK)
                elif entry.is_dir(follow_symlinks=False):
                    if not fits(entry.path, whole=False):
                        continue
                    if entry.name in IGNORED_FOLDERS:
                        self.skip(entry.path, "a folder of tools, not of notes")
                    else:
                        open_folders.append(iter(self._entries(entry.path)))
                elif is_markdown(entry.name) and fits(entry.path, whole=True):
                    count += 1
                    if entry.is_file(follow_symlinks=False):
                        self._add(entry.path, note_marks(entry.stat(follow_symlinks=False)))
                    else:
                        self.skip(entry.path, "not a regular file")
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unread(entry.path, error)
        return count

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._unread(folder, error)
            return []

    def _add(self, path: str, marks: NoteMarks) -> None:
        name = self._name_of(path)
        try:
            name.encode()
        except UnicodeEncodeError:  # some systems allow such names
            self.skip(path, "its name is not Unicode; rename it")
            return
        # One file under two names (a case-folding file system, overlapping extra paths) is one file. On some
        # systems listing a folder tells no inode.
        key = (marks.device, marks.inode) if marks.inode else os.path.normcase(path)
        if key not in self._notes:
            self._notes[key] = FoundNote(name=name, marks=marks)

    def _unread(self, path: Path | str, error: OSError) -> None:
        self.skip(path, f"not readable ({error.strerror or type(error).__name__})")
        self._keep(path)

    def _keep(self, path: Path | str) -> None:
        self.unreadable.append(self._name_of(os.fspath(path)))
