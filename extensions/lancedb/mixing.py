"""How rows found by meaning and rows found by words become one order, and what a score is worth. Pure.

The decision record 0074 shows by what the numbers were chosen; `benchmarks/beside/memories.py` measures all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nacre.extensions.lancedb.records import FoundByWords, Memory, Recalled, Vector
from nacre.memory.vectors.cosine_scale import cosine

POOL = 30
"""Rows asked for by meaning, and by words."""
MEANING = 0.6
"""How much meaning counts in the order, for a question in a script that the model reads."""
LEGIBLE = 0.5
"""Least share of a question that the model reads, for its cosine to say anything."""
HALF_BM25 = 15.0
"""The BM25 at which words alone are worth half."""
_LEAST_STEM = 4
_ENDING = 3
_WORD = re.compile(r"\w+")


class Candidate(NamedTuple):
    """A row that meaning or words found."""

    memory: Memory
    cosine: float
    bm25: float
    words: str


def mixed(candidates: Sequence[Candidate], *, terms: Sequence[str], legible: float) -> list[Recalled]:
    """The rows, the best first. `terms` are the words that tell what is asked, `legible` the share of the
    question, 0…1, that the embedding model reads; 0 without one."""
    best_cosine = max((row.cosine for row in candidates), default=0.0) or 1.0
    best_bm25 = max((row.bm25 for row in candidates), default=0.0) or 1.0
    meaning = MEANING * legible

    def place(row: Candidate) -> float:
        return meaning * row.cosine / best_cosine + (1 - meaning) * row.bm25 / best_bm25

    found = sorted(candidates, key=lambda row: (-place(row), -row.memory.created_at_ms, row.memory.id))
    return [Recalled(memory=row.memory, score=score(row, terms=terms, legible=legible)) for row in found]


def score(row: Candidate, *, terms: Sequence[str], legible: float) -> float:
    """How well a row fits, 0…1: its cosine, or what its words are worth, whichever is more.

    Words are worth the mean of two things: how many of those asked for it has, which also counts in a memory
    of three rows, and how rare they are (BM25), which tells in a large one.
    """
    by_words = 0.5 * _share(terms, row.words) + 0.5 * row.bm25 / (row.bm25 + HALF_BM25) if row.bm25 else 0.0
    return min(1.0, max(row.cosine if legible > LEGIBLE else 0.0, by_words, 0.0))


def _share(terms: Sequence[str], words: str) -> float:
    """The share of the words asked for that a row has, endings aside."""
    if not terms:
        return 0.0
    text = words.lower()
    there = set(_WORD.findall(text))
    beginnings = {word[:size] for word in there for size in range(_LEAST_STEM, len(word) + 1)}
    asked = [term.lower() for term in terms]
    return sum(_stands(term, text, there, beginnings) for term in asked) / len(asked)


def _stands(term: str, text: str, there: set[str], beginnings: set[str]) -> bool:
    if term in there:
        return True
    if not term.isalpha():
        return len(term) > 1 and term in text
    stem = term[: max(_LEAST_STEM, len(term) - _ENDING)]
    return term.isascii() and len(term) >= _LEAST_STEM and stem in beginnings


def cosine_of(row: FoundByWords, asked: Vector) -> float:
    """How near a row that words found lies; 0 where that is not known."""
    return cosine(row.vector, asked) if row.vector is not None and len(row.vector) == len(asked) else 0.0
