"""How evidence moves the confidence of an opinion. Pure.

In log-odds, after the day's weight of evidence: `L(c) = ln(c / (1 - c))`, and for a number of lines

    L(new) = L(old) + STEP * sum(strength)         strength = 2c - 1 for, 1 - 2c against

Sums are exact (`math.fsum`), so the order of the lines does not matter. A line with c above one half that
says the same raises the opinion, one that says the contrary lowers it by as much; c = 0.5 says nothing, and
below it a line speaks for the contrary. Age changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

STEP = 0.4
"""What one line that is certain moves, in log-odds: from .50 to .60, from .90 to .93."""
LEAST, MOST = 0.01, 0.99
"""Evidence leads no further. Only a hand writes 0 or 1, and then no evidence moves it."""


def strength(confidence: float, *, is_denied: bool) -> float:
    """What a line says for an opinion, from -1 to 1; `is_denied` when it says the contrary."""
    return (1 - 2 * confidence) if is_denied else (2 * confidence - 1)


def begun(strengths: Sequence[float]) -> float:
    """The confidence of a new opinion: what the lines of its first day say on the average, 0.01 to 0.99."""
    return _bounded((math.fsum(strengths) / len(strengths) + 1) / 2)


def moved(confidence: float, strengths: Iterable[float]) -> float:
    """The confidence after more lines."""
    total = math.fsum(strengths)
    if not 0 < confidence < 1 or total == 0:
        return confidence
    odds = math.log(confidence / (1 - confidence)) + STEP * total
    there = _bounded(1 / (1 + math.exp(-odds)) if odds > -700 else 0.0)
    # what stands outside of the bounds by hand is not drawn inside by evidence for it
    return max(there, confidence) if total > 0 else min(there, confidence)


def _bounded(confidence: float) -> float:
    return min(MOST, max(LEAST, confidence))
