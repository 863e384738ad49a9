"""Storing, recalling and forgetting memories, and ranking what a search by meaning and by words finds.

Decision record 0074 gives the measurements behind the constants of the ranking;
`benchmarks/beside/memories.py` repeats them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from nacre.extensions.lancedb.capture import same_statement
from nacre.extensions.lancedb.records import Category, FoundByWords, Memory, Origin, Recalled, Scope, Vector
from nacre.extensions.lancedb.table import MemoryTable, query_words
from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, TextRefused
from nacre.memory.vectors.cosine_scale import cosine
from nacre.record import Record
from nacre.runtime.contracts.clock import NewId

POOL = 30
"""The number of rows to fetch by meaning, and by words."""
MEANING_WEIGHT = 0.6
"""The weight of meaning in the ranking; words have the rest."""
HALF_BM25 = 15.0
"""The BM25 score at which words alone contribute half."""
_LEAST_STEM = 4
_ENDING = 3
_WORD = re.compile(r"\w+")
MIN_RECALL_SCORE = 0.2
"""The lowest score of `memory_recall` results: nearly everything, because the model judges the rest."""
MIN_UNPROMPTED_SCORE = 0.35
"""The lowest score for recall before a turn; about every second such memory fits."""
MIN_FORGET_SCORE = 0.45
"""The lowest score of a candidate for "forget …"."""
CERTAIN_FORGET_SCORE = 0.9
"""The score above which a single candidate is forgotten without asking."""
MOST_TEXT_CHARS = 4_000
MOST_QUESTION_CHARS = 2_000
QUESTION_SECONDS = 3
"""How long to wait for the vector of a question: less than a turn waits for recall."""
_FORGET_CANDIDATES = 5
_ID_BEGINNING = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{7,35}")
log = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A row found by meaning or words. `cosine` is on the model's scale from unrelated (0) to related (1)."""

    memory: Memory
    cosine: float
    bm25: float
    words: str


def ranked(candidates: Sequence[Candidate], *, terms: Sequence[str]) -> list[Recalled]:
    """Ranks the rows, the best first. `terms` are the words that identify the question."""
    best_cosine = max((row.cosine for row in candidates), default=0.0) or 1.0
    best_bm25 = max((row.bm25 for row in candidates), default=0.0) or 1.0

    def rank(row: Candidate) -> float:
        return MEANING_WEIGHT * row.cosine / best_cosine + (1 - MEANING_WEIGHT) * row.bm25 / best_bm25

    found = sorted(candidates, key=lambda row: (-rank(row), -row.memory.created_at_ms, row.memory.id))
    return [Recalled(memory=row.memory, score=score(row, terms=terms)) for row in found]


def score(row: Candidate, *, terms: Sequence[str]) -> float:
    """How well a row fits, 0 to 1: the larger of its cosine and its score by words.

    The score by words is the mean of two parts: the share of the terms that the row contains, which works in
    a table of three rows, and how rare they are (BM25), which works in a large one.
    """
    by_words = 0.5 * _share(terms, row.words) + 0.5 * row.bm25 / (row.bm25 + HALF_BM25) if row.bm25 else 0.0
    return min(1.0, max(row.cosine, by_words, 0.0))


def _share(terms: Sequence[str], words: str) -> float:
    if not terms:
        return 0.0
    text = words.lower()
    row_words = set(_WORD.findall(text))
    stems = {word[:size] for word in row_words for size in range(_LEAST_STEM, len(word) + 1)}
    return sum(_contains(term.lower(), text, row_words, stems) for term in terms) / len(terms)


def _contains(term: str, text: str, row_words: set[str], stems: set[str]) -> bool:
    if term in row_words:
        return True
    if not term.isalpha():
        return len(term) > 1 and term in text
    stem = term[: max(_LEAST_STEM, len(term) - _ENDING)]
    return term.isascii() and len(term) >= _LEAST_STEM and stem in stems


def cosine_of(row: FoundByWords, question_vector: Vector) -> float:
    """The cosine of a row that was found by words; 0 if unknown."""
    if row.vector is None or len(row.vector) != len(question_vector):
        return 0.0
    return cosine(row.vector, question_vector)


class Stored(Record):
    """The outcome of storing: the new memory, or with `is_new` false an equal one that exists."""

    memory: Memory
    is_new: bool


class Forgotten(Record):
    """The outcome of forgetting: the deleted memory, or the candidates."""

    deleted: Memory | None = None
    candidates: tuple[Recalled, ...] = ()


