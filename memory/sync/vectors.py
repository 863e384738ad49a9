"""The vector half of a sync: chunks without vectors get them. Words are searchable all the while.

Every answer of the embedder is stored before the next question, so that nothing paid for is lost. What the
embedder refuses is noted and never asked again; a failure stops the pass and is told, not raised.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nacre.memory.batch_jobs.jobs import jobs_of
from nacre.memory.batch_jobs.sync import JobPass, JobTally
from nacre.memory.contracts.embedder import EmbeddingFailed, TextRefused, embedding_texts
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Piece, Store, Vector
from nacre.memory.vectors.batches import batches
from nacre.memory.vectors.cosine_scale import SCALE_ROW, measured_scale
from nacre.memory.vectors.identity import embedder_key as key_of, stored_identity

if TYPE_CHECKING:
    from nacre.memory.contracts.embedder import Embedder

GROUP_CHUNKS = 256
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

    Also measures what the embedder's cosines mean, if that is not known; without an answer to that, nothing
    else is asked for.
    """
    outcome = VectorOutcome()
    try:
        await _keep_scale(store, embedder, embedder_key)
        await _check_owner(store, embedder_key)
    except EmbeddingFailed as error:
        await attach_known_vectors(store, embedder, embedder_key, now_seconds=now_seconds)
        outcome.problem = str(error)
        outcome.pending_chunks = (await store.counts()).pending_chunks
        return outcome
    jobs = jobs_of(embedder)
    held: frozenset[bytes] = frozenset()
    if jobs is not None:
        job_pass = JobPass(
            store, jobs, embedder_key, tally or JobTally(), now_seconds=now_seconds, advance=advance
        )
        held = await job_pass.run(
            lambda known, limit: _missing_texts(store, embedder, embedder_key, now_seconds, known, limit)
        )
        outcome.embedded, outcome.held = job_pass.stored, len(held)
    total = (await store.counts()).pending_chunks
    done = above_id = 0
    while rows := await store.without_vectors(above_id=above_id, limit=GROUP_CHUNKS):
        pieces, texts = pieces_of(rows, embedder.facts.piece_tokens)
        unknown = await store.attach_known(embedder_key, pieces, now_seconds=now_seconds)
        outcome.reused += len(texts) - len(unknown)
        if unknown := unknown - held:
            try:
                await _check_owner(store, embedder_key)
            except EmbeddingFailed as error:
                outcome.problem = str(error)
                break
            call = _Calls(store, embedder, embedder_key, now_seconds, outcome)
            await call.embed({text_hash: texts[text_hash] for text_hash in texts if text_hash in unknown})
            await store.attach_known(embedder_key, pieces, now_seconds=now_seconds)
            if outcome.problem:
                break
        above_id = rows[-1][0]
        done += len(rows)
        advance(done, max(total, done))
    outcome.pending_chunks = (await store.counts()).pending_chunks
    return outcome


async def _missing_texts(
    store: Store, embedder: Embedder, embedder_key: str, now_seconds: int, known: Set[bytes], limit: int
) -> dict[bytes, str]:
    """About `limit` texts of chunks whose vectors are not there, by hash, but those `known` to somebody."""
    missing: dict[bytes, str] = {}
    above_id = 0
    while len(missing) < limit and (
        rows := await store.without_vectors(above_id=above_id, limit=GROUP_CHUNKS)
    ):
        pieces, texts = pieces_of(rows, embedder.facts.piece_tokens)
        unknown = await store.attach_known(embedder_key, pieces, now_seconds=now_seconds) - known
        missing |= {text_hash: texts[text_hash] for text_hash in unknown}
        above_id = rows[-1][0]
    return missing


async def attach_known_vectors(
    store: Store, embedder: Embedder, embedder_key: str, *, now_seconds: int
) -> None:
    """Attaches whatever vectors are stored already; asks no embedder."""
    above_id = 0
    while rows := await store.without_vectors(above_id=above_id, limit=GROUP_CHUNKS):
        pieces, _ = pieces_of(rows, embedder.facts.piece_tokens)
        await store.attach_known(embedder_key, pieces, now_seconds=now_seconds)
        above_id = rows[-1][0]


async def _check_owner(store: Store, embedder_key: str) -> None:
    """Raises `EmbeddingFailed` when the index is another embedder's by now, a fallback's for example."""
    identity = stored_identity(await store.meta())
    if identity and key_of(identity) != embedder_key:
        raise EmbeddingFailed(
            "The index was made another embedder's meanwhile; the next sync decides whose vectors it gets."
        )


async def _keep_scale(store: Store, embedder: Embedder, embedder_key: str) -> None:
    """Measures what this embedder's cosines mean, once, and keeps it with the index.

    Raises:
        EmbeddingFailed: no vectors could be had. A refusal is taken for an answer: the usual scale will do.
    """
    kept = json.loads((await store.meta()).get(SCALE_ROW, "{}"))
    if kept.get("embedder") == embedder_key:
        return
    try:
        scale = await measured_scale(embedder)
    except TextRefused:
        return
    row = {"embedder": embedder_key, "unrelated": float(scale.unrelated), "related": float(scale.related)}
    await store.set_meta({SCALE_ROW: json.dumps(row)})


def pieces_of(
    rows: Sequence[tuple[int, Chunk]], piece_tokens: int | None
) -> tuple[list[Piece], dict[bytes, str]]:
    """The pieces of chunks, and the text behind each hash."""
    pieces: list[Piece] = []
    texts: dict[bytes, str] = {}
    for chunk_id, chunk in rows:
        for number, text in enumerate(embedding_texts(chunk, piece_tokens)):
            text_hash = hashlib.sha256(text.encode()).digest()[:HASH_BYTES]
            pieces.append(Piece(chunk_id=chunk_id, piece=number, text_hash=text_hash))
            texts[text_hash] = text
    return pieces, texts


@dataclass(frozen=True)
class _Calls:
    store: Store
    embedder: Embedder
    key: str
    now_seconds: int
    outcome: VectorOutcome

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
        await self.store.put_vectors(self.key, found, now_seconds=self.now_seconds)
        self.outcome.embedded += sum(vector is not None for vector in vectors)
