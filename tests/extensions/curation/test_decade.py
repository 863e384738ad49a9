"""Two months of a made-up life through a real agent: see `benchmarks/decade.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decade import lived


@pytest.mark.slow
@pytest.mark.parametrize("embedder", ["local", "none"])
async def test_two_months_with_recorded_answers(tmp_path: Path, embedder: str) -> None:
    """Nothing is stale, lost, doubled or marked in error, strangers decide nothing, an idle day is free."""
    figures = await lived(tmp_path, days=60, embedder=embedder)

    assert figures.asked > 40
    assert (figures.stale, figures.lost, figures.lies_first, figures.marked) == ([], [], [], [])
    assert (figures.poisoned, figures.alike, figures.idle_tokens) == (set(), [], 0)
    assert figures.lines > 20
    assert 0 < figures.curated_chars < figures.most_chars


@pytest.mark.slow
async def test_two_months_with_the_offline_responder(tmp_path: Path) -> None:
    """It notes what it recognizes. All of what was said is found, and no answer is an old one."""
    figures = await lived(tmp_path, days=60, is_extracting=True)

    assert figures.asked > 40
    assert (figures.stale, figures.lost, figures.marked) == ([], [], [])
    assert (figures.poisoned, figures.idle_tokens) == (set(), 0)
