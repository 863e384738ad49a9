"""A re-ranker asked with care, and what its order does to hits. The re-rankers here count words or hang."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.engine import MemoryEngine
from nacre.memory.search.rerankers.reranker import REST_SECONDS, Reranking, RerankingFailed
from tests.memory.doubles import open_engine, workspace

NOTES = {
    "memory/2026-03-01.md": "The hive of the north meadow swarms when the lime trees bloom.\n",
    "memory/2026-03-02.md": "The hive in the garden is blue.\n",
    "memory/2026-03-03.md": "Rosa painted the hive, the hive stand and the hive roof.\n",
    "memory/2026-03-04.md": "The dentist moved to the station.\n",
}


class ShortestFirst:
    """Finds the shortest text best, and notes what it was asked."""

    name = "test/shortest"

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.closed = False

    async def load(self) -> None:
        """Nothing to bring in."""

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Fewer characters are a higher number, all of them below 0."""
        self.asked.append((question, texts))
        return [-float(len(text)) for text in texts]

    async def close(self) -> None:
        """Notes it."""
        self.closed = True


class Wrong(ShortestFirst):
    """Gives these numbers, or fails with this sentence."""

    def __init__(self, numbers: Sequence[float] = (), problem: str = "") -> None:
        super().__init__()
        self.numbers, self.problem = numbers, problem

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """What it was told to give."""
        self.asked.append((question, texts))
        if self.problem:
            raise RerankingFailed(self.problem)
        return self.numbers


class Hanging(ShortestFirst):
    """Never answers; says whether somebody still waits."""

    waits = False

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Waits for ever."""
        self.asked.append((question, texts))
        self.waits = True
        try:
            await asyncio.Event().wait()
        finally:
            self.waits = False
        return ()


class SlowToLoad(ShortestFirst):
    """Is loaded when it is told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()

    async def load(self) -> None:
        """Waits for the word."""
        await self.ready.wait()


async def engine_with(tmp_path: Path, reranker: ShortestFirst | None, **rerank: Any) -> MemoryEngine:
    """An engine over the notes, indexed."""
    workspace(tmp_path, NOTES)
    settings = {"query": {"minScore": 0, "rerank": rerank}}
    engine = await open_engine(tmp_path, settings, reranker=reranker)
    await engine.sync(reason="test")
    return engine


async def test_the_order_is_the_re_rankers_and_the_scores_are_those_of_the_places(tmp_path: Path) -> None:
    """Who was last comes first, with the score that the first had; what was sent are question and texts."""
    plain = await engine_with(tmp_path, None)
    usual = await plain.search("Where is the hive?", explain=True)
    await plain.close()
    reranker = ShortestFirst()
    engine = await engine_with(tmp_path, reranker)
    report = await engine.search("Where is the hive?", explain=True)
    status = await engine.status()
    await engine.close()

    lengths = [len(NOTES[hit.path]) for hit in report.hits]
    assert len(lengths) > 2
    assert lengths == sorted(lengths)
    assert [hit.path for hit in report.hits] != [hit.path for hit in usual.hits]
    assert [hit.score for hit in report.hits] == [hit.score for hit in usual.hits]
    assert report.reranked_by == status.reranker == "test/shortest"
    assert report.degraded == status.reranker_problem == usual.reranked_by == ""
    assert all(hit.explain and (hit.explain.relevance or 0) < 0 for hit in report.hits)
    [(question, texts)] = reranker.asked
    assert question == "Where is the hive?"
    assert set(texts) <= {text.strip() for text in NOTES.values()}
    assert reranker.closed


async def test_what_nothing_answers_stays_unanswered(tmp_path: Path) -> None:
    """The least score is asked before: a re-ranker is not even shown what would not be shown."""
    reranker = ShortestFirst()
    engine = await engine_with(tmp_path, reranker)
    report = await engine.search("hive", min_score=1.0)
    await engine.close()
    assert report.hits == ()
    assert reranker.asked == []


