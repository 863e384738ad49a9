"""What turns texts into vectors, as the index sees it. The contract for every file in `embedders/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Chunk, Fallback
from nacre.records.record import Record


class EmbeddingFailed(MemoryIndexError):
    """The embedder gave no vectors: the sentence says why. Words can still be searched."""


class TextRefused(EmbeddingFailed):
    """The embedder will not take this text (too long, not allowed), now or later."""


class BudgetUsedUp(EmbeddingFailed):
    """The owner's own limit stops it, and nothing is wrong with the embedder: no other is asked instead."""


class VectorsDiffer(EmbeddingFailed):
    """Vectors of another length than those stored for the same embedder: the two cannot be compared."""


class EmbedderFacts(Record):
    """What an index has to know of an embedder; equal facts mean vectors that can be compared.

    `provider` and `model` are shown to the owner; `fingerprint` stands for the endpoint and whatever else
    changes the vectors, and never holds a key. `batch_texts` is the most texts for one call; `piece_tokens`
    the length that one vector stands for best, `None` for a whole chunk. `sentences` says that vectors of
    single sentences are worth their time, because the model is here and costs nothing but that.
    """

    provider: str
    model: str
    fingerprint: str
    batch_texts: int
    piece_tokens: int | None = None
    sentences: bool = False


class Embedder(Protocol):
    """A model that embeds. Its facts change only where it has a fallback (`WithFallback`)."""

    @property
    def facts(self) -> EmbedderFacts: ...

    def reads(self, text: str) -> float:
        """The share of `text`, 0…1, in scripts that the model was trained on; 1 unless known to be less."""

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question.

        Raises:
            EmbeddingFailed: no vector could be had.
        """

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order.

        Raises:
            TextRefused: one of the texts is not taken; ask again with fewer of them.
            EmbeddingFailed: no vectors could be had.
        """

    async def close(self) -> None:
        """Lets go of connections, threads and models."""


@runtime_checkable
class WithFallback(Embedder, Protocol):
    """An embedder that is two: the one that the owner named, and another while that one fails.

    Its facts are those of the one in use. Which one that is, the index remembers for all processes.
    """

    @property
    def first(self) -> Embedder:
        """The one that the owner named."""

    @property
    def second(self) -> Embedder:
        """The one that makes the vectors while the first cannot."""

    @property
    def problem(self) -> str:
        """Why the second is in use, as a sentence about the first; empty while the first is."""

    @property
    def news(self) -> str | None:
        """The `problem` that this process found out and no index has noted yet; `None` when there is none."""

    def noted(self, news: str) -> None:
        """Says that the index knows of these news now."""

    def follow(self, problem: str) -> None:
        """Uses the second because of `problem`, or the first when that is empty, as the index says."""

    def come_back(self) -> None:
        """Uses the first again: it was asked, and answered."""

    def in_use(self) -> Embedder:
        """The one in use, which stays that one: for a pass whose vectors must all be of one model."""


def in_use(embedder: Embedder) -> Embedder:
    """The embedder whose facts stay as they are now, for a pass or a question."""
    return embedder.in_use() if _has_fallback(embedder) else embedder


def _has_fallback(embedder: Embedder) -> TypeGuard[WithFallback]:
    # each search asks twice, and `isinstance` with a protocol of many names takes 20 microseconds
    return hasattr(embedder, "in_use")


def fallback_of(embedder: Embedder | None) -> Fallback | None:
    """Who was left for the embedder in use, and why; `None` when that is the one that was named."""
    if embedder is None or not _has_fallback(embedder) or not embedder.problem:
        return None
    left = embedder.first.facts
    return Fallback(
        provider=left.provider, model=left.model, reason=embedder.problem, to=embedder.facts.provider
    )


def lack_of(embedder: Embedder | None) -> str:
    """What an embedder needs and does not have, such as a key, as a sentence; known without asking it.

    Most lack nothing, and say so by not having the attribute.
    """
    return getattr(embedder, "lack", "")


def embedding_texts(chunk: Chunk, piece_tokens: int | None = None) -> tuple[str, ...]:
    """The texts whose vectors stand for a chunk; the best one counts.

    Whole chunks go under their headings. Pieces are whole lines up to `piece_tokens` (at four characters a
    token, one for scripts without spaces), because a short model reads a paragraph better than a page.
    """
    if piece_tokens is None:
        title = " > ".join(chunk.heading_path)
        return (f"{title}\n{chunk.text}" if title else chunk.text,)
    return tuple(_pieces(chunk.text, 4 * piece_tokens))


def _pieces(text: str, limit_chars: int) -> Iterator[str]:
    held: list[str] = []
    held_chars = 0
    for line in text.split("\n"):
        for part in _line_parts(line, limit_chars):
            if held and held_chars + len(part) > limit_chars:
                yield "\n".join(held)
                held, held_chars = [], 0
            if part.strip():
                held.append(part)
                held_chars += len(part)
    if held:
        yield "\n".join(held)


def _line_parts(line: str, limit_chars: int) -> Iterator[str]:
    """A long line in parts that end at a space where there is one; a little over the limit stays whole."""
    if not line.isascii() and sum(char > "\u2e7f" for char in line) * 2 > len(line):
        limit_chars //= 3
    while len(line) > limit_chars * 3 // 2:
        cut = line.rfind(" ", limit_chars // 2, limit_chars) + 1 or limit_chars
        yield line[:cut]
        line = line[cut:]
    yield line
