"""Which files are memory: MEMORY.md, memory.md, memory/**/*.md, chats/**/*.md and extra paths. Opens no file.

Symbolic links are never followed; whatever is passed over is listed with its reason. A folder that could
not be read is reported as such, so that nobody takes its files for deleted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nacre.memory.contracts.records import SkippedPath
from nacre.memory.files.extra_paths import ExtraPath, resolved_extra_paths

ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
CHATS_FOLDER = "chats"
"""Notes of chats that are not private: what others said, in a folder for each chat."""
NOTE_FOLDERS = (MEMORY_FOLDER, CHATS_FOLDER)
IGNORED_FOLDERS = frozenset(
    {".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__", ".obsidian", ".trash"}
)
_SYMLINK = "a symbolic link, which is never followed; name its target in extraPaths instead"


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """A file to index: its stored path, where it is, and what its directory entry said.

    `entry_changed_ns` is when anything about it changed last; `mtime_ns` programs may set as they like.
    """

    path: str
    absolute: Path
    size: int
    mtime_ns: int
    entry_changed_ns: int
    inode: int


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """What a walk found. `unreadable` are stored paths of files and folders that could not be looked into.

    `""` is the whole workspace. What lies below them must not count as deleted.
    """

    files: tuple[FoundFile, ...]
    skipped: tuple[SkippedPath, ...]
    unreadable: tuple[str, ...]

    def may_be_deleted(self, path: str) -> bool:
        """Whether the walk is proof that the file at this stored path is gone."""
        return not any(place in ("", path) or path.startswith(place + "/") for place in self.unreadable)


NOTHING = Discovery(files=(), skipped=(), unreadable=())


@dataclass
class _Walk:
    workspace: Path
    files: dict[tuple[int, int] | str, FoundFile] = field(default_factory=dict)
    skipped: list[SkippedPath] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, absolute: Path, info: os.stat_result) -> None:
        path = stored_path(self.workspace, absolute)
        try:
            path.encode()
        except UnicodeEncodeError:  # some systems allow such names
            self.skip(absolute, "its name is not Unicode; rename it")
            return
        # One file under two names (a case-folding file system, overlapping extra paths) is one file. On some
        # systems listing a folder tells no inode.
        key = (info.st_dev, info.st_ino) if info.st_ino else os.path.normcase(absolute)
        if key in self.files:
            return
        self.files[key] = FoundFile(
            path=path,
            absolute=absolute,
            size=info.st_size,
            mtime_ns=info.st_mtime_ns,
            entry_changed_ns=info.st_ctime_ns,
            inode=info.st_ino,
        )

    def skip(self, absolute: Path | str, reason: str) -> None:
        # A name that is not Unicode must not break whoever prints it.
        shown = os.fsencode(absolute).decode("utf-8", "backslashreplace")
        self.skipped.append(SkippedPath(path=shown, reason=reason))

    def missing(self, absolute: Path) -> None:
        self.skip(absolute, "missing")
        # An extra path that is gone may be an unmounted drive: what was indexed from it stays.
        self.keep(absolute)

    def unread(self, absolute: Path, error: OSError) -> None:
        self.skip(absolute, f"not readable ({error.strerror or type(error).__name__})")
        self.keep(absolute)

    def keep(self, absolute: Path) -> None:
        self.unreadable.append(stored_path(self.workspace, absolute))


def stored_path(workspace: Path, absolute: Path) -> str:
    """`absolute` relative to the workspace with `/`; `../…` for what lies outside."""
    text = os.fspath(absolute)
    prefix = os.fspath(workspace) + os.sep
    if text.startswith(prefix):
        return text[len(prefix) :].replace(os.sep, "/")
    return os.path.relpath(absolute, workspace).replace(os.sep, "/")


def discover(workspace: Path, extra_paths: Sequence[str] = ()) -> Discovery:
    """All memory files of a workspace, in a fixed order. Never raises for what it cannot read."""
    root = Path(os.path.realpath(workspace))
    walk = _Walk(workspace=root)
    try:
        entries = os.listdir(root)  # noqa: PTH208 - names are enough, and the call proves that the folder is readable
    except OSError as error:
        walk.skip(root, f"the workspace is not readable ({error.strerror or type(error).__name__})")
        return Discovery(files=(), skipped=tuple(walk.skipped), unreadable=("",))
    if not entries:
        # An empty workspace is what an unmounted drive looks like.
        walk.unreadable.append("")
    for name in ROOT_FILES:
        if name in entries:
            _visit(walk, root / name, required=False)
    for folder in NOTE_FOLDERS:
        if folder in entries:
            _visit(walk, root / folder, required=False)
    for extra in resolved_extra_paths(root, extra_paths):
        _visit_extra(walk, extra)
    return Discovery(
        files=tuple(walk.files.values()), skipped=tuple(walk.skipped), unreadable=tuple(walk.unreadable)
    )


def is_markdown(name: str) -> bool:
    """Whether a file name is that of a memory file."""
    return name.endswith(".md") or name[-3:].lower() == ".md"


def _visit_extra(walk: _Walk, extra: ExtraPath) -> None:
    if not extra.pattern:
        _visit(walk, extra.folder, required=True)
        return
    info = _looked_at(walk, extra.folder, required=True)
    if info is None:
        return
    if stat.S_ISLNK(info.st_mode):
        walk.skip(extra.folder, _SYMLINK)
    elif not _walk_folder(walk, extra.folder, extra):
        walk.skip(str(extra), "the pattern matches nothing")


def _looked_at(walk: _Walk, path: Path, *, required: bool) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        if required:
            walk.missing(path)
    except OSError as error:
        walk.unread(path, error)
    return None


def _visit(walk: _Walk, path: Path, *, required: bool) -> None:
    info = _looked_at(walk, path, required=required)
    if info is None:
        return
    if stat.S_ISLNK(info.st_mode):
        walk.skip(path, _SYMLINK)
    elif stat.S_ISDIR(info.st_mode):
        _walk_folder(walk, path)
    elif not stat.S_ISREG(info.st_mode):
        walk.skip(path, "not a regular file")
    elif is_markdown(path.name):
        walk.add(path, info)
    elif required:
        walk.skip(path, "not a Markdown file (.md)")


def _walk_folder(walk: _Walk, folder: Path, wanted: ExtraPath | None = None) -> int:
    """Adds the Markdown files below a folder, of a pattern only those it covers; how many there were."""
    count = 0
    # Not by recursion: folders may be nested deeper than Python calls functions.
    open_folders = [iter(_sorted_entries(walk, folder))]
    while open_folders:
        entry = next(open_folders[-1], None)
        if entry is None:
            open_folders.pop()
            continue
        try:
            if entry.is_symlink():
                if wanted is None:
                    walk.skip(entry.path, _SYMLINK)
            elif entry.is_dir(follow_symlinks=False):
                if wanted is not None and not wanted.leads_to(Path(entry.path)):
                    continue
                if entry.name in IGNORED_FOLDERS:
                    walk.skip(entry.path, "a folder of tools, not of notes")
                else:
                    open_folders.append(iter(_sorted_entries(walk, Path(entry.path))))
            elif is_markdown(entry.name) and (wanted is None or wanted.covers(Path(entry.path))):
                count += 1
                if entry.is_file(follow_symlinks=False):
                    walk.add(Path(entry.path), entry.stat(follow_symlinks=False))
                else:
                    walk.skip(entry.path, "not a regular file")
        except FileNotFoundError:
            continue
        except OSError as error:
            walk.unread(Path(entry.path), error)
    return count


def _sorted_entries(walk: _Walk, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        walk.unread(folder, error)
        return []
