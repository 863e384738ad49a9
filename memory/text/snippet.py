"""Snippets: up to 700 characters of a chunk around what was asked for.

A snippet has whole lines, or whole sentences of long lines, in order; an ellipsis on its own line marks a
gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nacre.memory.text.evidence import Finder, counted, rarity, share

SNIPPET_CHARS = 700
GAP = "…"
_SEPARATOR = f"\n{GAP}\n"
_LONG_LINE = 240
_NEIGHBOR = 0.6
_REPEATED = 25
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")


def cut_again(snippets: Sequence[str], finder: Finder | None, limits: Sequence[int]) -> list[str]:
    """Shortens the snippets of a search to `limits` characters by rank; the last limit applies to the rest.

    Long lines that a better snippet has, from the overlap of two chunks, are not repeated.
    """
    shown: set[str] = set()
    fresh: list[str] = []
    for snippet in snippets:
        lines = [line for line in snippet.strip().split("\n") if len(line) <= _REPEATED or line not in shown]
        shown.update(lines)
        fresh.append("\n".join(lines).strip())
    evidence = [finder.look(text) for text in fresh] if finder is not None else []
    weights = rarity(counted(evidence, len(finder.terms)), len(fresh)) if finder is not None else ()
    return [
        cut_snippet(text, finder, weights, limits[min(place, len(limits) - 1)])
        for place, text in enumerate(fresh)
    ]


class _Segment(NamedTuple):
    """A line, or a sentence of a long line. `line` counts from 0."""

    text: str
    line: int
    starts_line: bool
    whole_line: bool


def cut_snippet(
    text: str, finder: Finder | None, weights: Sequence[float], limit: int = SNIPPET_CHARS
) -> str:
    """The segments of a text with most of the query, and their surroundings; without a match, the beginning.

    `weights` is the rarity of the finder's terms.
    """
    shown = text.strip("\n")
    if len(shown) <= limit:
        return shown
    segments = list(_segments(text, limit))
    chosen = _chosen(segments, _worth(text, segments, finder, weights), limit)
    return _joined([segments[at] for at in chosen], chosen)


def _segments(text: str, limit: int) -> Iterator[_Segment]:
    for number, line in enumerate(text.split("\n")):
        if len(line) <= _LONG_LINE:
            yield _Segment(line, number, starts_line=True, whole_line=True)
            continue
        first = True
        for sentence in _sentences(line):
            for part in _fitting(sentence, limit):
                yield _Segment(part, number, starts_line=first, whole_line=False)
                first = False


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if end.end() > start:
            yield line[start : end.end()]
            start = end.end()
    if start < len(line):
        yield line[start:]


def _fitting(sentence: str, limit: int) -> Iterator[str]:
    room = limit // 2
    while len(sentence) > limit:
        cut = sentence.rfind(" ", room // 2, room) + 1 or room
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _worth(
    text: str, segments: Sequence[_Segment], finder: Finder | None, weights: Sequence[float]
) -> list[float]:
    if finder is None:
        return [0.0] * len(segments)
    lines = finder.look(text).lines
    own = [
        0.0
        if segment.line not in lines
        else share(
            lines[segment.line] if segment.whole_line else finder.look(segment.text).terms,
            weights,
        )
        for segment in segments
    ]
    return [
        value + _NEIGHBOR * max(own[at - 1] if at else 0.0, own[at + 1] if at + 1 < len(own) else 0.0)
        for at, value in enumerate(own)
    ]


def _chosen(segments: Sequence[_Segment], worth: Sequence[float], limit: int) -> list[int]:
    order = sorted(range(len(segments)), key=lambda at: (-worth[at], at))
    taken: list[int] = []
    room = limit + len(_SEPARATOR)
    for at in order:
        cost = len(segments[at].text) + len(_SEPARATOR)
        if cost <= room and segments[at].text.strip():
            taken.append(at)
            room -= cost
    return sorted(taken)


def _joined(segments: Sequence[_Segment], numbers: Sequence[int]) -> str:
    pieces: list[str] = []
    for place, segment in enumerate(segments):
        if place and numbers[place] != numbers[place - 1] + 1:
            pieces.append(_SEPARATOR)
        elif place and segment.starts_line:
            pieces.append("\n")
        pieces.append(segment.text)
    return "".join(pieces).strip()
