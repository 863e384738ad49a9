"""Scores what an engine found: whether it contains the answer, and the numbers of a whole run.

An engine that returns line ranges is scored by lines, one that returns text by its words. Only the first
`CLIP_CHARS` of a range count, so that returning whole files earns nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import date

from nacre.record import Record

CLIP_CHARS = 2400
_COMPARED_CHARS = 80
_LEAST_CHARS = 8


class Place(Record):
    """A range of lines of a note, 1-based and inclusive."""

    path: str
    start_line: int
    end_line: int


class Question(Record):
    """A question, and the places that answer it, if any. `day` replaces today."""

    text: str
    kind: str
    answers: tuple[Place, ...]
    day: date | None = None


class Found(Record):
    """One result of an engine: text, and its place if the engine knows it."""

    text: str
    place: Place | None = None


class Answer(Record):
    """The outcome of one question: the rank of each of its answers, 0 if it was not found."""

    question: Question
    ranks: tuple[int, ...]
    is_empty: bool
    milliseconds: float


def answered(
    question: Question, found: Sequence[Found], notes: Mapping[str, Sequence[str]], milliseconds: float
) -> Answer:
    """Ranks each answer in what was found; `notes` holds the lines of each note."""
    clipped = [each if each.place is None else _clipped(each, each.place, notes) for each in found]
    ranks = (
        next((rank for rank, each in enumerate(clipped, start=1) if _contains(each, answer, notes)), 0)
        for answer in question.answers
    )
    return Answer(question=question, ranks=tuple(ranks), is_empty=not found, milliseconds=milliseconds)


def numbers(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Recall at 1 and 6, the share of unanswerable questions that got no result, and times.

    A value is `None` if there was no question for it.
    """
    with_answer = [answer for answer in answers if answer.question.answers]
    without = [answer for answer in answers if not answer.question.answers]
    times = sorted(answer.milliseconds for answer in answers)
    return {
        "recallAt1": _mean([_share(answer, 1) for answer in with_answer]),
        "recallAt6": _mean([_share(answer, 6) for answer in with_answer]),
        "abstention": _mean([float(answer.is_empty) for answer in without]),
        "p50Ms": times[len(times) // 2] if times else None,
        "p95Ms": times[int(len(times) * 0.95)] if times else None,
    }


def by_kind(answers: Sequence[Answer]) -> dict[str, dict[str, float | None]]:
    """`numbers` for each kind of question."""
    kinds = sorted({answer.question.kind for answer in answers})
    return {kind: numbers([each for each in answers if each.question.kind == kind]) for kind in kinds}


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def _share(answer: Answer, most: int) -> float:
    return sum(0 < rank <= most for rank in answer.ranks) / len(answer.ranks)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _clipped(found: Found, place: Place, notes: Mapping[str, Sequence[str]]) -> Found:
    lines, chars, last = notes.get(place.path, ()), 0, place.start_line
    for number in range(place.start_line, min(place.end_line, len(lines)) + 1):
        chars += len(lines[number - 1]) + 1
        if chars > CLIP_CHARS and number > place.start_line:
            break
        last = number
    cut = Place(path=place.path, start_line=place.start_line, end_line=last)
    return Found(text=found.text, place=cut)


def _contains(found: Found, answer: Place, notes: Mapping[str, Sequence[str]]) -> bool:
    if found.place is not None:
        return (
            found.place.path == answer.path
            and found.place.start_line <= answer.end_line
            and answer.start_line <= found.place.end_line
        )
    found_words = plain(found.text)
    lines = map(plain, notes.get(answer.path, ())[answer.start_line - 1 : answer.end_line])
    return any(
        len(line) >= _LEAST_CHARS
        and (line[:_COMPARED_CHARS] in found_words or line[-_COMPARED_CHARS:] in found_words)
        for line in lines
    )
