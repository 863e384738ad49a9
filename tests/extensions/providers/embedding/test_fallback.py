"""One embedder until it fails, then another for good."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nacre.extensions.providers.embedding.open_embedder import FallbackEmbedder
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused


class Embedding:
    """A real, tiny embedder: one number; fails with what stands in `failure`."""

    def __init__(self, provider: str, number: float) -> None:
        self.facts = EmbedderFacts(provider=provider, model="tiny", fingerprint=provider, batch_texts=10)
        self.number = number
        self.failure: EmbeddingFailed | None = None
        self.closed = False

    async def embed_query(self, text: str) -> Sequence[float]:
        if self.failure:
            raise self.failure
        return [self.number]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [await self.embed_query(text) for text in texts]

    async def close(self) -> None:
        self.closed = True


@pytest.mark.covers("Q-36")
async def test_documents_make_the_switch_and_questions_do_not() -> None:
    """A failing question changes nothing; failing documents change who is asked from the next pass on."""
    first, second, switched = Embedding("one", 1.0), Embedding("two", 2.0), []
    both = FallbackEmbedder(first, second)
    both.on_switch = lambda: switched.append(both.facts.provider)
    first.failure = EmbeddingFailed("one is down.")
    with pytest.raises(EmbeddingFailed, match="one is down"):
        await both.embed_query("where?")
    assert (both.facts.provider, both.reason) == ("one", "")

    one_pass = both.in_use()
    for _ in range(2):
        with pytest.raises(EmbeddingFailed, match=r"one is down\. two makes the embeddings instead"):
            await one_pass.embed_documents(["a"])

    assert switched == ["two"]
    assert one_pass.facts.provider == "one"
    assert (both.facts.provider, both.facts.fingerprint) == ("two", "two")
    assert await both.embed_documents(["a"]) == [[2.0]]
    assert await both.embed_query("where?") == [2.0]


async def test_a_text_that_is_refused_makes_no_switch() -> None:
    """One text that is too long says nothing against the provider."""
    first = Embedding("one", 1.0)
    first.failure = TextRefused("too long")
    both = FallbackEmbedder(first, Embedding("two", 2.0))

    with pytest.raises(TextRefused):
        await both.embed_documents(["a"])
    assert both.facts.provider == "one"


async def test_closing_closes_both() -> None:
    """Nothing stays open behind a fallback."""
    first, second = Embedding("one", 1.0), Embedding("two", 2.0)
    await FallbackEmbedder(first, second).close()

    assert (first.closed, second.closed) == (True, True)
