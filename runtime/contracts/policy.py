"""Who may see what: one pure object that files, search and tools ask.

It never touches a disk. It says yes only to what it can prove: a chat of unknown kind, an unknown
sender or a session that others can read all count as a group.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

Audience: TypeAlias = Literal["private", "direct", "group"]
"""`private` is the owner alone, `direct` a chat with somebody else, `group` every other chat."""

SHARED_FOLDER = "shared"
"""What a group may read and write lives in this folder of the workspace."""

_GROUP_FILES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
_PRIVATE_FILES = (*_GROUP_FILES, "USER.md", "MEMORY.md")


@dataclass(frozen=True, kw_only=True)
class ChatPolicy:
    """What one chat may see and change.

    `chat_kind` is the inbound message's word; `session_key_is_private` says that the session's key
    was derived for a direct chat and that nobody else's messages end up in it. Paths are relative
    to the workspace, real (symlinks resolved), with forward slashes.
    """

    chat_kind: str
    is_owner: bool
    session_key_is_private: bool

    @property
    def is_private(self) -> bool:
        """Whether this is the owner alone: a direct chat, the owner's, in a private session."""
        return self.chat_kind == "direct" and self.is_owner is True and self.session_key_is_private is True

    @property
    def audience(self) -> Audience:
        """Who hears what is said in this chat."""
        if self.is_private:
            return "private"
        return "direct" if self.chat_kind == "direct" else "group"

    @property
    def offers_memory_tools(self) -> bool:
        return self.is_private

    @property
    def loads_daily_logs(self) -> bool:
        """Whether logs and notes of the last days are recalled at the start of a session."""
        return self.is_private

    def context_files(self) -> tuple[str, ...]:
        """The workspace files that stand in the system prompt, the most stable first."""
        return _PRIVATE_FILES if self.is_private else _GROUP_FILES

    def may_read(self, relative: PurePosixPath) -> bool:
        """Whether a file, or a folder's listing, may be shown in this chat."""
        if not _is_plain(relative):
            return False
        return self.is_private or str(relative) in _GROUP_FILES or _is_shared(relative)

    def may_write(self, relative: PurePosixPath) -> bool:
        """Whether this chat may make or change the file.

        Folders whose name begins with a dot belong to programs (`.git` runs hooks), so no chat
        writes into them.
        """
        if not _is_plain(relative) or not relative.parts or _is_hidden(relative):
            return False
        return self.is_private or (_is_shared(relative) and len(relative.parts) > 1)


# Permission needs the exact name, so that no alias of a private file can borrow it; refusal folds
# case and Unicode forms, because some file systems open `.GIT` and `.git` alike.


def _is_plain(relative: PurePosixPath) -> bool:
    return not relative.is_absolute() and ".." not in relative.parts and "\0" not in str(relative)


def _is_shared(relative: PurePosixPath) -> bool:
    return relative.parts[:1] == (SHARED_FOLDER,)


def _is_hidden(relative: PurePosixPath) -> bool:
    folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in relative.parts)
    return any(part.startswith(".") for part in folded[:-1]) or folded[-1] == ".git"
