"""What kind of statement a sentence is: a decision, a preference, a name, a date, an open ask …"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from nacre.runtime.models.offline.words.note_phrases import (
    ASK,
    BLOCKED,
    CONSTRAINT,
    DATE,
    DECISION,
    FACT,
    NAME,
    PERSON,
    PREFERENCE,
)

NoteKind: TypeAlias = Literal[
    "decision", "preference", "constraint", "person", "ask", "date", "fact", "blocked"
]

SENTENCE_CHARS = 600
"""What is longer is no sentence; its beginning says what kind it is."""

_IN_ORDER: tuple[tuple[NoteKind, re.Pattern[str]], ...] = (
    ("decision", DECISION),
    ("preference", PREFERENCE),
    ("constraint", CONSTRAINT),
    ("person", NAME),
    ("blocked", BLOCKED),
    ("ask", ASK),
    ("person", PERSON),
    ("date", DATE),
    ("fact", FACT),
)
_PLAIN = (DECISION, PREFERENCE, NAME, FACT)
_SUPPOSED = re.compile(
    r"(?:if|when|unless|suppose|imagine|maybe|perhaps|wenn|falls|si|se|если|如果|假如|もし|만약)(?!\w)",
    re.IGNORECASE,
)


def kind_of(sentence: str) -> NoteKind | None:
    """The first kind whose patterns fit the sentence, `None` when none does.

    >>> kind_of("We decided to use Postgres."), kind_of("Nice weather.")
    ('decision', None)
    """
    start = sentence[:SENTENCE_CHARS]
    return next((kind for kind, pattern in _IN_ORDER if pattern.search(start)), None)


def is_plain_fact(sentence: str) -> bool:
    """Whether a statement is a lasting fact about its speaker, kept even when nobody asks for it."""
    start = sentence[:SENTENCE_CHARS]
    return not _SUPPOSED.match(start) and any(pattern.search(start) for pattern in _PLAIN)
