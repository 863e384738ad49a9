"""Whose facts there are, on which page each one's stand, and who may see whose. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.notes import WantedNotes
from nacre.record import Record

OWNERS_PAGE = "memory/facts.md"
"""The owner's own page is one of the notes that every search of the owner's looks into."""

PEOPLE_FOLDER = "people"
"""The pages of all others; no search looks there but that of an identity which may."""

FACT_PAGES = (WantedNotes(name=OWNERS_PAGE), WantedNotes(name=PEOPLE_FOLDER, pattern=("*", "facts.md")))
"""All pages of facts, as an index asks for them."""

MAX_NAME_CHARS = 100
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_@+-]{0,63}")
_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{16}$")
_NO_NAME = re.compile(r"[^a-z0-9_-]+")


class Sharing(Record):
    """What one identity may do with others: `reads` and `writes` name them. Who writes may also read."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class Identities(Record):
    """Who the owner is, and the rules by which identities share. Nothing is shared unless one says so."""

    owner: str = "owner"
    sharing: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])

    def named(self, identity: str) -> str:
        """An identity in its one spelling.

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
        """The page of an identity, as a name in the workspace. Raises as `named`."""
        name = self.named(identity)
        if name == self.named(self.owner):
            return OWNERS_PAGE
        return f"{PEOPLE_FOLDER}/{_folder_name(name)}/facts.md"

    def seen_by(self, identity: str) -> tuple[str, ...]:
        """An identity, and those whose facts it may see."""
        name, rule = self.named(identity), self._rule(identity)
        return tuple(dict.fromkeys((name, *map(self.named, (*rule.reads, *rule.writes)))))

    def may_write(self, identity: str, other: str) -> bool:
        """Whether one identity may change the facts of another one."""
        others = (identity, *self._rule(identity).writes)
        return self.named(other) in map(self.named, others)

    def _rule(self, identity: str) -> Sharing:
        name = self.named(identity)
        found: Sequence[Sharing] = [rule for each, rule in self.sharing.items() if self.named(each) == name]
        return found[0] if found else Sharing()


def _folder_name(name: str) -> str:
    """A folder that no other identity has, on any file system."""
    if _PLAIN_NAME.fullmatch(name) and not _LIKE_A_DIGEST.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{_NO_NAME.sub('-', name).strip('-')[:40]}-{digest}".lstrip("-")
