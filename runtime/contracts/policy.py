"""The policy for files, search and tools in a chat. It reads no file.

A chat of unknown kind, an unknown sender and a session that others can read all count as a group.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from nacre.memory.contracts.notes import CHATS_FOLDER
from nacre.record import Record

Audience: TypeAlias = Literal["private", "direct", "group"]
"""`private` is the owner alone, `direct` a chat with somebody else, `group` every other chat."""

WorkspaceAccess: TypeAlias = Literal["rw", "ro", "none"]
"""The access of a chat to the workspace: read and write, only read, or neither."""

SHARED_FOLDER = "shared"
"""The folder of the workspace that every chat may read. Only the owner may change it."""

_THREAD_WORDS = ("thread", "topic")
_DIGEST_CHARS = 16
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_@+-]{0,99}")
_LIKE_A_DIGEST = re.compile(rf"-[0-9a-f]{{{_DIGEST_CHARS}}}$")
_NO_NAME = re.compile(r"[^a-z0-9_-]+")
_GROUP_FILES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
_PRIVATE_FILES_WITHOUT_NOTES = (*_GROUP_FILES, "USER.md")
_PRIVATE_FILES = (*_PRIVATE_FILES_WITHOUT_NOTES, "MEMORY.md")


class ChatPolicy(Record):
    """The rights of one chat.

    `chat_kind` is the message's; `session_key_is_private` means that the session's key was derived for a
    direct chat and that nobody else's messages reach it. `notes_folder` is the chat's own folder, see
    `notes_folder_of`; without one, a chat that is not private has no notes. `access` is the most that the
    settings grant. Paths are relative to the workspace, with symlinks resolved and forward slashes.
    """

    chat_kind: str
    is_owner: bool
    session_key_is_private: bool
    notes_folder: str = ""
    access: WorkspaceAccess = "rw"

    @property
    def is_private(self) -> bool:
        """Whether this is the owner's direct chat in a private session."""
        return self.chat_kind == "direct" and self.is_owner is True and self.session_key_is_private is True

    @property
    def audience(self) -> Audience:
        if self.is_private:
            return "private"
        return "direct" if self.chat_kind == "direct" else "group"

    @property
    def listeners(self) -> str:
        """Who may see what is written here: `private` for the owner alone, or the folder of the chat."""
        return "private" if self.is_private else self.notes_folder

    @property
    def loads_daily_logs(self) -> bool:
        """Whether logs and notes of the last days are recalled at the start of a session."""
        return self.is_private and self.sees_notes

    @property
    def sees_notes(self) -> bool:
        """Whether this chat has files to read and a memory to search."""
        return self.access != "none"

    def context_files(self) -> tuple[str, ...]:
        """The workspace files in the system prompt, the most stable first. Without access to the workspace,
        the files about the assistant and the owner are still included.
        """
        if not self.is_private:
            return _GROUP_FILES
        return _PRIVATE_FILES if self.sees_notes else _PRIVATE_FILES_WITHOUT_NOTES

    def may_read(self, relative: PurePosixPath) -> bool:
        """Whether this chat may see a file or a folder's listing."""
        if not _is_plain(relative) or not self.sees_notes:
            return False
        own = PurePosixPath(self.notes_folder).parts
        return (
            self.is_private
            or str(relative) in _GROUP_FILES
            or relative.parts[:1] == (SHARED_FOLDER,)
            or (bool(own) and relative.parts[: len(own)] == own)
        )

    def may_write(self, relative: PurePosixPath) -> bool:
        """Whether this chat may create or change the file.

        No chat writes into folders whose name begins with a dot: they belong to programs (`.git` runs
        hooks). Only the owner may change what every chat may read.
        """
        if not _is_plain(relative) or not relative.parts or _is_hidden(relative):
            return False
        return any(
            not folder or (relative.is_relative_to(folder) and str(relative) != folder)
            for folder in self.writable_folders
        )

    @property
    def writable_folders(self) -> tuple[str, ...]:
        """The folders in which this chat may write; the empty name is the whole workspace."""
        if self.access != "rw":
            return ()
        if self.is_private:
            return ("",)
        shared = (SHARED_FOLDER,) if self.is_owner is True else ()
        return (*shared, self.notes_folder) if self.notes_folder else shared


def notes_folder_of(session_key: str) -> str:
    """The folder for the notes of a chat that is not private, such as `chats/telegram-group-7`.

    Topics of one chat share it. If the id cannot be a name on every file system, or could be mistaken for
    another chat's, a digest of the key is appended.
    """
    parts = session_key.split(":")
    rest = parts[2:] if parts[0] == "agent" else parts
    for place, part in enumerate(rest):
        if place and part in _THREAD_WORDS:
            rest = rest[:place]
            break
    name = "-".join(rest)
    is_plain = all("-" not in part for part in rest[:-1]) and _PLAIN_NAME.fullmatch(name)
    if not is_plain or _LIKE_A_DIGEST.search(name):
        digest = hashlib.sha256(":".join(rest).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        name = f"{_NO_NAME.sub('-', name.lower()).strip('-')[:60]}-{digest}"
    return f"{CHATS_FOLDER}/{name}"


def readers_of(path: str) -> str:
    """Who can read a note because of its path: `private`, `everybody`, or a chat's folder."""
    parts = PurePosixPath(path).parts
    if path in _GROUP_FILES or parts[:1] == (SHARED_FOLDER,):
        return "everybody"
    return "/".join(parts[:2]) if parts[:1] == (CHATS_FOLDER,) and len(parts) > 2 else "private"


# Permission needs the exact name, so that no alias of a private file can borrow it; refusal folds
# case and Unicode forms, because some file systems open `.GIT` and `.git` alike.


def _is_plain(relative: PurePosixPath) -> bool:
    return not relative.is_absolute() and ".." not in relative.parts and "\0" not in str(relative)


def _is_hidden(relative: PurePosixPath) -> bool:
    folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in relative.parts)
    return any(part.startswith(".") for part in folded[:-1]) or folded[-1] == ".git"
