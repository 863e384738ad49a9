"""Questions about somebody's own notes, made without a model: from headings, days and exact names. Pure.

Beside them stand questions that nothing answers: names that occur in no note, made of names that do. The same
notes always give the same questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nacre.extensions.memory_bench.scoring import Place, Question
from nacre.memory.text.chunker import day_in, day_in_path
from nacre.memory.text.markdown_blocks import HEADING

_WORD = re.compile(r"[^\W_][\w-]*[^\W_]")
_LEAST_NAME_CHARS = 4


def made_questions(notes: Mapping[str, Sequence[str]], *, most: int) -> list[Question]:
    """At most `most` questions about the lines of these notes, spread over all of them."""
    names = list(_names(notes))
    known = {word.casefold() for lines in notes.values() for line in lines for word in _WORD.findall(line)}
    kinds = (list(_headings(notes)), list(_days(notes)), names, list(_unknown(names, known)))
    return [question for kind in kinds for question in _spread(kind, most // len(kinds))]


def _headings(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Headings of two words and more that stand once, and what stands under them."""
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
    """Days of which there is one log alone."""
    days = {path: day for path in notes if (day := day_in_path(path))}
    counts = Counter(days.values())
    for path, day in days.items():
        if counts[day] == 1 and any(line.strip() for line in notes[path]):
            place = Place(path=path, start_line=1, end_line=len(notes[path]))
            yield Question(text=f"What was noted on {day.isoformat()}?", kind="day", answers=(place,))


def _names(notes: Mapping[str, Sequence[str]]) -> Iterator[Question]:
    """Names, numbers and ids that stand in one line alone, and not as the first word of it."""
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


def _unknown(names: Sequence[Question], known: set[str]) -> Iterator[Question]:
    """Names spelt backwards, should no note have them."""
    for name in names:
        backwards = name.text[::-1].casefold()
        if backwards not in known:
            yield Question(text=backwards.capitalize(), kind="nothing", answers=())


def _spread(questions: Sequence[Question], most: int) -> list[Question]:
    count = min(most, len(questions))
    return [questions[at * len(questions) // count] for at in range(count)]
