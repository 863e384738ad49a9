"""The vectors of sentences: each different one is asked for once, and a refused one costs only its text."""

from __future__ import annotations

from nacre.memory.vectors.sentence_vectors import sentence_vectors
from tests.memory.doubles import RefusingEmbedder, WordEmbedder

SOUP, BRIDGE, FENCE = "Dinner was soup.", "The car broke down near the bridge.", "Anna painted the fence."


async def test_a_sentence_of_several_texts_is_embedded_once() -> None:
    """Chunks overlap: what the next text shares with this one, or with the texts before, has a vector."""
    embedder = WordEmbedder()
    first = await sentence_vectors(embedder, [[SOUP, BRIDGE], [BRIDGE]], {})
    second = await sentence_vectors(embedder, [[BRIDGE, FENCE]], first)

    assert embedder.asked == [SOUP, BRIDGE, FENCE]
    assert first == {each: embedder._vector(each) for each in (SOUP, BRIDGE)}
    assert second == {each: embedder._vector(each) for each in (BRIDGE, FENCE)}


async def test_a_refused_sentence_costs_only_the_texts_that_have_it() -> None:
    """The others of the same call are asked for again, one text at a time."""
    embedder = RefusingEmbedder("bridge")
    found = await sentence_vectors(embedder, [[SOUP], [BRIDGE], [FENCE]], {})

    assert found == {each: embedder._vector(each) for each in (SOUP, FENCE)}
