"""Vectors of questions: a time limit, a rest after a failure, a memory."""

from __future__ import annotations

import asyncio

from nacre.memory.vectors.query_vectors import REST_SECONDS, QueryVectors
from tests.memory.doubles import DeadEmbedder, SilentEmbedder, WordEmbedder


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_question_is_embedded_once() -> None:
    """Asking the same again needs no embedder."""
    embedder = WordEmbedder()
    questions = QueryVectors(embedder)

    first, second = await questions.vector("tea"), await questions.vector("tea")

    assert first == second
    assert embedder.queries == ["tea"]
    await questions.close()


async def test_a_silent_embedder_costs_one_wait() -> None:
    """A question without an answer is given up after the limit; the next one does not wait at all."""
    embedder = SilentEmbedder()
    questions = QueryVectors(embedder, timeout_seconds=0.05, clock=Clock())

    async with asyncio.timeout(60):
        assert await questions.vector("tea") is None
    assert "0.05 s" in questions.problem
    assert await questions.vector("coffee") is None
    assert embedder.queries == ["tea"]
    await questions.close()


async def test_an_embedder_that_failed_is_asked_again_after_a_rest() -> None:
    """During the rest nobody asks it; afterwards it gets its chance, and the problem is forgotten."""
    clock, embedder = Clock(), DeadEmbedder()
    questions = QueryVectors(embedder, clock=clock)

    assert await questions.vector("tea") is None
    assert "503" in questions.problem
    embedder.alive = True
    assert await questions.vector("tea") is None
    clock.seconds += REST_SECONDS + 1
    assert await questions.vector("tea") is not None
    assert (embedder.calls, questions.problem) == (2, "")
    await questions.close()
