"""Embeds chunks without vectors. Their words can be found in the meantime.

Each answer of the embedder is stored before the next request, so that nothing paid for is lost. Texts that
the embedder refuses are recorded and never sent again. A failure stops the pass and is reported, not raised.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, TextRefused
from nacre.memory.contracts.embedding_jobs import jobs_of
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Piece, Store, Vector
from nacre.memory.vectors.cosine_scale import SCALE_ROW, is_measured, measured_scale, scale_row
from nacre.memory.vectors.identity import embedder_key as key_of, stored_identity
from nacre.memory.vectors.pieces import batches, embedding_texts, sentences_of

GROUP_CHUNKS = 256
SAMPLED_NOTES = 64
CONCURRENT_CALLS = 4
HASH_BYTES = 16


@dataclass
class VectorOutcome:
    """The result of a pass over chunks without vectors; `problem` is a sentence about an early end.

    `held` counts texts in running batch jobs.
    """

    embedded: int = 0
    held: int = 0
    reused: int = 0
    refused: int = 0
    pending_chunks: int = 0
    problem: str = ""

    def then(self, later: VectorOutcome) -> VectorOutcome:
        """The joint result of this pass and a later one."""
        return replace(
            later,
            embedded=self.embedded + later.embedded,
            reused=self.reused + later.reused,
            refused=self.refused + later.refused,
        )


async def embed_pending(
    store: Store,
    embedder: Embedder,
    embedder_key: str,
    *,
    now_seconds: int,
    advance: Callable[[int, int], None],
) -> VectorOutcome:
    """Gives every chunk its vectors: stored ones, many from the provider's batch jobs if it has any, and the
    rest from the embedder.

    Also measures the scale of the embedder's cosines if it is unknown; without vectors for this, nothing else
    is requested.
    """
    work = _Pass(store, embedder, embedder_key, now_seconds)
    outcome = work.outcome
    try:
        await work.keep_scale()
        await work.check_owner()
    except EmbeddingFailed as error:
        await work.attach_all()
        outcome.problem = str(error)
        outcome.pending_chunks = await work.pending_chunks()
        return outcome
    jobs = jobs_of(embedder)
    held: frozenset[bytes] = frozenset()
    if jobs is not None:
        filled = await jobs.fill(
            store, embedder_key, work.missing_texts, now_seconds=now_seconds, advance=advance
        )
        held, outcome.embedded, outcome.held = filled.held, filled.stored, len(filled.held)
    if total := await work.pending_chunks():
        await work.fill(held, total, advance)
        outcome.pending_chunks = await work.pending_chunks()
    return outcome


async def attach_known_vectors(
    store: Store, embedder: Embedder, embedder_key: str, *, now_seconds: int
) -> None:
    """Attaches all vectors that are already stored, without the embedder."""
    await _Pass(store, embedder, embedder_key, now_seconds).attach_all()


@dataclass(frozen=True)
class _Group:
    chunk_count: int
    pieces: Sequence[Piece]
    texts: Mapping[bytes, str]


@dataclass(frozen=True)
class _Pass:
    store: Store
    embedder: Embedder
    key: str
    now_seconds: int
    outcome: VectorOutcome = field(default_factory=VectorOutcome)

    async def pending_chunks(self) -> int:
        return (await self.store.read(lambda index: index.counts())).pending_chunks

    async def fill(self, held: Set[bytes], total: int, advance: Callable[[int, int], None]) -> None:
        done, outcome = 0, self.outcome
        async for group in self.groups():
            unknown = await self.attach(group)
            outcome.reused += len(group.texts) - len(unknown)
            if unknown := unknown - held:
                try:
                    await self.check_owner()
                except EmbeddingFailed as error:
                    outcome.problem = str(error)
                    return
                texts = {text_hash: text for text_hash, text in group.texts.items() if text_hash in unknown}
                await self.embed(texts)
                await self.attach(group)
                if outcome.problem:
                    return
            done += group.chunk_count
            advance(done, max(total, done))

    async def groups(self) -> AsyncIterator[_Group]:
        above_id = 0
        while rows := await self._rows(above_id):
            pieces: list[Piece] = []
            texts: dict[bytes, str] = {}
            for chunk_id, chunk in rows:
                for number, text in enumerate(embedding_texts(chunk, self.embedder.facts.piece_tokens)):
                    text_hash = hashlib.sha256(text.encode()).digest()[:HASH_BYTES]
                    pieces.append(Piece(chunk_id=chunk_id, piece=number, text_hash=text_hash))
                    texts[text_hash] = text
            yield _Group(len(rows), pieces, texts)
            above_id = rows[-1][0]

    async def _rows(self, above_id: int) -> Sequence[tuple[int, Chunk]]:
        return await self.store.read(
            lambda index: index.without_vectors(above_id=above_id, limit=GROUP_CHUNKS)
        )

    async def attach(self, group: _Group) -> set[bytes]:
        return await self.store.write(
            lambda index: index.attach_known(self.key, group.pieces, now_seconds=self.now_seconds)
        )

    async def attach_all(self) -> None:
        async for group in self.groups():
            await self.attach(group)

    async def missing_texts(self, known: Set[bytes], limit: int) -> dict[bytes, str]:
        missing: dict[bytes, str] = {}
        async for group in self.groups():
            unknown = await self.attach(group) - known
            missing |= {text_hash: group.texts[text_hash] for text_hash in unknown}
            if len(missing) >= limit:
                break
        return missing

    async def check_owner(self) -> None:
        identity = stored_identity(await self.store.read(lambda index: index.meta()))
        if identity and key_of(identity) != self.key:
            raise EmbeddingFailed(
                "The index now belongs to another embedder; the next sync decides whose vectors it gets."
            )

    async def keep_scale(self) -> None:
        """Measures the scale of this embedder's cosines, and keeps it until the number of chunks has doubled.

        A model in this process also embeds a sample of the notes as queries.

        Raises:
            EmbeddingFailed: there are no vectors. After a refusal, and until queries are answered, the usual
                scale is used.
        """
        meta, count, texts = await self.store.read(
            lambda index: (index.meta(), index.chunk_count(), index.sampled_texts(SAMPLED_NOTES))
        )
        if is_measured(meta, self.key, count):
            return
        notes = [
            sentences[at % len(sentences)]
            for at, text in enumerate(texts)
            if (sentences := sentences_of(text))
        ]
        try:
            scale = await measured_scale(self.embedder, notes if self.embedder.facts.in_process else ())
        except TextRefused:
            return
        if scale is not None:
            row = scale_row(scale, self.key, count)
            await self.store.write(lambda index: index.set_meta({SCALE_ROW: row}))

    async def embed(self, texts: Mapping[bytes, str]) -> None:
        hashes = list(texts)
        gate = asyncio.Semaphore(CONCURRENT_CALLS)

        async def one(batch: Sequence[bytes]) -> None:
            async with gate:
                if self.outcome.problem:
                    return
                try:
                    await self._batch([(text_hash, texts[text_hash]) for text_hash in batch])
                except EmbeddingFailed as error:
                    self.outcome.problem = str(error)

        parts = batches(list(texts.values()), most_texts=max(1, self.embedder.facts.batch_texts))
        await asyncio.gather(*(one(hashes[part]) for part in parts))

    async def _batch(self, batch: Sequence[tuple[bytes, str]]) -> None:
        try:
            vectors: Sequence[Vector | None] = await self.embedder.embed_documents(
                [text for _, text in batch]
            )
        except TextRefused:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._batch(batch[:middle])
                await self._batch(batch[middle:])
                return
            vectors = [None]
            self.outcome.refused += 1
        if len(vectors) != len(batch):
            raise EmbeddingFailed(
                f"{self.embedder.facts.provider} returned {len(vectors)} vectors for {len(batch)} texts; "
                "none is used."
            )
        if any(vector is not None and len(vector) == 0 for vector in vectors):
            raise EmbeddingFailed(
                f"{self.embedder.facts.provider} returned an empty vector; its answer is not used."
            )
        found = {text_hash: vector for (text_hash, _), vector in zip(batch, vectors, strict=True)}
        await self.store.write(lambda index: index.put_vectors(self.key, found, now_seconds=self.now_seconds))
        self.outcome.embedded += sum(vector is not None for vector in vectors)
