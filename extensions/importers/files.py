"""The files of a source: in a folder, or in an untrusted zip archive.

An archive is never unpacked to disk, and no name in it is used as a path.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from nacre.extensions.importers.sources.pieces import Files
from nacre.runtime.contracts.errors import ConfigError

MOST_FILES = 200_000
MOST_BYTES = 32 << 30
"""A larger archive, measured unpacked, is refused."""
_PROGRAM_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".cache", "hermes-agent"}
)
"""Folders that programs fill; `hermes-agent` is Hermes's own code."""


def open_source(path: Path) -> Files:
    """The files of a folder or of a zip archive.

    Raises:
        ConfigError: there is nothing readable at `path`.
    """
    if path.is_dir():
        return FolderFiles(path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist. Name the folder or the archive to import from.")
    return ZipFiles(path)


class FolderFiles:
    """The regular files below a folder, without following links.

    `beside` replaces folders at the top by others, which may be anywhere: only the owner names one outside
    `root`.
    """

    def __init__(self, root: Path, *, replacements: Mapping[str, Path] | None = None) -> None:
        replacements = replacements or {}
        self._found: dict[str, Path] = {}
        self.left_out: list[tuple[str, str]] = []
        for name, path in self._walk(root, ""):
            if name.partition("/")[0] not in replacements:
                self._found[name] = path
        for above, folder in replacements.items():
            self._found.update(self._walk(folder, f"{above}/"))
        self._names = tuple(sorted(self._found))

    def names(self) -> tuple[str, ...]:
        return self._names

    def size_bytes(self, name: str) -> int:
        return self._found[name].stat().st_size

    def open_file(self, name: str) -> IO[bytes]:
        return self._found[name].open("rb")

    def path(self, name: str) -> Path | None:
        return self._found[name]

    def _walk(self, folder: Path, above: str) -> Iterator[tuple[str, Path]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.left_out.append((above or str(folder), f"the folder cannot be read: {error.strerror}"))
            return
        for entry in entries:
            name = f"{above}{entry.name}"
            if entry.is_symlink():
                self.left_out.append((name, "it is a link, and links are not followed"))
            elif entry.is_dir():
                if entry.name in _PROGRAM_FOLDERS:
                    self.left_out.append((f"{name}/", "it is filled by programs"))
                else:
                    yield from self._walk(Path(entry.path), f"{name}/")
            elif entry.is_file():
                yield name, Path(entry.path)
            else:
                self.left_out.append((name, "it is not a regular file"))


class ZipFiles:
    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigError(
                f"{path} is neither a folder nor a zip archive: {error}. Was the download complete?"
            ) from error
        members = [member for member in self._zip.infolist() if not member.is_dir()]
        if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
            raise ConfigError(
                f"{path} has more than {MOST_FILES} files or {MOST_BYTES >> 30} GB. "
                "If you trust it, unpack it yourself and name the folder."
            )
        self.left_out: list[tuple[str, str]] = []
        self._found: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            if reason := self._refused(member):
                self.left_out.append((member.filename, reason))
            else:
                self._found[member.filename] = member
        self._names = tuple(sorted(self._found))

    def names(self) -> tuple[str, ...]:
        return self._names

    def size_bytes(self, name: str) -> int:
        return self._found[name].file_size

    def open_file(self, name: str) -> IO[bytes]:
        return self._zip.open(self._found[name])

    def path(self, _name: str) -> Path | None:
        return None

    def _refused(self, member: zipfile.ZipInfo) -> str:
        name = PurePosixPath(member.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in name.parts[0]:
            return "its name leads outside the archive"
        if member.filename in self._found:
            return "the archive contains another file with that name"
        if stat.S_ISLNK(member.external_attr >> 16):
            return "it is a link, and links are not followed"
        if member.flag_bits & 1:
            return "it is encrypted"
        return ""
