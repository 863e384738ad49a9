"""The part of a chunk that a search shows: at most 700 characters around what was asked for.

Whole lines, or whole sentences of long lines, in their order; a gap is an ellipsis on a line of its own.
Pure text.
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
_NEIGHBOUR = 0.6
_REPEATED = 25
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")


def cut_again(snippets: Sequence[str], finder: Finder | None, limits: Sequence[int]) -> list[str]:
    """The snippets of one search within `limits` of characters, by place; the last limit holds for the rest.

    A line that a better snippet has, from the overlap of two chunks, is not repeated when it is long.
    """
    told: set[str] = set()
    fresh: list[str] = []
    for snippet in snippets:
        lines = [line for line in snippet.strip().split("\n") if len(line) <= _REPEATED or line not in told]
        told.update(lines)
        fresh.append("\n".join(lines).strip())
    evidence = [finder.look(text) for text in fresh] if finder is not None else []
    weights = rarity(counted(evidence, len(finder.terms)), len(fresh)) if finder is not None else ()
    return [
        cut_snippet(text, finder, weights, limits[min(place, len(limits) - 1)])
        for place, text in enumerate(fresh)
    ]


class _Segment(NamedTuple):
    """A line, or a sentence of a long line. `line` counts from 0; `whole_line` is false for sentences."""

    text: str
    line: int
    starts_line: bool
    whole_line: bool


def cut_snippet(
    text: str, finder: Finder | None, weights: Sequence[float], limit: int = SNIPPET_CHARS
) -> str:
    """The segments of `text` that carry most of the query, with what stands around them.

    `weights` is the rarity of the finder's terms. Without a finder, or without a match, it is the beginning.
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
    """A sentence that is longer than a snippet, in parts that end between words where they can."""
    room = limit // 2
    while len(sentence) > limit:
        cut = sentence.rfind(" ", room // 2, room) + 1 or room
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _worth(
    text: str, segments: Sequence[_Segment], finder: Finder | None, weights: Sequence[float]
) -> list[float]:
    """What each segment says about the query, with a part of what its neighbours say."""
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
        value + _NEIGHBOUR * max(own[at - 1] if at else 0.0, own[at + 1] if at + 1 < len(own) else 0.0)
        for at, value in enumerate(own)
    ]


def _chosen(segments: Sequence[_Segment], worth: Sequence[float], limit: int) -> list[int]:
    """The numbers of the segments to show: best first while they fit, then in reading order."""
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
