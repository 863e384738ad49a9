"""Facts and notes of identities as values: what is handed in, kept and recalled. Frozen.

The names `identity_facts` and `memory_chunks`, and the keys in JSON, are those of the seeds' two tables.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, TypeAlias

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.contracts.notes import WantedNotes
from nacre.records.record import Record

JsonValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""What JSON can say."""


class Fact(Record):
    """That `key` has `value` since `at`, an aware time, as far as `source` says; or that it was forgotten.

    A forgotten one has the value `None` and is never among what is known.
    """

    identity: str
    key: str
    value: JsonValue
    source: str
    at: datetime
    is_forgotten: bool = False


class Note(Record):
    """A text that was noted of an identity. `number` is its own in the page, and grows with time."""

    identity: str
    number: int
    text: str
    source: str
    at: datetime

    @property
    def id(self) -> str:
        """What `recall` names it by, unique among all identities: `anna/k3f9a2`."""
        return f"{self.identity}/{note_word(self.number)}"


class MemoryChunk(Record):
    """A recalled note, with how well it fits the question, 0 to 1."""

    note: Note
    score: float


class Recalled(Record):
    """What is known of an identity, and the notes that fit a question, of one moment for each identity.

    `problems` are sentences about lines of the pages that could not be read; `degraded` says why the notes
    were searched by words alone, if they were.
    """

    identity_facts: tuple[Fact, ...]
    memory_chunks: tuple[MemoryChunk, ...]
    problems: tuple[str, ...] = ()
    degraded: str = ""


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter looks like a digit."""

NUMBERS = len(_DIGITS) ** 6
"""How many numbers there are for the notes of one page."""


def note_word(number: int) -> str:
    """A note's number as it stands behind its text, without the caret."""
    word = ""
    while number or not word:
        number, digit = divmod(number, len(_DIGITS))
        word = _DIGITS[digit] + word
    return word.rjust(6, "0")


def note_number(word: str) -> int | None:
    """The number that `note_word` wrote so, `None` for anything else."""
    if len(word) != 6 or not set(word) <= set(_DIGITS):
        return None
    number = 0
    for char in word:
        number = number * len(_DIGITS) + _DIGITS.index(char)
    return number


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact in the seeds' keys, its time as ISO 8601."""
    told = {
        "identity_id": fact.identity,
        "key": fact.key,
        "value": fact.value,
        "source": fact.source,
        "created_at": fact.at.isoformat(timespec="seconds"),
    }
    return {**told, "forgotten": True} if fact.is_forgotten else told


def chunk_json(chunk: MemoryChunk) -> dict[str, Any]:
    """A recalled note in the seeds' keys."""
    note = chunk.note
    return {
        "id": note.id,
        "identity": note.identity,
        "text": note.text,
        "source": note.source,
        "created_at": note.at.isoformat(timespec="seconds"),
        "score": round(chunk.score, 4),
    }


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