async def test_what_loses_its_place_may_be_too_little_there(tmp_path: Path) -> None:
    """An old note has its decay at the lower place too, and the least score is asked once more."""
    old = "The blue hive, our blue hive, is the hive that Rosa painted blue when it rained in the north."
    texts = {"03-13": "The hive is blue.", "03-12": "A hive came in May, from Rosa's meadow.", "01-14": old}
    workspace(tmp_path, {f"memory/2026-{day}.md": f"- {text}\n" for day, text in texts.items()})
    decay = {"query": {"hybrid": {"temporalDecay": {"enabled": True, "halfLifeDays": 90}}}}
    found = []
    for reranker in (None, ShortestFirst()):
        engine = await open_engine(tmp_path, decay, reranker=reranker)
        report = await engine.search("Is the hive blue?", min_score=0.3)
        await engine.close()
        found.append([hit.path[12:17] for hit in report.hits])
    assert found == [["03-13", "01-14", "03-12"], ["03-13", "03-12"]]


async def test_places_behind_the_candidates_stay_behind(tmp_path: Path) -> None:
    """With two candidates the third is no better for being short."""
    reranker = ShortestFirst()
    engine = await engine_with(tmp_path, reranker, candidates=2)
    report = await engine.search("the hive of the garden", explain=True)
    await engine.close()
    assert [len(texts) for _, texts in reranker.asked] == [2]
    assert [hit.explain is not None and hit.explain.relevance is not None for hit in report.hits[:3]] == [
        True,
        True,
        False,
    ]
    scores = [hit.score for hit in report.hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("reranker", "problem"),
    [
        (Wrong(problem="The re-ranker is ill."), "The re-ranker is ill."),
        (Wrong([0.5, 0.4]), "The re-ranker test/shortest returned 2 numbers for 3 texts."),
        (Wrong([0.5, math.nan, 0.1]), "The re-ranker test/shortest returned a number that is not finite."),
        (Wrong([0.5, math.inf, 0.1]), "The re-ranker test/shortest returned a number that is not finite."),
    ],
)
async def test_a_failure_leaves_the_usual_order_and_is_told(
    tmp_path: Path, reranker: Wrong, problem: str
) -> None:
    """In the report and in the status; the next search does not ask again, a deep status does."""
    plain = await engine_with(tmp_path, None)
    usual = await plain.search("hive")
    await plain.close()
    engine = await engine_with(tmp_path, reranker)
    report = await engine.search("hive")
    again = await engine.search("hive")
    status = await engine.status()
    asked = len(reranker.asked)
    deep = await engine.status(deep=True)
    await engine.close()
    assert report.hits == again.hits == usual.hits
    assert report.degraded == again.degraded
    assert problem in report.degraded
    assert report.reranked_by == ""
    assert status.reranker_problem == problem
    assert asked == 1
    assert deep.reranker_problem
    assert len(reranker.asked) == 2


async def test_a_silent_one_is_waited_for_as_long_as_the_settings_say(tmp_path: Path) -> None:
    """Then its request is given up and the hits come."""
    reranker = Hanging()
    engine = await engine_with(tmp_path, reranker, timeoutMs=20)
    report = await engine.search("hive")
    assert not reranker.waits
    await engine.close()
    assert len(report.hits) == 3
    assert "test/shortest did not answer within 0.02 s" in report.degraded


async def test_loading_is_no_part_of_the_time_limit_and_goes_on_behind_a_search() -> None:
    """A model that takes long to load costs one search a wait and no rest is counted from its end."""
    now = 0.0
    reranker = SlowToLoad()
    reranking = Reranking(reranker, candidates=30, timeout_seconds=5, loading_seconds=0.01, clock=lambda: now)
    assert await reranking.relevance("q", ["a", "bb"]) is None
    assert "is not loaded after 0.01 s" in reranking.problem
    reranker.ready.set()
    assert await reranking.relevance("q", ["a", "bb"]) is None, "it is left alone for a while"
    now = REST_SECONDS
    assert await reranking.relevance("q", ["a", "bb"]) == [-1.0, -2.0]
    assert reranking.problem == ""
    await reranking.close()


async def test_what_cannot_be_loaded_is_tried_again_after_the_rest() -> None:
    """The reason is told meanwhile."""
    now, loads = 0.0, 0

    class Missing(ShortestFirst):
        async def load(self) -> None:
            nonlocal loads
            loads += 1
            raise RerankingFailed("The library is not installed.")

    reranking = Reranking(Missing(), candidates=30, timeout_seconds=5, clock=lambda: now)
    for at in (0.0, 1.0, REST_SECONDS):
        now = at
        assert await reranking.relevance("q", ["a", "bb"]) is None
        assert reranking.problem == "The library is not installed."
    await reranking.close()
    assert loads == 2
