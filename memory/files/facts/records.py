"""Facts and notes of identities as values: what is handed in, kept and recalled. Frozen.

The names `identity_facts` and `memory_chunks`, and the keys in JSON, are those of the seeds' two tables.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from nacre.record import Record

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
