"""Temporal decay: a dated note counts half after each half-life; what is kept on purpose never fades.

Off unless a setting asks for it, because it buries old facts (docs/recall.md). Pure arithmetic.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime

from nacre.memory.contracts.records import ChunkPlace

_DAYS_A_SECOND = 1 / 86_400
_DATED = re.compile(r"(?:^|/)memory/(?:.*\D)??(\d{4})-(\d{2})-(\d{2})(?!\d)[^/]*\.md$")
_EVERGREEN = re.compile(r"(?:MEMORY|memory)\.md$|memory/")


def decay_factor(age_days: float, half_life_days: float) -> float:
    """`exp(−ln 2 / half-life · age)`: 1 today and for days to come, 0.5 after one half-life.

    A half-life that is not a positive number switches decay off.
    """
    if not (math.isfinite(half_life_days) and half_life_days > 0) or not math.isfinite(age_days):
        return 1.0
    return math.exp(-math.log(2) / half_life_days * max(0.0, age_days))


def note_day(path: str) -> date | None:
    """The day that a daily log's path names: `memory/2026-02-10.md`, `memory/2026-02/2026-02-10-standup.md`.

    An impossible day, or digits that run on, make it an ordinary file.
    """
    match = _DATED.search(path.replace("\\", "/").removeprefix("./"))
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


def is_evergreen(place: ChunkPlace) -> bool:
    """Curated memory and undated files under `memory/`, which never fade."""
    path = place.path.replace("\\", "/").removeprefix("./")
    return place.source == "memory" and note_day(path) is None and _EVERGREEN.match(path) is not None


def chunk_decay(place: ChunkPlace, *, now: datetime, half_life_days: float) -> float:
    """The factor for one chunk: by the day in its path, else by its file's last change; 1 if evergreen."""
    day = note_day(place.path)
    if day is not None:
        return decay_factor((now.date() - day).days, half_life_days)
    if is_evergreen(place):
        return 1.0
    seconds = now.timestamp() - place.changed_at_ns / 1e9
    return decay_factor(seconds * _DAYS_A_SECOND, half_life_days)
