"""Questions: read from a labelled set, or made from notes without a model.

A labelled set is a file of JSON objects, one a line, with the notes in the folder beside it:

    {"query": "which mast?", "category": "name", "date": "2026-01-20",
    "relevant": [{"path": "memory/2026-01-20.md", "startLine": 5, "endLine": 5}]}

`date` is the day on which the question is asked, if that matters. A question whose `category` is
`adversarial`, or whose `relevant` is empty, has no answer.

Questions made from notes ask for headings, days and exact names, and for names that no note contains. The
same notes always yield the same questions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from nacre.extensions.memory_bench.scoring import Place, Question
from nacre.memory.text.chunker import day_in, day_in_path
from nacre.memory.text.markdown_blocks import HEADING

_WORD = re.compile(r"[^\W_][\w-]*[^\W_]")
_LEAST_NAME_CHARS = 4


class SetInvalid(ValueError):
    """A line of a labelled set is not valid; the message is a sentence."""


def labelled_questions(text: str) -> Iterator[Question]:
    """Yields the questions of a labelled set.

    Raises:
        SetInvalid: a line is not a question.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield _question(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SetInvalid(
                    f"Line {number} is not a question: {type(error).__name__}: {error}. It needs query, "
                    "category and relevant: a list of path, startLine and endLine."
                ) from error


def _question(value: dict[str, Any]) -> Question:
    kind = str(value.get("category", "question"))
    relevant = () if kind == "adversarial" else value["relevant"]
    return Question(
        text=str(value["query"]),
        kind=kind,
        answers=tuple(
            Place(path=str(at["path"]), start_line=int(at["startLine"]), end_line=int(at["endLine"]))
            for at in relevant
        ),
        day=date.fromisoformat(value["date"]) if value.get("date") else None,
    )


def made_questions(notes: Mapping[str, Sequence[str]], *, most: int) -> list[Question]:
    """Up to `most` questions about the lines of these notes, spread over all of them."""
    names = list(_names(notes))
    known_words = {
        word.casefold() for lines in notes.values() for line in lines for word in _WORD.findall(line)
    }
    kinds = (list(_headings(notes)), list(_days(notes)), names, list(_unknown(names, known_words)))
    return [question for kind in kinds for question in _spread(kind, most // len(kinds))]


def _headings(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Yields unique headings of at least two words, with the lines below them as the answer."""
    found = [section for path, lines in notes.items() for section in _sections(path, lines)]
    counts = Counter(title.casefold() for title, _ in found)
    for title, place in found:
        if counts[title.casefold()] == 1 and len(_WORD.findall(title)) > 1 and day_in(title) is None:
            yield Question(text=title, kind="heading", answers=(place,))


def _sections(path: str, lines: Sequence[str]) -> Iterator[tuple[str, Place]]:
    marks = [(number, found) for number, line in enumerate(lines, 1) if (found := HEADING.match(line))]
    for at, (number, found) in enumerate(marks):
        last = marks[at + 1][0] - 1 if at + 1 < len(marks) else len(lines)
        if any(line.strip() for line in lines[number:last]):
            title = lines[number - 1][found.end() :].strip(" \t\r#")
            yield title, Place(path=path, start_line=number, end_line=last)


def _days(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    days = {path: day for path in notes if (day := day_in_path(path))}
    counts = Counter(days.values())
    for path, day in days.items():
        if counts[day] == 1 and any(line.strip() for line in notes[path]):
            place = Place(path=path, start_line=1, end_line=len(notes[path]))
            yield Question(text=f"What was noted on {day.isoformat()}?", kind="day", answers=(place,))


def _names(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Yields names, numbers and IDs that occur in exactly one line, and not as its first word."""
    places: dict[str, list[tuple[str, Place]]] = {}
    for path, lines in notes.items():
        for number, line in enumerate(lines, 1):
            place = Place(path=path, start_line=number, end_line=number)
            words = list(_WORD.finditer(line))
            for at, word in enumerate(words):
                is_name = at > 0 and _looks_like_a_name(word[0]) and not HEADING.match(line)
                places.setdefault(word[0].casefold(), []).append((word[0] if is_name else "", place))
    for found in places.values():
        name, place = found[0]
        if len(found) == 1 and name:
            yield Question(text=name, kind="name", answers=(place,))


def _looks_like_a_name(word: str) -> bool:
    if len(word) < _LEAST_NAME_CHARS:
        return False
    return word[0].isupper() or (any(map(str.isdigit, word)) and any(map(str.isalpha, word)))


def _unknown(names: Sequence[Question], known_words: set[str]) -> Iterator[Question]:
    for name in names:
        backwards = name.text[::-1].casefold()
        if backwards not in known_words:
            yield Question(text=backwards.capitalize(), kind="nothing", answers=())


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    count = min(most, len(questions))
    return [questions[at * len(questions) // count] for at in range(count)]
