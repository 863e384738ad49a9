"""What a reader finds in the data of another program, piece by piece. A contract between rooms; values only.

Each reader gives each thing of its source once: as something to carry, or as `Skipped` with a reason. So what
was carried and what was not can be held against the source. `file` is the file of the source that a piece
stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypeAlias

from nacre.record import Record
from nacre.sessions.entries.entries import KnownBody

Kind: TypeAlias = Literal["files", "notes", "sessions", "messages", "attachments", "settings"]
KINDS: tuple[Kind, ...] = ("files", "notes", "sessions", "messages", "attachments", "settings")
"""`files` are those of the source, whatever they hold; the others are what stands in them."""

Origin: TypeAlias = Literal["openclaw", "hermes", "chatgpt", "claude"]
ORIGINS: tuple[Origin, ...] = ("openclaw", "hermes", "chatgpt", "claude")


class Skipped(Record):
    """What is not carried, and why: a clause without a full stop. `name` says where it stands.

    Of the kind `files` it says that a file holds nothing else that counts.
    """

    kind: Kind
    name: str
    reason: str
    file: str
    count: int = 1


class Said(Record):
    """One entry of a conversation under the source's own ids; `at_ms` is milliseconds since the epoch.

    `message` is the message of the source that it comes from. A parent that was skipped is followed to its
    own parent.
    """

    id: str
    parent_id: str | None
    at_ms: int
    body: KnownBody
    message: str


class Conversation(Record):
    """A conversation that a transcript is to be made of.

    `id` is the source's and makes the session's: the same one twice is one session. `leaf_id` ends the branch
    that the source showed. `is_private` where nobody but the owner spoke. `messages` counts the source's own,
    of which `skipped` are not carried; `parents` leads from each message to the one before it. `shows` names
    the files of the source that are carried in it as pictures.
    """

    id: str
    title: str
    began_ms: int
    said: Sequence[Said]
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


class Kept(Record):
    """A conversation that is a transcript of pi's format already.

    `name` is what its file is called, `data` are its whole lines, `raw_record` its line in `sessions.json`
    where it has one, under `key`.
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
    """A text, or another file, for the workspace. `path` is relative to it.

    `is_owners` where the owner or their assistant wrote it, and nobody else.
    """

    path: str
    data: bytes
    file: str
    is_owners: bool = True


class Setting(Record):
    """A value under a key that Nacre may have as well."""

    key: tuple[str, ...]
    value: Any
    file: str


class Variable(Record):
    """A key of a provider, as an environment file has it."""

    name: str
    secret: str = field(repr=False)
    file: str


Piece: TypeAlias = Skipped | Conversation | Kept | Note | Setting | Variable


class Files(Protocol):
    """The files of a source, in a folder or in an archive."""

    @property
    def left_out(self) -> Sequence[tuple[str, str]]:
        """Names that cannot be read safely, each with the reason."""

    def names(self) -> tuple[str, ...]:
        """All regular files, relative, with `/`, sorted."""

    def size_bytes(self, name: str) -> int:
        """How long a file is."""

    def opened(self, name: str) -> IO[bytes]:
        """A file to read from its beginning."""

    def path(self, name: str) -> Path | None:
        """Where a file lies; `None` in an archive."""


Reader: TypeAlias = Callable[[Files], Iterator[Piece]]
"""Gives the pieces of a source, in an order that is the same each time."""
