"""`extraPaths`: folders, files and patterns that the owner named beside `memory/`, and their notes.

The workspace lists those inside of it. The others are places on this machine, wherever the workspace is, and
are only read. Patterns do not use `glob`, which follows links to folders, even in circles, and would read
their targets.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nacre.memory.contracts.notes import BANK_FOLDER, NoteBytes, NoteListing, NoteWatch, WantedNotes, matches
from nacre.memory.contracts.records import SkippedPath
from nacre.memory.contracts.workspace import PathOutsideRoot, ReadFailed
from nacre.memory.workspace.folder import Walk, note_bytes
from nacre.memory.workspace.paths import contained_path
from nacre.record import Record


class ExtraPath(Record):
    """An absolute place: `folder` is literal, and `pattern` matches below it.

    Without a pattern, `folder` is the whole path and may be a file.
    """

    folder: Path
    pattern: tuple[str, ...] = ()

    def __str__(self) -> str:
        return os.fspath(self.folder.joinpath(*self.pattern))

    def covers(self, path: Path) -> bool:
        """Whether the place includes the file at this path, by itself or through a folder above it."""
        parts = self._below(path)
        return parts is not None and matches(parts, self.pattern, whole=True)

    def leads_to(self, folder: Path) -> bool:
        """Whether the place may include something inside this folder."""
        parts = self._below(folder)
        return parts is not None and matches(parts, self.pattern, whole=False)

    def _below(self, path: Path) -> tuple[str, ...] | None:
        return path.parts[len(self.folder.parts) :] if path.is_relative_to(self.folder) else None


def resolved_extra_paths(workspace: Path, extra_paths: Sequence[str]) -> tuple[ExtraPath, ...]:
    """The extra paths as absolute, normalized places without repeats, in order. Checks which paths exist."""
    texts = (text.strip() for text in extra_paths)
    return tuple(dict.fromkeys(_resolved(workspace, text) for text in texts if text))


def _resolved(workspace: Path, text: str) -> ExtraPath:
    path = Path(os.path.normpath(workspace / text))
    for count, part in enumerate(path.parts, start=1):
        # A folder may be called `[old] notes`, so an existing path is not a pattern.
        if _has_magic(part) and not os.path.lexists(Path(*path.parts[:count])):
            return ExtraPath(folder=Path(*path.parts[: count - 1]), pattern=path.parts[count - 1 :])
    return ExtraPath(folder=path)


class ExtraPaths(Record):
    """The extra paths `inside` the workspace, which it lists, and those `outside` of it on this machine.

    `root` is the real folder of the workspace if it is on this machine.
    """

    root: Path | None
    inside: tuple[WantedNotes, ...]
    outside: ExtraNotes
    skipped: tuple[SkippedPath, ...]

    def name_of(self, text: str) -> str:
        """The note's name for a path relative to the workspace or absolute; `""` if it has none."""
        if "\x00" in text:
            return ""
        if self.root is None:
            return posixpath.normpath(text)
        path = Path(os.path.normpath(self.root / text))
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return _outer_name(path, self.root)


def extra_paths_of(folder: Path | None, extra_paths: Sequence[str]) -> ExtraPaths:
    """Sorts extra paths by whether they are in the workspace, which is at `folder` or, if `None`, in no
    folder."""
    root = Path(os.path.realpath(folder)) if folder else None
    inside, outside, skipped = list[WantedNotes](), list[ExtraPath](), list[SkippedPath]()
    for text in filter(None, (text.strip() for text in extra_paths)):
        if root is not None or os.path.isabs(text):  # noqa: PTH117 - a Path would say the same in more words
            place = _resolved(root or Path("/"), text)
            if root is not None and place.folder.is_relative_to(root):
                name = place.folder.relative_to(root).as_posix()
                inside.append(_wanted(name, place.pattern))
            else:
                outside.append(place)
        elif (parts := posixpath.normpath(text).split("/"))[0] == "..":
            skipped.append(
                SkippedPath(path=text, reason="the workspace is not a folder; write the full path")
            )
        else:
            count = next((at for at, part in enumerate(parts) if _has_magic(part)), len(parts))
            name = "/".join(parts[:count]) or "."
            inside.append(_wanted(name, tuple(parts[count:])))
    return ExtraPaths(
        root=root,
        inside=tuple(dict.fromkeys(inside)),
        outside=ExtraNotes(tuple(dict.fromkeys(outside)), root),
        skipped=tuple(skipped),
    )


def _wanted(name: str, pattern: tuple[str, ...]) -> WantedNotes:
    return WantedNotes(name=name, pattern=pattern, is_required=name != BANK_FOLDER)


class ExtraNotes:
    """The notes at `places` outside of the workspace. Async methods run on threads.

    A note's name is its path relative to the workspace's folder, such as `../team/plan.md`, or absolute if
    the workspace is not a folder of this machine.
    """

    def __init__(self, places: Sequence[ExtraPath], workspace: Path | None) -> None:
        self._places = tuple(places)
        self._workspace = workspace

    def __bool__(self) -> bool:
        return bool(self._places)

    async def list_notes(self) -> NoteListing:
        """Like `Workspace.list_notes`, for all places."""

        def listed() -> NoteListing:
            walk = Walk(self._name_of)
            for place in self._places:
                walk.visit(place.folder, place.pattern, is_required=True)
            return walk.listing()

        return await asyncio.to_thread(listed)

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        """Like `Workspace.read_notes`; a name outside of all places gives `PathOutsideRoot`."""
        return await asyncio.to_thread(lambda: {name: self._read(name) for name in names})

    def refuse_links(self, name: str) -> None:
        """Raises `PathOutsideRoot` for a note with a symbolic link below the place that includes it."""
        path = self._path(name)
        place = self._place_of(path)
        folder = place.folder.parent if path == place.folder else place.folder
        is_link = os.path.islink(folder)  # noqa: PTH114 - the method raises where a folder cannot be looked into
        relative = path.relative_to(folder)
        if (
            is_link
            or contained_path(folder, relative.as_posix()) != Path(os.path.realpath(folder)) / relative
        ):
            raise PathOutsideRoot("it goes through a symbolic link.")

    def has(self, name: str) -> bool:
        """Whether a note of this name would be in one of the places."""
        path = self._path(name)
        return any(place.covers(path) for place in self._places)

    def watch(self, changed: Callable[[], None]) -> NoteWatch:
        """Like `Workspace.watch`, for all places."""
        from nacre.memory.workspace.watcher import FolderWatch, concerns_notes, watch_plan

        folders = [place.folder for place in self._places]
        return FolderWatch(lambda: watch_plan(None, folders), lambda at: concerns_notes(at, folders), changed)

    def _read(self, name: str) -> NoteBytes | ReadFailed:
        try:
            path = self._path(name)
            self._place_of(path)
            return note_bytes(path)
        except (OSError, PathOutsideRoot) as error:
            return error

    def _place_of(self, path: Path) -> ExtraPath:
        found = next((place for place in self._places if place.covers(path)), None)
        if found is None:
            raise PathOutsideRoot(f"The path of {path.name!r} is not one of the extra paths.")
        return found

    def _path(self, name: str) -> Path:
        return Path(os.path.normpath(self._workspace / name if self._workspace else Path(name)))

    def _name_of(self, path: str) -> str:
        return _outer_name(path, self._workspace)


def _outer_name(path: str | Path, root: Path | None) -> str:
    return os.fspath(path if root is None else os.path.relpath(path, root)).replace(os.sep, "/")


def _has_magic(part: str) -> bool:
    from glob import has_magic

    return has_magic(part)
