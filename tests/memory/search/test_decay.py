"""How notes fade."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from nacre.memory.contracts.records import ChunkPlace, Source
from nacre.memory.search.ranking import chunk_decay, decay_factor, note_day

NOW = datetime(2026, 2, 10, 12, tzinfo=UTC)
YEARS = 16 * 365 * 86_400.0


def factor(path: str, *, source: Source = "memory", age_seconds: float = YEARS) -> float:
    changed_at_ns = int((NOW.timestamp() - age_seconds) * 1e9)
    place = ChunkPlace(source=source, path=path, date=None, changed_at_ns=changed_at_ns)
    return chunk_decay(place, now=NOW, half_life_days=30)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0, 1.0), (7, 0.8507), (10, 0.7937), (30, 0.5), (90, 0.125), (148, 0.0327), (180, 0.0156), (-3, 1.0)],
)
@pytest.mark.covers("SRCH-15", "SEED-9")
def test_the_published_table_is_met(days: int, expected: float) -> None:
    """The factors for a half-life of 30 days, and none for days to come."""
    assert decay_factor(days, 30) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("half_life", [0, -1, float("nan"), float("inf")])
def test_no_half_life_means_no_decay(half_life: float) -> None:
    """A half-life that makes no sense fades nothing."""
    assert decay_factor(100, half_life) == 1.0


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-02-10.md", date(2026, 2, 10)),
        ("./memory/2026-02-10.md", date(2026, 2, 10)),
        ("memory\\2026-02-10.md", date(2026, 2, 10)),
        ("memory/2026-02/2026-02-15.md", date(2026, 2, 15)),
        ("memory/2026-02-01-blog.md", date(2026, 2, 1)),
        ("memory/morning-summary-2026-02-10.md", date(2026, 2, 10)),
        ("memory/ticket-92025-06-15.md", None),
        ("memory/2026-02-30.md", None),
        ("memory/projects.md", None),
        ("MEMORY.md", None),
    ],
)
@pytest.mark.covers("SRCH-16")
def test_the_day_is_in_the_path(path: str, day: date | None) -> None:
    """Folders, slugs before and after are allowed; impossible days and longer numbers are not days."""
    assert note_day(path) == day


@pytest.mark.parametrize("path", ["MEMORY.md", "memory.md", "memory/projects.md", "memory/work/network.md"])
@pytest.mark.covers("SRCH-15")
def test_evergreen_files_never_fade(path: str) -> None:
    """Curated memory counts fully, however old its file is."""
    assert factor(path, age_seconds=YEARS) == 1.0


@pytest.mark.parametrize(("path", "source"), [("sessions/a.jsonl", "sessions"), ("notes/plan.md", "memory")])
@pytest.mark.covers("SRCH-15")
def test_a_transcript_fades_by_its_file(path: str, source: Source) -> None:
    """A transcript of thirty days ago counts half, and so does a note of `extraPaths`."""
    assert factor(path, source=source, age_seconds=30 * 86_400.0) == pytest.approx(0.5)
    assert factor(path, source=source, age_seconds=0) == 1.0


def test_the_worked_example_comes_out() -> None:
    """A stale note sinks below a week-old one and today's."""
    scores = {"2025-09-15": 0.91, "2026-02-10": 0.82, "2026-02-03": 0.80}
    faded = {day: round(score * factor(f"memory/{day}.md"), 2) for day, score in scores.items()}
    assert faded == {"2025-09-15": 0.03, "2026-02-10": 0.82, "2026-02-03": 0.68}