class Memories:
    """The memories of one agent. Methods raise `TableUnusable`. Without an embedder, words find."""

    def __init__(
        self,
        table: MemoryTable,
        embedder: Embedder | None,
        *,
        agent_id: str,
        now_ms: Callable[[], int],
        new_id: NewId,
    ) -> None:
        self.table = table
        self._embedder = embedder
        self._agent_id = agent_id
        self._now_ms = now_ms
        self._new_id = new_id
        self._filling = asyncio.Lock()
        self.problem = ""

    def scope(self, audience: str | None) -> Scope:
        """This agent's memories for an audience; `None` means every audience."""
        return Scope(agent_id=self._agent_id, audience=audience)

    async def recall(
        self,
        question: str,
        scope: Scope,
        *,
        limit: int,
        least_score: float,
        category: Category | None = None,
    ) -> list[Recalled]:
        """The memories that fit a question, the best first."""
        question = _cleaned(question)[:MOST_QUESTION_CHARS]
        words, terms = query_words(question)
        vector = await self._vector_of_question(question)
        rows: dict[str, Candidate] = {}
        if vector is not None:
            for near in await self.table.near(vector, self._key, scope, POOL):
                rows[near.memory.id] = Candidate(near.memory, self._related(near.cosine), 0.0, near.words)
        if words:
            for row in await self.table.by_words(words, self._key, scope, POOL):
                nearness = self._related(cosine_of(row, vector)) if vector is not None else 0.0
                rows[row.memory.id] = Candidate(row.memory, nearness, row.bm25, row.words)
        found = ranked(list(rows.values()), terms=terms)
        matching = (item for item in found if item.score >= least_score)
        return [item for item in matching if category in (None, item.memory.category)][:limit]

    def _related(self, cosine: float) -> float:
        """Rescales a cosine of the model: 0 for unrelated texts, 1 for related ones."""
        unrelated, related = self._embedder.facts.cosines if self._embedder else (0.0, 1.0)
        return (cosine - unrelated) / (related - unrelated)

    async def store(
        self, text: str, *, category: Category, importance: float, audience: str, origin: Origin
    ) -> Stored:
        """Stores a text, unless the same audience has an equal memory."""
        text = _cleaned(text)
        scope = self.scope(audience)
        vector = (await self._vectors_of([("", text)])).get("") if self._embedder and text else None
        if (same := await self._equal_memory(text, vector, scope)) is not None:
            return Stored(memory=same, is_new=False)
        memory = Memory(
            id=self._new_id(),
            text=text,
            importance=importance,
            category=category,
            created_at_ms=self._now_ms(),
            audience=audience,
            origin=origin,
        )
        await self.table.add(memory, vector, self._key)
        return Stored(memory=memory, is_new=True)

    async def forget_id(self, id_prefix: str, scope: Scope) -> Forgotten:
        """Forgets the memory whose ID starts with `id_prefix`, which has at least eight characters."""
        if not _ID_BEGINNING.fullmatch(id_prefix):
            return Forgotten()
        matching = await self.table.all(scope, id_prefix=id_prefix.lower())
        if len(matching) != 1:
            return Forgotten(candidates=tuple(Recalled(memory=memory, score=1.0) for memory in matching))
        is_deleted = await self.table.delete(matching[0].id, scope)
        return Forgotten(deleted=matching[0] if is_deleted else None)

    async def forget(self, question: str, scope: Scope) -> Forgotten:
        """Forgets the memory that a question clearly identifies; otherwise returns the candidates."""
        found = await self.recall(question, scope, limit=_FORGET_CANDIDATES, least_score=MIN_FORGET_SCORE)
        exact = [item for item in found if same_statement(item.memory.text, question)]
        certain = exact or [item for item in found if item.score >= CERTAIN_FORGET_SCORE and len(found) == 1]
        if len(certain) == 1 and await self.table.delete(certain[0].memory.id, scope):
            return Forgotten(deleted=certain[0].memory)
        return Forgotten(candidates=tuple(found))

    async def delete_permanently(self, ids: Collection[str]) -> None:
        """Deletes memories permanently: no earlier version of the table retains them."""
        for memory_id in ids:
            await self.table.delete(memory_id, self.scope(None))
        await self.table.purge(self.scope(None))

    async def count_without_vector(self) -> int:
        """The number of memories without a vector of the current embedder."""
        return await self.table.count_without_vector(self._key) if self._embedder else 0

    async def count(self) -> int:
        return await self.table.count(self.scope(None))

    async def make_vectors(self) -> None:
        """Computes missing vectors, after an outage or a change of embedder."""
        if self._embedder is None:
            return
        async with self._filling:
            missing = await self.table.without_vector(self._key)
            size = self._embedder.facts.batch_texts
            for begin in range(0, len(missing), size):
                vectors = await self._vectors_of(missing[begin : begin + size])
                if vectors:
                    await self.table.set_vectors(vectors, self._key)
                if self.problem:
                    return

    @property
    def _key(self) -> str:
        """Identifies the embedder: vectors with equal keys are comparable."""
        if self._embedder is None:
            return ""
        facts = self._embedder.facts
        return f"{facts.provider}/{facts.model}/{facts.fingerprint}"

    async def _vectors_of(self, rows: Sequence[tuple[str, str]]) -> dict[str, Vector]:
        assert self._embedder is not None
        texts = [text for _, text in rows]
        try:
            vectors = await self._embedder.embed_documents(texts)
        except TextRefused:
            if len(rows) == 1:
                return {}
            halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
            return {**await self._vectors_of(halves[0]), **await self._vectors_of(halves[1])}
        except EmbeddingFailed as error:
            self._failed(str(error))
            return {}
        self.problem = ""
        return dict(zip((memory_id for memory_id, _ in rows), vectors, strict=True))

    async def _vector_of_question(self, text: str) -> Vector | None:
        if self._embedder is None or not text:
            return None
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                vector = await self._embedder.embed_query(text)
        except EmbeddingFailed as error:
            self._failed(str(error))
            return None
        except TimeoutError:
            self._failed(f"The embedder did not answer within {QUESTION_SECONDS} seconds.")
            return None
        self.problem = ""
        return vector

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("memories are searched by words only: %s", problem)
        self.problem = problem

    async def _equal_memory(self, text: str, vector: Vector | None, scope: Scope) -> Memory | None:
        words, _ = query_words(text)
        found: list[Memory] = []
        if vector is not None:
            found += [near.memory for near in await self.table.near(vector, self._key, scope, POOL)]
        if words:
            found += [row.memory for row in await self.table.by_words(words, self._key, scope, POOL)]
        return next((memory for memory in found if same_statement(memory.text, text)), None)


def _cleaned(text: str) -> str:
    # Lone surrogates and null characters cannot be stored.
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").strip()
