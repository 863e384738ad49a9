"""`bank/opinions.md`: opinions with their confidence, and the log lines that support or contradict each one.

    - @Peter: Prefers short replies. (c=0.95)
      - for: memory/2026-01-20.md#L14 (c=0.95)
      - against: memory/2026-02-02.md#L9 (c=0.80)

The confidence on the page counts, so evidence also moves a number that the owner wrote. It is moved in
log-odds, `L(c) = ln(c / (1 - c))`:

    L(new) = L(old) + STEP * sum(strength)         strength = 2c - 1 for, 1 - 2c against

Sums are exact (`math.fsum`), so the order of the lines does not matter. A line with c above one half that
repeats the opinion raises it, and one that denies it lowers it by as much; c = 0.5 changes nothing, and below
that a line supports the contrary. Age changes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nacre.extensions.curation.pages import (
    LINK,
    OPINIONS,
    joined,
    line_end,
    lines_of,
    new_page,
    with_entities,
    with_items,
)
from nacre.extensions.curation.retain import DEFAULT_CONFIDENCE, Retained
from nacre.memory.text.claims import Claim, is_not

STEP = 0.4
"""What one certain line moves, in log-odds: from .50 to .60, from .90 to .93."""
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.01, 0.99
"""Evidence moves a confidence no further than this. A 0 or 1 that the owner wrote is not moved at all."""

_OPINION = re.compile(r"([-*+] +)((?:@\S+ +)*@[^\s:]+: *)?(.+?)( *\(c=)(\d(?:\.\d+)?)(\)\s*)")
_MIN_LIKENESS = 0.75
"""The share of the longer statement's words that two statements must have in common to be one opinion:
"prefers short replies" and "prefers long replies" are two."""


@dataclass(kw_only=True)
class Opinion:
    """An opinion on line `at` of the page, from 0; `None` for a new one.

    `links` lead to its evidence. `new` has the lines to be added, with true for a line that denies it.
    """

    entities: tuple[str, ...]
    text: str
    confidence: float
    at: int | None
    links: frozenset[str] = frozenset()
    new: list[tuple[Retained, bool]] = field(default_factory=list[tuple[Retained, bool]])

    def agreement(self, item: Retained) -> float:
        """How similar an item is, 0.75 to 1; negative for a denial, 0 for a different opinion."""
        mine, others = ({name.casefold() for name in names} for names in (self.entities, item.entities))
        if mine != others and not mine & others:
            return 0.0
        if self.text.casefold() == item.text.casefold():
            return 1.0
        return _likeness(Claim(self.text), Claim(item.text))

    def settle(self) -> None:
        """Updates the confidence with the new lines."""
        if self.at is not None:
            self.confidence = updated_confidence(self.confidence, _strengths(self.new))
            return
        first = min(item.day for item, _ in self.new)
        initial = initial_confidence(_strengths([line for line in self.new if line[0].day == first]))
        later = _strengths([line for line in self.new if line[0].day != first])
        self.confidence = updated_confidence(initial, later)


def opinions_of(text: str) -> list[Opinion]:
    """The opinions of a page, in order."""
    lines, found = lines_of(text), list[Opinion]()
    for at, line in enumerate(lines):
        item = _OPINION.fullmatch(line)
        if item and float(item[5]) <= 1:
            below = "\n".join(lines[at + 1 : _end(lines, at)])
            names = tuple(name[1:] for name in (item[2] or "").strip().rstrip(":").split())
            found.append(
                Opinion(
                    entities=names,
                    text=item[3],
                    confidence=float(item[5]),
                    at=at,
                    links=frozenset(LINK.findall(below)),
                )
            )
    return found


def with_evidence(text: str, items: Sequence[Retained]) -> tuple[str, list[Opinion]]:
    """The page with these new items, and all opinions on it."""
    opinions = opinions_of(text)
    for item in sorted(items, key=lambda each: (each.day, each.path, each.line)):
        nearest, agreement = _nearest(opinions, item)
        if nearest is None:
            nearest = Opinion(entities=item.entities, text=item.text, confidence=DEFAULT_CONFIDENCE, at=None)
            opinions.append(nearest)
        if item.link not in nearest.links:
            nearest.new.append((item, agreement < 0))
    for opinion in opinions:
        if opinion.new:
            opinion.settle()
    return _page(text or new_page(OPINIONS), opinions) if any(
        each.new for each in opinions
    ) else text, opinions


def _nearest(opinions: Sequence[Opinion], item: Retained) -> tuple[Opinion | None, float]:
    """The most similar opinion, the first of several, and the agreement with it; `None` if it is a new
    one."""
    nearest, highest = None, 0.0
    for opinion in opinions:
        agreement = opinion.agreement(item)
        if abs(agreement) > abs(highest):
            nearest, highest = opinion, agreement
    return nearest, highest


def _page(text: str, opinions: Sequence[Opinion]) -> str:
    lines = lines_of(text)
    for opinion in reversed([each for each in opinions if each.at is not None and each.new]):
        assert opinion.at is not None
        found = _OPINION.fullmatch(lines[opinion.at])
        assert found is not None
        if f"{opinion.confidence:.2f}" != f"{float(found[5]):.2f}":
            shown = f"{opinion.confidence:.2f}"
            lines[opinion.at] = "".join((found[1], found[2] or "", found[3], found[4], shown, found[6]))
        behind = _end(lines, opinion.at)
        lines[behind:behind] = [
            _evidence(item, is_denied) + line_end(text) for item, is_denied in opinion.new
        ]
    text = joined(lines)
    new = ["\n".join(_written(each)) for each in opinions if each.at is None]
    return with_items(text, new) if new else text


def _written(opinion: Opinion) -> list[str]:
    item = f"- {with_entities(opinion.entities, opinion.text)} (c={opinion.confidence:.2f})"
    return [item, *(_evidence(line, is_denied) for line, is_denied in opinion.new)]


def _evidence(item: Retained, is_denied: bool) -> str:
    sure = DEFAULT_CONFIDENCE if item.confidence is None else item.confidence
    side = "against" if strength(sure, is_denied=is_denied) < 0 else "for"
    return f"  - {side}: {item.link} (c={sure:.2f})"


def _strengths(lines: Sequence[tuple[Retained, bool]]) -> list[float]:
    return [
        strength(item.confidence, is_denied=is_denied)
        for item, is_denied in lines
        if item.confidence is not None
    ]


def _likeness(one: Claim, other: Claim) -> float:
    shared = [word for word in one.stems if word in other.stems]
    longest = max(len(_content_stems(one)), len(_content_stems(other)))
    if not shared or len(shared) < _MIN_LIKENESS * longest:
        return 0.0
    share = min(1.0, len(shared) / longest)
    return -share if any(one.stems[word] is not other.stems[word] for word in shared) else share


def _content_stems(claim: Claim) -> list[str]:
    return [word for word in claim.stems if not is_not(word)]


def _end(lines: Sequence[str], at: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end].strip() and lines[end][0] in " \t":
        end += 1
    return end


def strength(confidence: float, *, is_denied: bool) -> float:
    """How strongly a line supports an opinion, -1 to 1; `is_denied` if it states the contrary."""
    return (1 - 2 * confidence) if is_denied else (2 * confidence - 1)


def initial_confidence(strengths: Sequence[float]) -> float:
    """The confidence of a new opinion, 0.01 to 0.99: the average of the lines of its first day."""
    return _bounded((math.fsum(strengths) / len(strengths) + 1) / 2)


def updated_confidence(confidence: float, strengths: Iterable[float]) -> float:
    """The confidence of an opinion after more evidence."""
    total = math.fsum(strengths)
    if not 0 < confidence < 1 or total == 0:
        return confidence
    odds = math.log(confidence / (1 - confidence)) + STEP * total
    updated = _bounded(1 / (1 + math.exp(-odds)) if odds > -700 else 0.0)
    # evidence for a number that the owner wrote beyond the bounds does not pull it back inside
    return max(updated, confidence) if total > 0 else min(updated, confidence)


def _bounded(confidence: float) -> float:
    return min(MAX_CONFIDENCE, max(MIN_CONFIDENCE, confidence))
