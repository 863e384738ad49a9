"""Temporal decay: a dated note counts half after each half-life; what is kept on purpose never fades.

Off unless a setting asks for it, because it buries old facts (docs/recall.md). Pure arithmetic.
"""

from __future__ import annotations

import math
import re
from datetime import date

from nacre.memory.records import Chunk

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


def is_evergreen(chunk: Chunk) -> bool:
    """Curated memory and undated files under `memory/`, which never fade."""
    path = chunk.path.replace("\\", "/").removeprefix("./")
    return chunk.source == "memory" and note_day(path) is None and _EVERGREEN.match(path) is not None


def chunk_decay(
    chunk: Chunk, *, today: date, half_life_days: float, modified_seconds_ago: float | None
) -> float:
    """The factor for one chunk: by the day in its path, else by the file's age; 1 for evergreen files.

    `modified_seconds_ago` is the age of the file's last change, `None` when not known: then nothing fades.
    """
    day = note_day(chunk.path)
    if day is not None:
        return decay_factor((today - day).days, half_life_days)
    if is_evergreen(chunk) or modified_seconds_ago is None:
        return 1.0
    return decay_factor(modified_seconds_ago * _DAYS_A_SECOND, half_life_days)
