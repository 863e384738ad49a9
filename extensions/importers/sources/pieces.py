"""The pieces that a reader finds in the data of another program.

Each reader yields each thing of its source exactly once: as something to import, or as `Skipped` with a
reason. So the report can be checked against the source. `file` is the file of the source that contains a
piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from nacre.record import Record
from nacre.sessions.entries.entries import KnownBody

Kind: TypeAlias = Literal["files", "notes", "sessions", "messages", "attachments", "settings"]
KINDS: tuple[Kind, ...] = ("files", "notes", "sessions", "messages", "attachments", "settings")
"""`files` counts the files of the source; the other kinds count their contents."""

Origin: TypeAlias = Literal["openclaw", "hermes", "chatgpt", "claude"]
ORIGINS: tuple[Origin, ...] = ("openclaw", "hermes", "chatgpt", "claude")


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
        """The size of a file."""
        raise NotImplementedError

    def open_file(self, name: str) -> IO[bytes]:
        """Opens a file for reading."""
        raise NotImplementedError

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - only a folder has one
        """The path of a file; `None` in an archive."""
        return None


Reader: TypeAlias = Callable[[Files], Iterator[Piece]]
"""Yields the pieces of a source, in the same order each time."""
