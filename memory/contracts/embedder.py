"""What turns texts into vectors, as the index sees it. The contract for every file in `embedders/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Fallback
from nacre.record import Record


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
    the length that one vector stands for best, `None` for a whole chunk. `in_process` says that the
    model runs here, so that a further text costs only time. `cosines` are those of unrelated and of related
    texts, for a model whose cosines lie close together.
    """

    provider: str
    model: str
    fingerprint: str
    batch_texts: int
    piece_tokens: int | None = None
    in_process: bool = False
    cosines: tuple[float, float] = (0.0, 1.0)


class LanguagePart(Record):
    """What in a multilingual model's vectors is the language of a text, and not its subject.

    `questions` and `passages` are the means of either over many languages, `directions` the orthonormal ones
    in which languages differ. Without these, a question's cosine with a text that answers it is usually
    `related` above that with the mean of all texts.
    """

    related: float
    questions: Sequence[float]
    passages: Sequence[float]
    directions: Sequence[Sequence[float]]


class Embedder(Protocol):
    """A model that embeds. Its facts change only where it has a fallback (`WithFallback`)."""

    @property
    def facts(self) -> EmbedderFacts: ...

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

    on_switch: Callable[[], None]
    """Called when this process begins to use the other one."""

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
    return embedder.in_use() if has_fallback(embedder) else embedder


def has_fallback(embedder: Embedder | None) -> TypeGuard[WithFallback]:
    """Whether the embedder has another one for the time in which it fails."""
    # each search asks twice, and `isinstance` with a protocol of many names takes 20 microseconds
    return hasattr(embedder, "in_use")


def fallback_of(embedder: Embedder | None) -> Fallback | None:
    """Who was left for the embedder in use, and why; `None` when that is the one that was named."""
    if embedder is None or not has_fallback(embedder) or not embedder.problem:
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


def language_part_of(embedder: Embedder | None) -> LanguagePart | None:
    """That of the embedder in use; most do not know theirs, and say so by not having the attribute."""
    return getattr(in_use(embedder), "language_part", None) if embedder is not None else None
