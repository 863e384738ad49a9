"""Where a memory comes from: who said it, in which chat, what wrote it down, and who may be told it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from nacre.record import Record

Speaker: TypeAlias = Literal["owner", "assistant", "others", "tool", "unknown"]
"""Whose words: the owner's, the assistant's, other people's, what a tool gave (a web page), nobody knows."""

Writer: TypeAlias = Literal["flush", "tool", "hook", "capture", "reflection", "import", "code", "hand"]
"""What wrote it down. `code` is a program that Nacre is a part of, outside of any chat; `hand` is the owner,
and everything of which no source was kept."""

Audience: TypeAlias = str
"""Who may be told: `PRIVATE`, `EVERYBODY`, or the folder of a chat, such as `chats/telegram-group-7`, which
means the people of that chat. The owner may be told everything."""

PRIVATE: Audience = "private"
EVERYBODY: Audience = "everybody"

_OF_THE_OWNER: frozenset[Speaker] = frozenset({"owner", "assistant"})


class Source(Record):
    """Where one line, fact or row comes from.

    `said_by` are all who may have said it; `names` say who exactly, as far as that is known: ids of people,
    names of tools. `entry_ids` are entries of the session's transcript: the one that says it, or the first
    and the last of those that it was made of. `chat` is the chat in words, `at` an ISO time with its zone.
    """

    written_by: Writer
    audience: Audience
    said_by: tuple[Speaker, ...] = ("unknown",)
    names: tuple[str, ...] = ()
    session_key: str = ""
    session_id: str = ""
    entry_ids: tuple[str, ...] = ()
    chat: str = ""
    at: str = ""

    @property
    def is_owners_word(self) -> bool:
        """Whether the owner and their assistant alone have said it; what nobody knows is not."""
        return bool(self.said_by) and _OF_THE_OWNER.issuperset(self.said_by)

    @property
    def is_by_owner(self) -> bool:
        """Whether the owner wrote it down, or accepted it word for word."""
        return self.written_by == "hand" and self.said_by == ("owner",)


def narrowest(audiences: Iterable[Audience]) -> Audience:
    """Who may be told what was made of texts with these audiences: whoever may be told each of them.

    Two chats have nobody but the owner in common. Of nothing at all nobody knows, so it is private.
    """
    found = set(audiences)
    if found == {EVERYBODY}:
        return EVERYBODY
    found.discard(EVERYBODY)
    return found.pop() if len(found) == 1 else PRIVATE


def may_hear(listeners: Audience, audience: Audience) -> bool:
    """Whether a chat with these listeners may be told what has this audience."""
    return audience == EVERYBODY or listeners in (PRIVATE, audience)
