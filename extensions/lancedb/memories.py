"""What can be done with memories: stored once, recalled by meaning and words, forgotten, given vectors."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Sequence

from nacre.extensions.lancedb.columns import asked_words
from nacre.extensions.lancedb.mixing import POOL, Candidate, cosine_of, mixed
from nacre.extensions.lancedb.records import Category, Memory, Origin, Recalled, Scope, Vector
from nacre.extensions.lancedb.table import MemoryTable
from nacre.extensions.lancedb.worth import same_statement
from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, TextRefused
from nacre.record import Record
from nacre.runtime.contracts.ids import NewId

LEAST_RECALLED = 0.2
"""Least score of what `memory_recall` gives: nearly all that can be found; the model judges the rest."""
LEAST_UNASKED = 0.35
"""Least score of what is recalled before a turn: every second one fits."""
LEAST_FORGOTTEN = 0.45
"""Least score of what may be meant by "forget …"."""
SURELY_FORGOTTEN = 0.9
"""The score from which the one memory that may be meant is forgotten without asking back."""
MOST_TEXT_CHARS = 4_000
MOST_QUESTION_CHARS = 2_000
QUESTION_SECONDS = 3
"""How long a question waits for its vector: less than a turn waits for what is recalled."""
_FORGET_CANDIDATES = 5
_ID_BEGINNING = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{7,35}")

log = logging.getLogger(__name__)


class Stored(Record):
    """What became of a text: `memory` is the new row, or with `is_new` false the one that says the same."""

    memory: Memory
    is_new: bool


class Forgotten(Record):
    """What became of a request to forget: the row that is gone, or those that may be meant."""

    gone: Memory | None = None
    candidates: tuple[Recalled, ...] = ()


class Memories:
    """The memories of one agent. Methods raise `TableUnusable`; without an embedder, words find."""

    def __init__(
        self,
        table: MemoryTable,
        embedder: Embedder | None,
        *,
        agent_id: str,
        now_ms: Callable[[], int],
        new_id: NewId,
    ) -> None:
        self._table = table
        self._embedder = embedder
        self._agent_id = agent_id
        self._now_ms = now_ms
        self._new_id = new_id
        self._filling = asyncio.Lock()
        self.problem = ""

    def scope(self, audience: str | None) -> Scope:
        """This agent's memories for an audience; `None` is every audience."""
        return Scope(agent_id=self._agent_id, audience=audience)

    async def close(self) -> None:
        """Writes what is not written yet."""
        await self._table.close()

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
        question = _written(question)[:MOST_QUESTION_CHARS]
        words, terms = asked_words(question)
        vector = await self._vector_of_question(question)
        rows: dict[str, Candidate] = {}
        if vector is not None:
            for near in await self._table.near(vector, self._key, scope, POOL):
                rows[near.memory.id] = Candidate(near.memory, self._related(near.cosine), 0.0, near.words)
        if words:
            for row in await self._table.by_words(words, self._key, scope, POOL):
                nearness = self._related(cosine_of(row, vector)) if vector is not None else 0.0
                rows[row.memory.id] = Candidate(row.memory, nearness, row.bm25, row.words)
        found = mixed(list(rows.values()), terms=terms)
        fitting = (item for item in found if item.score >= least_score)
        return [item for item in fitting if category in (None, item.memory.category)][:limit]

    def _related(self, cosine: float) -> float:
        """A cosine on the model's own scale: 0 for unrelated texts, 1 for related ones."""
        unrelated, related = self._embedder.facts.cosines if self._embedder else (0.0, 1.0)
        return (cosine - unrelated) / (related - unrelated)

    async def store(
        self, text: str, *, category: Category, importance: float, audience: str, origin: Origin
    ) -> Stored:
        """Keeps a text, unless a memory of the same audience says it already."""
        text = _written(text)
        scope = self.scope(audience)
        vector = await self._vector_of_memory(text)
        if (same := await self._same(text, vector, scope)) is not None:
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
        await self._table.add(memory, vector, self._key)
        return Stored(memory=memory, is_new=True)

    async def forget_id(self, beginning: str, scope: Scope) -> Forgotten:
        """Forgets the memory with this id, or with this beginning of one, of at least eight characters."""
        if not _ID_BEGINNING.fullmatch(beginning):
            return Forgotten()
        matching = await self._table.all(scope, beginning=beginning.lower())
        if len(matching) != 1:
            return Forgotten(candidates=tuple(Recalled(memory=memory, score=1.0) for memory in matching))
        is_gone = await self._table.delete(matching[0].id, scope)
        return Forgotten(gone=matching[0] if is_gone else None)

    async def forget(self, question: str, scope: Scope) -> Forgotten:
        """Forgets what a question surely means; otherwise tells what it may mean."""
        found = await self.recall(question, scope, limit=_FORGET_CANDIDATES, least_score=LEAST_FORGOTTEN)
        exact = [item for item in found if same_statement(item.memory.text, question)]
        sure = exact or [item for item in found if item.score >= SURELY_FORGOTTEN and len(found) == 1]
        if len(sure) == 1 and await self._table.delete(sure[0].memory.id, scope):
            return Forgotten(gone=sure[0].memory)
        return Forgotten(candidates=tuple(found))

    async def forget_these(self, ids: Collection[str]) -> None:
        """Deletes memories for good: no earlier version of the table keeps them."""
        for memory_id in ids:
            await self._table.delete(memory_id, self.scope(None))
        await self._table.clear(self.scope(None))

    async def all(self, scope: Scope) -> list[Memory]:
        """Every memory of a scope, the newest first."""
        return await self._table.all(scope)

    async def waiting(self) -> int:
        """How many memories have no vector of the embedder in use."""
        return await self._table.count_without_vector(self._key) if self._embedder else 0

    async def count(self) -> int:
        """How many memories there are, for whichever audience."""
        return await self._table.count(self.scope(None))

    async def make_vectors(self) -> None:
        """Gives a vector to each memory that has none: after an outage, and after a change of embedder."""
        if self._embedder is None:
            return
        async with self._filling:
            missing = await self._table.without_vector(self._key)
            size = self._embedder.facts.batch_texts
            for begin in range(0, len(missing), size):
                vectors = await self._vectors_of(missing[begin : begin + size])
                if vectors:
                    await self._table.set_vectors(vectors, self._key)
                if self.problem:
                    return

    @property
    def _key(self) -> str:
        """Names the vectors: equal keys mean vectors that can be compared."""
        if self._embedder is None:
            return ""
        facts = self._embedder.facts
        return f"{facts.provider}/{facts.model}/{facts.fingerprint}"

    async def _vectors_of(self, rows: Sequence[tuple[str, str]]) -> dict[str, Vector]:
        """Vectors by id; those of texts that the embedder refuses are not among them."""
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

    async def _vector_of_memory(self, text: str) -> Vector | None:
        if self._embedder is None or not text:
            return None
        return (await self._vectors_of([("", text)])).get("")

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("memories are found by words alone: %s", problem)
        self.problem = problem

    async def _same(self, text: str, vector: Vector | None, scope: Scope) -> Memory | None:
        words, _ = asked_words(text)
        found: list[Memory] = []
        if vector is not None:
            found += [near.memory for near in await self._table.near(vector, self._key, scope, POOL)]
        if words:
            found += [row.memory for row in await self._table.by_words(words, self._key, scope, POOL)]
        return next((memory for memory in found if same_statement(memory.text, text)), None)


def _written(text: str) -> str:
    """A text that can be written: lone surrogates and null characters are not."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").strip()
