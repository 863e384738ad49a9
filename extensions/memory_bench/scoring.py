"""Whether what was found holds the answer, and what that makes of an engine. Pure.

An engine that gives places is measured by lines, one that gives words by words. A place longer than
`CLIP_CHARS` counts only for its first lines, so that whole files earn nothing.
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
    """Lines of a note, from 1 and inclusive."""

    path: str
    start_line: int
    end_line: int


class Question(Record):
    """What is asked, and where the answer stands, if there is one. `day` is taken for today."""

    text: str
    kind: str
    answers: tuple[Place, ...]
    day: date | None = None


class Found(Record):
    """One thing that an engine gave, the best first: a place, or words alone."""

    text: str
    place: Place | None = None


class Answer(Record):
    """What came of one question: the rank of each of its answers, 0 for one that was not found."""

    question: Question
    ranks: tuple[int, ...]
    is_empty: bool
    milliseconds: float


def answered(
    question: Question, found: Sequence[Found], notes: Mapping[str, Sequence[str]], milliseconds: float
) -> Answer:
    """Looks for each answer in what was found; `notes` has the lines of each note."""
    clipped = [each if each.place is None else _clipped(each, each.place, notes) for each in found]
    ranks = (
        next((rank for rank, each in enumerate(clipped, start=1) if _holds(each, answer, notes)), 0)
        for answer in question.answers
    )
    return Answer(question=question, ranks=tuple(ranks), is_empty=not found, milliseconds=milliseconds)


def numbers(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Recall at 1 and 6, the share of questions without an answer that got nothing, and times.

    `None` where nothing was asked.
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
    """The numbers for each kind of question."""
    kinds = sorted({answer.question.kind for answer in answers})
    return {kind: numbers([each for each in answers if each.question.kind == kind]) for kind in kinds}


def plain(text: str) -> str:
    """Words alone, in lower case, with single blanks."""
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


def _holds(found: Found, answer: Place, notes: Mapping[str, Sequence[str]]) -> bool:
    if found.place is not None:
        return (
            found.place.path == answer.path
            and found.place.start_line <= answer.end_line
            and answer.start_line <= found.place.end_line
        )
    said = plain(found.text)
    lines = map(plain, notes.get(answer.path, ())[answer.start_line - 1 : answer.end_line])
    return any(
        len(line) >= _LEAST_CHARS and (line[:_COMPARED_CHARS] in said or line[-_COMPARED_CHARS:] in said)
        for line in lines
    )
