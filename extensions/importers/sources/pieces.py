"""The pieces that a reader finds in the data of another program.

Each reader yields each thing of its source exactly once: as something to import, or as `Skipped` with a
reason. So the report can be checked against the source. `file` is the file of the source that contains a
piece.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.sessions.entries.entries import KnownBody

Kind: TypeAlias = Literal["files", "notes", "sessions", "messages", "attachments", "settings"]
KINDS: tuple[Kind, ...] = ("files", "notes", "sessions", "messages", "attachments", "settings")
"""`files` counts the files of the source; the other kinds count their contents."""

Origin: TypeAlias = Literal["openclaw", "hermes", "chatgpt", "claude"]


class Skipped(Record):
    """Something that is not imported. `reason` is a clause without a full stop, `name` says where it is.

    With the kind `files`, the file contains nothing else that counts.
    """

    kind: Kind
    name: str
    reason: str
    file: str
    count: int = 1


class ConversationEntry(Record):
    """One entry of a conversation, with the source's IDs; `at_ms` is milliseconds since the epoch.

    `message` is the message of the source that it comes from. If the parent is skipped, the parent's parent
    takes its place.
    """

    id: str
    parent_id: str | None
    at_ms: int
    body: KnownBody
    message: str


class Conversation(Record):
    """A conversation to convert to a transcript.

    `id` is the source's and determines the session's. `leaf_id` ends the branch that the source showed.
    `is_private` says that only the owner took part. `messages` counts the source's messages, of which
    `skipped` are not imported; `parents` maps each message to the one before it. `shows` names the files that
    are imported in it as pictures.
    """

    id: str
    title: str
    started_at_ms: int
    entries: Sequence[ConversationEntry]
    leaf_id: str | None
    messages: int
    file: str
    attachments: int = 0
    shows: Sequence[str] = ()
    skipped: Sequence[Skipped] = ()
    parents: Mapping[str, str | None] = field(default_factory=dict)
    is_private: bool = True
    is_group: bool = False
    cwd: str = ""


class StoredTranscript(Record):
    """A conversation that is already a transcript in pi's format.

    `name` is the name of its file, `data` its lines, `raw_record` its record in `sessions.json`, if any,
    under `key`.
    """

    session_id: str
    name: str
    data: bytes
    messages: int
    file: str
    skipped: Sequence[Skipped] = ()
    key: str = ""
    raw_record: Mapping[str, Any] | None = None


class Note(Record):
    """A text or another file for the workspace. `path` is relative to it.

    `is_owners` says that only the owner or their assistant wrote it.
    """

    path: str
    data: bytes
    file: str
    is_owners: bool = True


class Setting(Record):
    """A value whose key Nacre may have too."""

    key: tuple[str, ...]
    value: Any
    file: str


class Variable(Record):
    """A provider key from an environment file."""

    name: str
    secret: str = field(repr=False)
    file: str


Piece: TypeAlias = Skipped | Conversation | StoredTranscript | Note | Setting | Variable


class Files:
    """The files of a source, in a folder or in an archive; `left_out` are names that cannot be read safely,
    each with the reason."""

    def __init__(self) -> None:
        self.left_out: list[tuple[str, str]] = []
        self._found: dict[str, Any] = {}

    def names(self) -> tuple[str, ...]:
        """All regular files, sorted: relative paths with `/`."""
        return tuple(sorted(self._found))

    def size_bytes(self, name: str) -> int:
        raise NotImplementedError

    def open_file(self, name: str) -> IO[bytes]:
        raise NotImplementedError

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - only a folder has one
        """The path of a file; `None` in an archive."""
        return None


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


class FolderFiles(Files):
    """The regular files below a folder, without following links.

    `replacements` replace folders at the top. Only the owner names one that is outside `root`.
    """

    def __init__(self, root: Path, *, replacements: Mapping[str, Path] | None = None) -> None:
        super().__init__()
        replacements = replacements or {}
        for name, path in self._walk(root, ""):
            if name.partition("/")[0] not in replacements:
                self._found[name] = path
        for above, folder in replacements.items():
            self._found.update(self._walk(folder, f"{above}/"))

    def size_bytes(self, name: str) -> int:
        return self.path(name).stat().st_size

    def open_file(self, name: str) -> IO[bytes]:
        return self.path(name).open("rb")

    def path(self, name: str) -> Path:
        return Path(self._found[name])

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


class ZipFiles(Files):
    def __init__(self, path: Path) -> None:
        super().__init__()
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
        for member in members:
            if reason := self._refused(member):
                self.left_out.append((member.filename, reason))
            else:
                self._found[member.filename] = member

    def size_bytes(self, name: str) -> int:
        return int(self._found[name].file_size)

    def open_file(self, name: str) -> IO[bytes]:
        return self._zip.open(self._found[name])

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


Reader: TypeAlias = Callable[[Files], Iterator[Piece]]
"""Yields the pieces of a source, in the same order each time."""
