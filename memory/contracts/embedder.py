"""What turns texts into vectors, as the index sees it. The contract for every file in `embedders/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import Chunk


class EmbeddingFailed(MemoryIndexError):
    """The embedder gave no vectors: the sentence says why. Words can still be searched."""


class TextRefused(EmbeddingFailed):
    """The embedder will not take this text (too long, not allowed), now or later."""


class BudgetUsedUp(EmbeddingFailed):
    """The owner's own limit stops it, and nothing is wrong with the embedder: no other is asked instead."""


class VectorsDiffer(EmbeddingFailed):
    """Vectors of another length than those stored for the same embedder: the two cannot be compared."""


@dataclass(frozen=True, kw_only=True)
class EmbedderFacts:
    """What an index has to know of an embedder; equal facts mean vectors that can be compared.

    `provider` and `model` are shown to the owner; `fingerprint` stands for the endpoint and whatever else
    changes the vectors, and never holds a key. `batch_texts` is the most texts for one call; `piece_tokens`
    the length that one vector stands for best, `None` for a whole chunk.
    """

    provider: str
    model: str
    fingerprint: str
    batch_texts: int
    piece_tokens: int | None = None


class Embedder(Protocol):
    """A model that embeds. Its facts may change once, when another model takes over."""

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


def handed_over(embedder: Embedder | None) -> str:
    """Why a fallback makes the vectors, as a sentence. Most embedders never do, and have no `reason`."""
    return getattr(embedder, "reason", "")


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
