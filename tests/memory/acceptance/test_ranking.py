"""The published examples of ranking, through all of it: diversity, decay, and the order they come in."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from nacre.memory.contracts.records import Chunk, ChunkPlace
from nacre.memory.contracts.settings import HybridSettings
from nacre.memory.search.ranking import diverse, mmr_order, placed, rank
from nacre.memory.search.scoring import Candidates, QueryFacts

TODAY = date(2026, 2, 10)
NOW = datetime(2026, 2, 10, 12, tzinfo=UTC)
NETWORK = (
    ("memory/2026-02-10.md", "Configured Omada router, set VLAN 10 for IoT devices", 0.92),
    ("memory/2026-02-08.md", "Configured Omada router, moved IoT to VLAN 10", 0.89),
    ("memory/network.md", "Router: Omada ER605, AdGuard: 192.168.10.2, VLAN 10: IoT", 0.85),
    ("memory/2026-02-05.md", "Set up AdGuard DNS on 192.168.10.2", 0.78),
)


def _chunk(path: str, text: str) -> Chunk:
    return Chunk(
        source="memory",
        path=path,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=(),
        date=None,
        content_hash=text,
        ordinal=0,
    )


def _ranked(
    notes: tuple[tuple[str, str, float], ...],
    settings: dict[str, object],
    *,
    max_results: int = 6,
    min_score: float | None = None,
) -> list[tuple[str, float]]:
    """Notes with the given cosines as their scores, by the literal formula."""
    cosines = {at: score for at, (_, _, score) in enumerate(notes)}
    chunks = {at: _chunk(path, text) for at, (path, text, _) in enumerate(notes)}
    found = Candidates(
        words={},
        nearest=cosines,
        cosines=cosines,
        evidence={},
        places={
            at: ChunkPlace(source="memory", path=path, date=None, changed_at_ns=0)
            for at, (path, _, _) in enumerate(notes)
        },
    )
    hybrid = HybridSettings.model_validate({"fusion": "seed"} | settings)
    asked = QueryFacts(term_counts=[1], chunk_count=len(notes))
    ranked = placed(rank(found, asked, hybrid, count=len(notes), min_score=min_score, now=NOW), chunks)
    if hybrid.mmr.enabled:
        ranked = diverse(ranked, chunks, hybrid.mmr.lambda_, max_results)
    return [(chunks[item.chunk_id].path, round(item.explanation.final, 2)) for item in ranked[:max_results]]


@pytest.mark.parametrize(
    ("lambda_", "order"),
    [(1, [0, 1, 2]), (2, [0, 1, 2]), (0, [0, 2, 1]), (-1, [0, 2, 1]), (0.5, [0, 2, 1])],
)
@pytest.mark.covers("SRCH-12", "SRCH-13")
def test_lambda_chooses_between_relevance_and_difference(lambda_: float, order: list[int]) -> None:
    """SRCH-12, 13: 1 and more is relevance, 0 and less is difference; a database beats a near-duplicate."""
    texts = [
        "machine learning with neural networks",
        "machine learning with deep neural networks",
        "a database index",
    ]

    assert mmr_order(texts, [1.0, 0.95, 0.9], lambda_) == order


@pytest.mark.covers("SRCH-12", "SRCH-13")
def test_diversity_loses_nothing() -> None:
    """SRCH-12, 13: empty stays empty, one stays one, equal texts all stay, negatives are ordered."""
    assert mmr_order([], [], 0.7) == []
    assert mmr_order(["a"], [0.3], 0.7) == [0]
    assert sorted(mmr_order(["same"] * 4, [0.5] * 4, 0.7)) == [0, 1, 2, 3]
    assert mmr_order(["same", "same", "other"], [0.9, 0.9, 0.8], 0.7) == [0, 2, 1]
    assert mmr_order(["a", "b"], [-0.9, -0.2], 0.7) == [1, 0]


@pytest.mark.covers("SEED-10", "Q-33")
def test_the_published_example_of_diversity() -> None:
    """SEED-10: with lambda 0.7 the near-duplicate drops out, in the order and with the scores shown."""
    without = _ranked(NETWORK, {}, max_results=3)
    with_it = _ranked(NETWORK, {"mmr": {"enabled": True}}, max_results=3)

    assert without == [(path, score) for path, _, score in NETWORK[:3]]
    assert with_it == [(path, score) for path, _, score in (NETWORK[0], NETWORK[2], NETWORK[3])]


@pytest.mark.covers("SRCH-15", "SEED-9")
def test_the_published_example_of_decay() -> None:
    """SEED-9, SRCH-15: .91 of 148 days ago falls behind .82 of today and .80 of last week."""
    notes = tuple(
        (f"memory/{TODAY - timedelta(days=days)}.md", "x", score)
        for days, score in ((148, 0.91), (0, 0.82), (7, 0.80))
    )

    ranked = _ranked(notes, {"temporalDecay": {"enabled": True}})

    assert ranked == [(notes[1][0], 0.82), (notes[2][0], 0.68), (notes[0][0], 0.03)]
    assert _ranked(notes, {}) == [(path, score) for path, _, score in notes]


@pytest.mark.covers("Q-32")
def test_an_old_exact_hit_sinks_and_does_not_vanish() -> None:
    """Quirk 32: the usual least score is asked before decay, so age alone never empties the list."""
    old = ((f"memory/{TODAY - timedelta(days=365)}.md", "x", 0.95),)

    assert len(_ranked(old, {"temporalDecay": {"enabled": True}})) == 1
    assert _ranked(old, {"temporalDecay": {"enabled": True}}, min_score=0.35) == []
