"""What a search is asked and what it answers: the values of one search. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import LanguagePart
from nacre.memory.contracts.records import SearchHit, SearchMode
from nacre.memory.contracts.store import Scope
from nacre.memory.vectors.query_vectors import QueryVectors
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import QuerySettings
    from nacre.memory.search.rerankers.reranking import Reranking


class EmbedderInUse(Record):
    """What embeds questions, and the marks of an index whose vectors can be compared with theirs."""

    vectors: QueryVectors
    identity: Mapping[str, str]
    key: str
    language_part: LanguagePart | None = None


class Question(Record):
    """What a search asks, with every default filled in. Without an `embedder` words alone are searched.

    `wordings` ask for one thing in different words or languages; the first is the question itself, which a
    re-ranker is asked. Without a `min_score` only the best hit is asked whether it is good enough.
    """

    wordings: tuple[str, ...]
    max_results: int
    min_score: float | None
    scope: Scope
    explain: bool
    settings: QuerySettings
    embedder: EmbedderInUse | None
    reranking: Reranking | None
    now: datetime


class Answer(Record):
    """Hits, best first, which lists and which re-ranker took part, which names stand nowhere."""

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    degraded: str = ""
    absent: tuple[str, ...] = ()
    reranked_by: str = ""
