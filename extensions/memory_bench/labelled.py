"""A labelled set: a file of questions, a JSON object a line, with the notes in the folder beside it.

    {"query": "which mast?", "category": "name", "date": "2026-01-20",
     "relevant": [{"path": "memory/2026-01-20.md", "startLine": 5, "endLine": 5}]}

`date` is the day on which it is asked, if that matters. A question whose `category` is `adversarial`, or that
has nothing `relevant`, has no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

from nacre.extensions.memory_bench.scoring import Place, Question


class SetInvalid(ValueError):
    """A line of a labelled set cannot be read; the text is a sentence."""


def labelled_questions(text: str) -> Iterator[Question]:
    """The questions of a set.

    Raises:
        SetInvalid: a line is no question.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield _question(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SetInvalid(
                    f"Line {number} is no question: {type(error).__name__}: {error}. It needs query, "
                    "category and relevant, a list of path, startLine and endLine."
                ) from error


def _question(raw: dict[str, Any]) -> Question:
    kind = str(raw.get("category", "question"))
    relevant = () if kind == "adversarial" else raw["relevant"]
    return Question(
        text=str(raw["query"]),
        kind=kind,
        answers=tuple(
            Place(path=str(at["path"]), start_line=int(at["startLine"]), end_line=int(at["endLine"]))
            for at in relevant
        ),
        day=date.fromisoformat(raw["date"]) if raw.get("date") else None,
    )
