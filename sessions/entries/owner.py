"""Whose conversation a transcript is: the key, the kind of chat, and whether it is the owner's alone. Pure.

A contract: bytes on disk. One of the first entries tells it, so that a transcript that is found without
its index never shows a group, or anybody else, what its owner said in private.
"""

from __future__ import annotations

from nacre.sessions.entries.entries import CustomRecord, Entry
from nacre.sessions.entries.tree import EntryTree
from nacre.values.frozen import dataclass

SESSION_TYPE = "nacre.session"


@dataclass(frozen=True, kw_only=True)
class SessionOwner:
    """What a transcript says of its session; `None` is what it does not say in a readable way."""

    key: str | None
    chat_kind: str | None
    is_private: bool | None

    def to_record(self) -> CustomRecord:
        """The body of the entry that tells it."""
        data = {"key": self.key, "chatKind": self.chat_kind, "private": self.is_private}
        known = {name: value for name, value in data.items() if value is not None}
        return CustomRecord(custom_type=SESSION_TYPE, data=known)


def session_owner(entry: Entry) -> SessionOwner | None:
    """What an entry tells of its session's owner; `None` when it is an entry of another kind."""
    data = entry.custom_data(SESSION_TYPE)
    if data is None:
        return None
    key, kind, private = data.get("key"), data.get("chatKind"), data.get("private")
    return SessionOwner(
        key=key if isinstance(key, str) else None,
        chat_kind=kind if isinstance(kind, str) else None,
        is_private=private if isinstance(private, bool) else None,
    )


def begun_private(tree: EntryTree) -> bool | None:
    """Whether a session was begun by its owner in private; `None` when it does not say."""
    owners = map(session_owner, tree.customs(SESSION_TYPE))
    told = (owner.is_private for owner in owners if owner is not None)
    return next((is_private for is_private in told if is_private is not None), None)
