"""`extraPaths`: folders, files and patterns that the owner named beside `memory/`, and the notes in there.

Those inside of the workspace are the workspace's to list. The others are places of this machine, whatever
holds the workspace, and are only read. Patterns are not left to `glob`, which follows links to folders, in
circles too, and would read what they lead to.
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
    """An absolute place. `folder` is the part that is meant as written, `pattern` what is matched below it.

    Without a pattern, `folder` is the whole path, and may be a file.
    """

    folder: Path
    pattern: tuple[str, ...] = ()

    def __str__(self) -> str:
        return os.fspath(self.folder.joinpath(*self.pattern))

    def covers(self, path: Path) -> bool:
        """Whether the file at this path is asked for: by itself, or because a folder above it is."""
        parts = self._below(path)
        return parts is not None and matches(parts, self.pattern, whole=True)

    def leads_to(self, folder: Path) -> bool:
        """Whether something that is asked for may lie inside this folder."""
        parts = self._below(folder)
        return parts is not None and matches(parts, self.pattern, whole=False)

    def _below(self, path: Path) -> tuple[str, ...] | None:
        return path.parts[len(self.folder.parts) :] if path.is_relative_to(self.folder) else None


def resolved_extra_paths(workspace: Path, extra_paths: Sequence[str]) -> tuple[ExtraPath, ...]:
    """The extra paths as absolute places: normalised, each once, in order. Looks what exists as written."""
    texts = (text.strip() for text in extra_paths)
    return tuple(dict.fromkeys(_resolved(workspace, text) for text in texts if text))


def _resolved(workspace: Path, text: str) -> ExtraPath:
    path = Path(os.path.normpath(workspace / text))
    for count, part in enumerate(path.parts, start=1):
        # A folder may be called `[old] notes`: what exists under that very name is no pattern.
        if _has_magic(part) and not os.path.lexists(Path(*path.parts[:count])):
            return ExtraPath(folder=Path(*path.parts[: count - 1]), pattern=path.parts[count - 1 :])
    return ExtraPath(folder=path)


class ExtraPaths(Record):
    """The extra paths of a workspace: `inside` are its own to list, `outside` lie elsewhere on this machine.

    `root` is the real folder of the workspace, if it is a folder of this machine.
    """

    root: Path | None
    inside: tuple[WantedNotes, ...]
    outside: ExtraNotes
    skipped: tuple[SkippedPath, ...]

    def name_of(self, text: str) -> str:
        """The name of the note that somebody calls `text`, from the workspace or absolute; `""` for none."""
        if "\x00" in text:
            return ""
        if self.root is None:
            return posixpath.normpath(text)
        path = Path(os.path.normpath(self.root / text))
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        return _outer_name(path, self.root)


def extra_paths_of(folder: Path | None, extra_paths: Sequence[str]) -> ExtraPaths:
    """Which extra paths lie in the workspace, which is at `folder` or, with `None`, in no folder."""
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
            skipped.append(SkippedPath(path=text, reason="the workspace is no folder; write the whole path"))
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
    """The notes at `places`, which lie outside of the workspace. Methods that wait run on threads.

    A note's name is its path relative to the folder of the workspace, `../team/plan.md`; where the workspace
    is no folder of this machine, it is the absolute path.
    """

    def __init__(self, places: Sequence[ExtraPath], workspace: Path | None) -> None:
        self._places = tuple(places)
        self._workspace = workspace

    def __bool__(self) -> bool:
        return bool(self._places)

    async def list_notes(self) -> NoteListing:
        """As `Workspace.list_notes`, for all places."""
        return await asyncio.to_thread(self._listed)

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        """As `Workspace.read_notes`; a name that lies in none of the places is outside of the root."""
        return await asyncio.to_thread(lambda: {name: self._read(name) for name in names})

    def refuse_links(self, name: str) -> None:
        """Raises `PathOutsideRoot` for a note with a symbolic link below the place that covers it."""
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
        """Whether a note of this name would lie in one of the places."""
        path = self._path(name)
        return any(place.covers(path) for place in self._places)

    def watch(self, changed: Callable[[], None]) -> NoteWatch:
        """As `Workspace.watch`, for all places."""
        from nacre.memory.workspace.watcher import FolderWatch, concerns_notes, watch_plan

        folders = [place.folder for place in self._places]
        return FolderWatch(lambda: watch_plan(None, folders), concerns_notes, changed)

    def _listed(self) -> NoteListing:
        walk = Walk(self._name_of)
        for place in self._places:
            walk.visit(place.folder, place.pattern, is_required=True)
        return walk.listing()

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
            raise PathOutsideRoot(f"The path of {path.name!r} is none of the extra paths.")
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
