"""Which files are memory: MEMORY.md, memory.md, memory/**/*.md and the extra paths. Opens no file.

Symbolic links are never followed; whatever is passed over is listed with its reason. A folder that could
not be read is reported as such, so that nobody takes its files for deleted.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nacre.memory.records import SkippedPath

ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
IGNORED_FOLDERS = frozenset(
    {".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__", ".obsidian", ".trash"}
)
_SYMLINK = "a symbolic link, which is never followed; name its target in extraPaths instead"


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """A file to index: its stored path, where it is, and what its directory entry said."""

    path: str
    absolute: Path
    size: int
    mtime_ns: int
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
    files: dict[tuple[int, int], FoundFile] = field(default_factory=dict)
    skipped: list[SkippedPath] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, absolute: Path, info: os.stat_result) -> None:
        # One file under two names (a case-folding file system, overlapping extra paths) is one file.
        key = (info.st_dev, info.st_ino)
        if key in self.files:
            return
        self.files[key] = FoundFile(
            path=stored_path(self.workspace, absolute),
            absolute=absolute,
            size=info.st_size,
            mtime_ns=info.st_mtime_ns,
            inode=info.st_ino,
        )

    def skip(self, absolute: Path | str, reason: str) -> None:
        self.skipped.append(SkippedPath(path=str(absolute), reason=reason))

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


def resolved_extra_paths(workspace: Path, extra_paths: Sequence[str]) -> tuple[Path, ...]:
    """The extra paths as absolute paths or glob patterns: normalised, each once, in order."""
    seen: dict[Path, None] = {}
    for text in extra_paths:
        if not text.strip():
            continue
        seen.setdefault(Path(os.path.normpath(workspace / text.strip())))
    return tuple(seen)


def fixed_part(pattern: Path) -> Path:
    """The folder above the first wildcard of a pattern; a plain path is its own."""
    for parent in (pattern, *pattern.parents):
        if not glob.has_magic(str(parent)):
            return parent
    return pattern


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
    if MEMORY_FOLDER in entries:
        _visit(walk, root / MEMORY_FOLDER, required=False)
    for path in resolved_extra_paths(root, extra_paths):
        _visit_extra(walk, path)
    return Discovery(
        files=tuple(walk.files.values()), skipped=tuple(walk.skipped), unreadable=tuple(walk.unreadable)
    )


def is_markdown(name: str) -> bool:
    """Whether a file name is that of a memory file."""
    return name.endswith(".md") or name[-3:].lower() == ".md"


def _visit_extra(walk: _Walk, path: Path) -> None:
    if not glob.has_magic(str(path)):
        _visit(walk, path, required=True)
        return
    matches = sorted(glob.glob(str(path), recursive=True, include_hidden=False))  # noqa: PTH207 - absolute pattern
    if not matches:
        walk.skip(path, "the pattern matches nothing")
    for match in matches:
        _visit(walk, Path(match), required=False, listed=False)


def _visit(walk: _Walk, path: Path, *, required: bool, listed: bool = True) -> None:
    try:
        info = path.lstat()
    except FileNotFoundError:
        if required:
            walk.skip(path, "missing")
            # An extra path that is gone may be an unmounted drive: what was indexed from it stays.
            walk.keep(path)
        return
    except OSError as error:
        walk.unread(path, error)
        return
    if stat.S_ISLNK(info.st_mode):
        if listed:
            walk.skip(path, _SYMLINK)
    elif stat.S_ISDIR(info.st_mode):
        _walk_folder(walk, path)
    elif not stat.S_ISREG(info.st_mode):
        walk.skip(path, "not a regular file")
    elif is_markdown(path.name):
        walk.add(path, info)
    elif required:
        walk.skip(path, "not a Markdown file (.md)")


def _walk_folder(walk: _Walk, folder: Path) -> None:
    for entry in _sorted_entries(walk, folder):
        try:
            if entry.is_symlink():
                walk.skip(entry.path, _SYMLINK)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name in IGNORED_FOLDERS:
                    walk.skip(entry.path, "a folder of tools, not of notes")
                else:
                    _walk_folder(walk, Path(entry.path))
            elif is_markdown(entry.name):
                if entry.is_file(follow_symlinks=False):
                    walk.add(Path(entry.path), entry.stat(follow_symlinks=False))
                else:
                    walk.skip(entry.path, "not a regular file")
        except FileNotFoundError:
            continue
        except OSError as error:
            walk.unread(Path(entry.path), error)


def _sorted_entries(walk: _Walk, folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        walk.unread(folder, error)
