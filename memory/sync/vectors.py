"""The vector half of a sync: chunks without vectors get them. Words are searchable all the while.

Every answer of the embedder is stored before the next question, so that nothing paid for is lost. What the
embedder refuses is noted and never asked again; a failure stops the pass and is told, not raised.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import EmbeddingFailed, TextRefused
from nacre.memory.contracts.embedding_jobs import jobs_of
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Piece, Store, Vector
from nacre.memory.sync.batch_jobs import JobPass, JobTally
from nacre.memory.vectors.batches import batches
from nacre.memory.vectors.cosine_scale import SCALE_ROW, is_measured, measured_scale, scale_row
from nacre.memory.vectors.identity import embedder_key as key_of, stored_identity
from nacre.memory.vectors.pieces import embedding_texts, sentences_of

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder

GROUP_CHUNKS = 256
SAMPLED_NOTES = 64
CONCURRENT_CALLS = 4
HASH_BYTES = 16


@dataclass
class VectorOutcome:
    """What a pass over the chunks without vectors did; `problem` is why it stopped early, as a sentence.

    `held` counts texts that a batch job still has.
    """

    embedded: int = 0
    held: int = 0
    reused: int = 0
    refused: int = 0
    pending_chunks: int = 0
    problem: str = ""

    def then(self, later: VectorOutcome) -> VectorOutcome:
        """What this pass and one that followed it did together."""
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
    tally: JobTally | None = None,
) -> VectorOutcome:
    """Gives every chunk its vectors: known ones from the store, many from the provider's batch jobs, if it
    has any, and the rest from the embedder. `tally` says how jobs went before.

    Also measures what the embedder's cosines mean, if that is not known; when it gives no vectors of passages
    for that, nothing else is asked for.
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
        job_pass = JobPass(
            store, jobs, embedder_key, tally or JobTally(), now_seconds=now_seconds, advance=advance
        )
        held = await job_pass.run(work.missing_texts)
        outcome.embedded, outcome.held = job_pass.stored, len(held)
    if total := await work.pending_chunks():
        await work.fill(held, total, advance)
        outcome.pending_chunks = await work.pending_chunks()
    return outcome


async def attach_known_vectors(
    store: Store, embedder: Embedder, embedder_key: str, *, now_seconds: int
) -> None:
    """Attaches whatever vectors are stored already; asks no embedder."""
    await _Pass(store, embedder, embedder_key, now_seconds).attach_all()


@dataclass(frozen=True)
class _Group:
    """Chunks without vectors: their pieces, and the text behind each hash."""

    chunk_count: int
    pieces: Sequence[Piece]
    texts: Mapping[bytes, str]


def _group(rows: Sequence[tuple[int, Chunk]], piece_tokens: int | None) -> _Group:
    pieces: list[Piece] = []
    texts: dict[bytes, str] = {}
    for chunk_id, chunk in rows:
        for number, text in enumerate(embedding_texts(chunk, piece_tokens)):
            text_hash = hashlib.sha256(text.encode()).digest()[:HASH_BYTES]
            pieces.append(Piece(chunk_id=chunk_id, piece=number, text_hash=text_hash))
            texts[text_hash] = text
    return _Group(len(rows), pieces, texts)


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
        """Gives each of `total` chunks its vectors, known ones or new ones, unless its text is `held`."""
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
        """The chunks without vectors, by id."""
        above_id = 0
        while rows := await self._rows(above_id):
            yield _group(rows, self.embedder.facts.piece_tokens)
            above_id = rows[-1][0]

    async def _rows(self, above_id: int) -> Sequence[tuple[int, Chunk]]:
        return await self.store.read(
            lambda index: index.without_vectors(above_id=above_id, limit=GROUP_CHUNKS)
        )

    async def attach(self, group: _Group) -> set[bytes]:
        """Attaches the vectors that are stored already; the hashes of texts that have none."""
        return await self.store.write(
            lambda index: index.attach_known(self.key, group.pieces, now_seconds=self.now_seconds)
        )

    async def attach_all(self) -> None:
        async for group in self.groups():
            await self.attach(group)

    async def missing_texts(self, known: Set[bytes], limit: int) -> dict[bytes, str]:
        """About `limit` texts of chunks without vectors, by hash, but those `known` to somebody."""
        missing: dict[bytes, str] = {}
        async for group in self.groups():
            unknown = await self.attach(group) - known
            missing |= {text_hash: group.texts[text_hash] for text_hash in unknown}
            if len(missing) >= limit:
                break
        return missing

    async def check_owner(self) -> None:
        """Raises `EmbeddingFailed` when the index is another embedder's by now, a fallback's for example."""
        identity = stored_identity(await self.store.read(lambda index: index.meta()))
        if identity and key_of(identity) != self.key:
            raise EmbeddingFailed(
                "The index was made another embedder's meanwhile; "
                "the next sync decides whose vectors it gets."
            )

    async def keep_scale(self) -> None:
        """Measures what this embedder's cosines mean, and keeps it until there are twice as many chunks.

        A model in this process also reads a sample of the notes as questions.

        Raises:
            EmbeddingFailed: no vectors could be had. After a refusal the usual scale will do, and until
                questions are answered, too.
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
        """Asks in batches, a few at a time; stores each answer as it comes."""
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
        """One call; when a text in it is refused, the two halves are tried by themselves."""
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
                f"{self.embedder.facts.provider} gave {len(vectors)} vectors for {len(batch)} texts; "
                "none is used."
            )
        if any(vector is not None and len(vector) == 0 for vector in vectors):
            raise EmbeddingFailed(
                f"{self.embedder.facts.provider} gave an empty vector; none of its answer is used."
            )
        found = {text_hash: vector for (text_hash, _), vector in zip(batch, vectors, strict=True)}
        await self.store.write(lambda index: index.put_vectors(self.key, found, now_seconds=self.now_seconds))
        self.outcome.embedded += sum(vector is not None for vector in vectors)
