"""Identities: their pages, who may see whose facts, and which identity a chat is about."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import field

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.notes import WantedNotes
from nacre.memory.workspace.paths import DEVICE_NAME
from nacre.record import Record
from nacre.runtime.settings.sections.memory import FactsSettings, IdentitySettings
from nacre.runtime.tools.function import ToolChat
from nacre.sessions.contracts.keys import folded_id

OWNERS_PAGE = "memory/facts.md"
"""The owner's page, which every search of the owner includes."""

PEOPLE_FOLDER = "people"
"""The pages of all other identities. Only a recall for an identity that may see one reads it."""

FACT_PAGES = (WantedNotes(name=OWNERS_PAGE), WantedNotes(name=PEOPLE_FOLDER, pattern=("*", "facts.md")))
"""All pages of facts, as an index asks for them."""

MAX_NAME_CHARS = 100
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_@+-]{0,63}")
_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{16}$")
_NO_NAME = re.compile(r"[^a-z0-9_-]+")


class Identities(Record):
    """The owner and the rules by which identities share facts. Without a rule nothing is shared.

    Who may write another's facts may read them, too.
    """

    owner: str = "owner"
    sharing: Mapping[str, IdentitySettings] = field(default_factory=dict[str, IdentitySettings])

    def named(self, identity: str) -> str:
        """An identity in its normalized spelling.

        Raises:
            FactRefused: it cannot be a name.
        """
        name = " ".join(unicodedata.normalize("NFC", identity).split()).casefold()
        if not name or len(name) > MAX_NAME_CHARS or not name.isprintable() or "/" in name:
            raise FactRefused(
                f"{identity[:60]!r} cannot be an identity. It is a name such as anna or household, of "
                f"{MAX_NAME_CHARS} characters at most and without a slash."
            )
        return name

    def page_of(self, identity: str) -> str:
        """The page of an identity, as a name in the workspace. Raises the same error as `named`."""
        name = self.named(identity)
        if name == self.named(self.owner):
            return OWNERS_PAGE
        return f"{PEOPLE_FOLDER}/{_folder_name(name)}/facts.md"

    def seen_by(self, identity: str) -> tuple[str, ...]:
        """An identity and those whose facts it may see."""
        name, rule = self.named(identity), self._rule(identity)
        return tuple(dict.fromkeys((name, *map(self.named, (*rule.reads, *rule.writes)))))

    def may_write(self, identity: str, other: str) -> bool:
        """Whether one identity may change the facts of another."""
        others = (identity, *self._rule(identity).writes)
        return self.named(other) in map(self.named, others)

    def _rule(self, identity: str) -> IdentitySettings:
        name = self.named(identity)
        found = (rule for each, rule in self.sharing.items() if self.named(each) == name)
        return next(found, IdentitySettings())


def _folder_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and not (_LIKE_A_DIGEST.search(name) or DEVICE_NAME.fullmatch(name)):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{_NO_NAME.sub('-', name).strip('-')[:40]}-{digest}".lstrip("-")


def identities_of(settings: FactsSettings) -> Identities:
    """The identities and rules of the settings."""
    return Identities(owner=settings.owner.strip() or "owner", sharing=settings.identities)


def identity_of(chat: ToolChat, identities: Identities, linked: Iterable[str]) -> str:
    """The identity of a chat: the owner in private chats, or a person named in `session.identityLinks`.

    Every other chat is an identity of its own, with a name that no person can have. A link from a chat that
    is not private to the owner's name has no effect.
    """
    if chat.policy.is_private:
        return identities.owner
    if chat.policy.chat_kind == "direct":
        _, _, peer = chat.session_key.rpartition(":dm:")
        names = {folded_id(name) for name in linked} - {identities.named(identities.owner)}
        if peer in names:
            return peer
    return f"chat:{chat.policy.notes_folder.rpartition('/')[2]}"
