"""Facts, notes and identities as values.

The names `identity_facts` and `memory_chunks` and the JSON keys are those of the seeds' two tables.
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
from nacre.record import Record

JsonValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""A JSON value."""


class Fact(Record):
    """`key` has `value` since the aware time `at`, as `source` says; or the fact was forgotten.

    A forgotten fact has the value `None` and is never among the known ones.
    """

    identity: str
    key: str
    value: JsonValue
    source: str
    at: datetime
    is_forgotten: bool = False


class Note(Record):
    """A note about an identity. `number` is unique on the page and grows with time."""

    identity: str
    number: int
    text: str
    source: str
    at: datetime

    @property
    def id(self) -> str:
        """The id of the note among all identities, such as `anna/k3f9a2`."""
        return f"{self.identity}/{note_word(self.number)}"


class MemoryChunk(Record):
    """A recalled note with its score for the query, 0 to 1."""

    note: Note
    score: float


class Recalled(Record):
    """The known facts and the notes that fit a query; those of one identity are of one moment.

    `problems` are sentences about unreadable lines; `degraded` says why notes were searched by words only.
    """

    identity_facts: tuple[Fact, ...]
    memory_chunks: tuple[MemoryChunk, ...]
    problems: tuple[str, ...] = ()
    degraded: str = ""


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, in which no letter looks like a digit."""

NUMBERS = len(_DIGITS) ** 6
"""The highest number of notes on one page."""


def note_word(number: int) -> str:
    """A note's number as it follows its text, without the caret."""
    word = ""
    while number or not word:
        number, digit = divmod(number, len(_DIGITS))
        word = _DIGITS[digit] + word
    return word.rjust(6, "0")


def note_number(word: str) -> int | None:
    """The number that `note_word` wrote, or `None` for any other text."""
    if len(word) != 6 or not set(word) <= set(_DIGITS):
        return None
    number = 0
    for char in word:
        number = number * len(_DIGITS) + _DIGITS.index(char)
    return number


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact with the seeds' keys and an ISO 8601 time."""
    told = {
        "identity_id": fact.identity,
        "key": fact.key,
        "value": fact.value,
        "source": fact.source,
        "created_at": fact.at.isoformat(timespec="seconds"),
    }
    return {**told, "forgotten": True} if fact.is_forgotten else told


def chunk_json(chunk: MemoryChunk) -> dict[str, Any]:
    """A recalled note with the seeds' keys."""
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
"""The owner's page, which every search of the owner includes."""

PEOPLE_FOLDER = "people"
"""The pages of all other identities. Only a recall for an identity that may see one reads it."""

FACT_PAGES = (WantedNotes(name=OWNERS_PAGE), WantedNotes(name=PEOPLE_FOLDER, pattern=("*", "facts.md")))
"""All pages of facts, as an index asks for them."""

MAX_NAME_CHARS = 100
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_@+-]{0,63}")
_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{16}$")
_NO_NAME = re.compile(r"[^a-z0-9_-]+")


class Sharing(Record):
    """The identities whose facts an identity `reads` and `writes`. Writing includes reading."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class Identities(Record):
    """The owner and the rules by which identities share facts. Without a rule nothing is shared."""

    owner: str = "owner"
    sharing: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])

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

    def _rule(self, identity: str) -> Sharing:
        name = self.named(identity)
        found: Sequence[Sharing] = [rule for each, rule in self.sharing.items() if self.named(each) == name]
        return found[0] if found else Sharing()


def _folder_name(name: str) -> str:
    """A folder name that no other identity has, on any file system."""
    if _PLAIN_NAME.fullmatch(name) and not _LIKE_A_DIGEST.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{_NO_NAME.sub('-', name).strip('-')[:40]}-{digest}".lstrip("-")
