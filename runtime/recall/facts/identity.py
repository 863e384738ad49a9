"""Whose facts a chat is about: one identity for each chat, by its policy and its key. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.memory.files.facts.records import Identities, Sharing
from nacre.runtime.settings.sections.memory import FactsSettings
from nacre.runtime.tools.function import ToolChat
from nacre.sessions.contracts.keys import folded_id

_CHAT = "chat:"


def identities_of(settings: FactsSettings) -> Identities:
    """The rules that the owner set."""
    return Identities(
        owner=settings.owner.strip() or "owner",
        sharing={
            name: Sharing(reads=rule.reads, writes=rule.writes) for name, rule in settings.identities.items()
        },
    )


def identity_of(chat: ToolChat, identities: Identities, linked: Iterable[str]) -> str:
    """The identity of a chat: the owner's in private, a person's where `session.identityLinks` names them.

    Every other chat is an identity of its own, which nobody's name can be. That the owner's name is linked to
    a chat which is not private gives that chat nothing of the owner's.
    """
    if chat.policy.is_private:
        return identities.owner
    if chat.policy.chat_kind == "direct":
        _, _, peer = chat.session_key.rpartition(":dm:")
        names = {folded_id(name) for name in linked} - {identities.named(identities.owner)}
        if peer in names:
            return peer
    return f"{_CHAT}{chat.policy.notes_folder.rpartition('/')[2]}"
