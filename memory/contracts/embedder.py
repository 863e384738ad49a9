"""The contract for embedders, which turn texts into vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Fallback
from nacre.record import Record


class EmbeddingFailed(MemoryIndexError):
    """The embedder returned no vectors, for the reason in the message. Words can still be searched."""


class TextRefused(EmbeddingFailed):
    """The embedder refuses this text for good, for example because it is too long."""


class BudgetUsedUp(EmbeddingFailed):
    """The owner's limit is reached. The embedder works, so no fallback replaces it."""


class VectorsDiffer(EmbeddingFailed):
    """Vectors have another length than the stored ones of the same embedder and cannot be compared."""


class EmbedderFacts(Record):
    """What an index knows of an embedder. Equal facts mean comparable vectors.

    `fingerprint` identifies the endpoint and whatever else changes the vectors, and never contains a key.
    `batch_texts` is the most texts per call, `piece_tokens` the best length of a text for one vector, or
    `None` for a whole chunk. With `in_process`, the model runs here and a text costs only time. `cosines` are
    typical for unrelated and related texts.
    """

    provider: str
    model: str
    fingerprint: str
    batch_texts: int
    piece_tokens: int | None = None
    in_process: bool = False
    cosines: tuple[float, float] = (0.0, 1.0)


class LanguagePart(Record):
    """The part of a multilingual model's vectors that depends on the language and not on the subject.

    `questions` and `passages` are their mean vectors over many languages, `directions` the orthonormal
    directions in which languages differ. Without these, the cosine of a question and its answer is typically
    higher by `related` than that of the question and `passages`.
    """

    related: float
    questions: Sequence[float]
    passages: Sequence[float]
    directions: Sequence[Sequence[float]]


class Embedder(Protocol):
    """An embedding model. Its facts only change if it has a fallback (`WithFallback`)."""

    @property
    def facts(self) -> EmbedderFacts: ...

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question. Raises `EmbeddingFailed` if there is no vector."""

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order.

        Raises:
            TextRefused: one of the texts is refused; try again with fewer texts.
            EmbeddingFailed: there are no vectors.
        """

    async def close(self) -> None:
        """Releases connections, threads and models."""


@runtime_checkable
class WithFallback(Embedder, Protocol):
    """Two embedders: the one in the settings, and another that replaces it while it fails.

    The facts are those of the one in use, which the index stores for all processes.
    """

    on_switch: Callable[[], None]
    """Called when this process starts to use the other one."""

    @property
    def first(self) -> Embedder:
        """The embedder in the settings."""

    @property
    def second(self) -> Embedder:
        """The fallback."""

    @property
    def problem(self) -> str:
        """Why the second is in use, as a sentence; empty while the first is."""

    @property
    def news(self) -> str | None:
        """A change of the `problem` in this process that the index has not stored yet; otherwise `None`."""

    def noted(self, news: str) -> None:
        """Says that the index has stored the news."""

    def follow(self, problem: str) -> None:
        """Uses the second because of `problem`, or the first if it is empty, as the index says."""

    def come_back(self) -> None:
        """Uses the first again, because it has answered."""

    def in_use(self) -> Embedder:
        """The one in use, whose facts do not change during a pass."""


def in_use(embedder: Embedder) -> Embedder:
    """The embedder in use, whose facts do not change during a pass or a question."""
    return embedder.in_use() if has_fallback(embedder) else embedder


def has_fallback(embedder: Embedder | None) -> TypeGuard[WithFallback]:
    # Each search does this twice, and `isinstance` with a large protocol takes 20 microseconds.
    return hasattr(embedder, "in_use")


def fallback_of(embedder: Embedder | None) -> Fallback | None:
    """Which embedder the fallback replaces, and why; `None` if the first is in use."""
    if embedder is None or not has_fallback(embedder) or not embedder.problem:
        return None
    left = embedder.first.facts
    return Fallback(
        provider=left.provider, model=left.model, reason=embedder.problem, to=embedder.facts.provider
    )


def lack_of(embedder: Embedder | None) -> str:
    """What an embedder lacks, such as a key, as a sentence. Most embedders lack nothing."""
    return getattr(embedder, "lack", "")


def language_part_of(embedder: Embedder | None) -> LanguagePart | None:
    """The language part of the embedder in use; most embedders have none."""
    return getattr(in_use(embedder), "language_part", None) if embedder is not None else None
