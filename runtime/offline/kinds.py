"""What kind of statement a sentence is: a decision, a preference, a name, a date, an open ask …"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from nacre.runtime.offline.note_phrases import (
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
    return next((kind for kind, pattern in _IN_ORDER if pattern.search(sentence)), None)


def is_plain_fact(sentence: str) -> bool:
    """Whether a statement is a lasting fact about its speaker, kept even when nobody asks for it."""
    return not _SUPPOSED.match(sentence) and any(pattern.search(sentence) for pattern in _PLAIN)
