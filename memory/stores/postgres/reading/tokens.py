"""Texts cut, folded and stemmed exactly as the file member does; the only file of this room with apsw.

A chunk's words become a `tsvector` whose weights are the fields, a question's atoms a `tsquery`. Each word is
stored behind a few characters that stand for the agent: so the words of one agent lie together in the index
over all of them, and no list in it is longer than that agent's notes.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import cast

import apsw

from nacre.memory.contracts.words import FIELD_WEIGHTS, FIELDS, Atom, Field, WordFields
from nacre.memory.stores.sqlite.schema import TOKENIZE

ANALYSIS = f"tsvector of {TOKENIZE}"
"""How words are cut here: part of an index's identity."""

_MARK_CHARS = 4
"""What stands for an agent: 24 bits. Two agents with the same cost each other time, and see nothing."""

_MOST_WORD_BYTES = 500
"""Longer words are cut here, in chunks and in questions; a `tsvector` takes 2,046 bytes."""

_MOST_POSITION = 16_383
"""Words behind this one count, but not how often: a `tsvector` knows no later place."""

_GAP = 2
_LETTERS: dict[Field, str] = {"text": "A", "title": "B", "parts": "C"}
WEIGHTS = "{0," + ",".join(str(FIELD_WEIGHTS[field]) for field in ("parts", "title", "text")) + "}"
"""What a word in each field counts, from weight D to A, as `ts_rank_cd` takes it."""


def mark_of(agent: str) -> str:
    """What stands before each word of an agent."""
    digest = hashlib.blake2b(agent.encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_MARK_CHARS]


class Tokens:
    """Cuts texts for one agent; several threads may share it."""

    def __init__(self, agent: str) -> None:
        self._mark = mark_of(agent)
        name, *arguments = TOKENIZE.replace("'", "").split(" categories ")[0].split()
        categories = TOKENIZE.split("'")[1]
        self._cutting = threading.Lock()
        connection = apsw.Connection(":memory:")
        self._cut = connection.fts5_tokenizer(name, [*arguments, "categories", categories])

    def words(self, fields: WordFields) -> tuple[str, int]:
        """A chunk's words as the text of a `tsvector`, and how many there are."""
        places: dict[str, list[str]] = defaultdict(list)
        at = count = 0
        for field in FIELDS:
            letter = _LETTERS[field]
            for word in self._tokens(getattr(fields, field), apsw.FTS5_TOKENIZE_DOCUMENT):
                at = min(at + 1, _MOST_POSITION)
                count += 1
                places[word].append(f"{at}{letter}")
            at = min(at + _GAP, _MOST_POSITION)
        return " ".join(f"{self._quoted(word)}:{','.join(at)}" for word, at in places.items()), count

    def atom(self, atom: Atom) -> str:
        """An atom as the text of a `tsquery`, empty when it has no word; legal whatever was typed."""
        kind = apsw.FTS5_TOKENIZE_QUERY | (apsw.FTS5_TOKENIZE_PREFIX if atom.prefix else 0)
        words = self._tokens(atom.words, kind)
        letter = _LETTERS[atom.field] if atom.field else ""
        marks = [letter] * len(words)
        if atom.prefix and marks:
            marks[-1] = "*" + letter
        pieces = [
            self._quoted(word) + (f":{mark}" if mark else "") for word, mark in zip(words, marks, strict=True)
        ]
        return f"({' <-> '.join(pieces)})" if pieces else ""

    def _tokens(self, text: str, kind: int) -> list[str]:
        with self._cutting:
            found = self._cut(
                text.encode(errors="replace"), kind, None, include_offsets=False, include_colocated=False
            )
        return cast("list[str]", found)

    def _quoted(self, word: str) -> str:
        cut = word.encode()[:_MOST_WORD_BYTES].decode(errors="ignore") if len(word) > 120 else word
        escaped = cut.replace("\\", "\\\\").replace("'", "''")
        return f"'{self._mark}{escaped}'"


def any_of(queries: Iterable[str]) -> str:
    """The query that is met when any of these is; empty without any."""
    return " | ".join(queries)
