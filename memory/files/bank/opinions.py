"""`bank/opinions.md`: opinions with their confidence, and the lines that speak for and against each. Pure.

    - @Peter: Prefers short replies. (c=0.95)
      - for: memory/2026-01-20.md#L14 (c=0.95)
      - against: memory/2026-02-02.md#L9 (c=0.80)

The number on the page counts: one that the owner wrote there is what the next evidence moves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nacre.memory.files.bank import confidence
from nacre.memory.files.bank.pages import (
    LINK,
    OPINIONS,
    about,
    joined,
    line_end,
    lines_of,
    titled,
    with_items,
)
from nacre.memory.files.bank.retain import UNSAID_CONFIDENCE, Retained
from nacre.memory.text.claims import Claim, is_not

_OPINION = re.compile(r"([-*+] +)((?:@\S+ +)*@[^\s:]+: *)?(.+?)( *\(c=)(\d(?:\.\d+)?)(\)\s*)")
_ALIKE = 0.75
"""The share of the longer statement's words that both must have to be one opinion: "prefers short replies"
and "prefers long replies" are two."""


@dataclass(kw_only=True)
class Opinion:
    """An opinion: on the page at the line `at`, from 0, or new.

    `links` are those of its evidence, `new` the lines that join it, true for one that denies it.
    """

    entities: tuple[str, ...]
    text: str
    confidence: float
    at: int | None
    links: frozenset[str] = frozenset()
    new: list[tuple[Retained, bool]] = field(default_factory=list[tuple[Retained, bool]])

    def agrees(self, said: Retained) -> float:
        """How much of the same a line says, 0.75 to 1; below 0 when it denies it, 0 when it is another."""
        mine, others = ({name.casefold() for name in names} for names in (self.entities, said.entities))
        if mine != others and not mine & others:
            return 0.0
        if self.text.casefold() == said.text.casefold():
            return 1.0
        return _likeness(Claim(self.text), Claim(said.text))

    def settle(self) -> None:
        """Moves the confidence by what is new."""
        if self.at is not None:
            self.confidence = confidence.moved(self.confidence, _strengths(self.new))
            return
        first = min(said.day for said, _ in self.new)
        begun = confidence.begun(_strengths([line for line in self.new if line[0].day == first]))
        later = _strengths([line for line in self.new if line[0].day != first])
        self.confidence = confidence.moved(begun, later)


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


def weighed(text: str, lines: Sequence[Retained]) -> tuple[str, list[Opinion]]:
    """The page after these lines, none of which was taken before, and all its opinions."""
    opinions = opinions_of(text)
    for said in sorted(lines, key=lambda each: (each.day, each.path, each.line)):
        nearest, share = _nearest(opinions, said)
        if nearest is None:
            opinions.append(_new(said))
        elif said.link not in nearest.links:
            nearest.new.append((said, share < 0))
    for opinion in opinions:
        if opinion.new:
            opinion.settle()
    return _page(text or titled(OPINIONS), opinions) if any(each.new for each in opinions) else text, opinions


def _nearest(opinions: Sequence[Opinion], said: Retained) -> tuple[Opinion | None, float]:
    """The opinion that a line is about, the first of several, and how much of the same it says."""
    nearest, most = None, 0.0
    for opinion in opinions:
        share = opinion.agrees(said)
        if abs(share) > abs(most):
            nearest, most = opinion, share
    return nearest, most


def _new(said: Retained) -> Opinion:
    opinion = Opinion(entities=said.entities, text=said.text, confidence=UNSAID_CONFIDENCE, at=None)
    opinion.new.append((said, False))
    return opinion


def _page(text: str, opinions: Sequence[Opinion]) -> str:
    lines = lines_of(text)
    for opinion in reversed([each for each in opinions if each.at is not None and each.new]):
        assert opinion.at is not None
        item = _OPINION.fullmatch(lines[opinion.at])
        assert item is not None
        if f"{opinion.confidence:.2f}" != f"{float(item[5]):.2f}":
            shown = f"{opinion.confidence:.2f}"
            lines[opinion.at] = "".join((item[1], item[2] or "", item[3], item[4], shown, item[6]))
        behind = _end(lines, opinion.at)
        lines[behind:behind] = [
            _evidence(said, is_denied) + line_end(text) for said, is_denied in opinion.new
        ]
    text = joined(lines)
    new = ["\n".join(_written(each)) for each in opinions if each.at is None]
    return with_items(text, new) if new else text


def _written(opinion: Opinion) -> list[str]:
    said = f"- {about(opinion.entities, opinion.text)} (c={opinion.confidence:.2f})"
    return [said, *(_evidence(line, is_denied) for line, is_denied in opinion.new)]


def _evidence(said: Retained, is_denied: bool) -> str:
    sure = UNSAID_CONFIDENCE if said.confidence is None else said.confidence
    side = "against" if confidence.strength(sure, is_denied=is_denied) < 0 else "for"
    return f"  - {side}: {said.link} (c={sure:.2f})"


def _strengths(lines: Sequence[tuple[Retained, bool]]) -> list[float]:
    return [
        confidence.strength(said.confidence, is_denied=is_denied)
        for said, is_denied in lines
        if said.confidence is not None
    ]


def _likeness(one: Claim, other: Claim) -> float:
    shared = [word for word in one.stems if word in other.stems]
    longest = max(len(_telling(one)), len(_telling(other)))
    if not shared or len(shared) < _ALIKE * longest:
        return 0.0
    share = min(1.0, len(shared) / longest)
    return -share if any(one.stems[word] is not other.stems[word] for word in shared) else share


def _telling(claim: Claim) -> list[str]:
    return [word for word in claim.stems if not is_not(word)]


def _end(lines: Sequence[str], at: int) -> int:
    """The line behind an item and what is indented below it."""
    end = at + 1
    while end < len(lines) and lines[end].strip() and lines[end][0] in " \t":
        end += 1
    return end
