"""One request to one answer, by the request's purpose. Pure; never raises for any text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.answers.flush import flush_answer
from nacre.runtime.models.offline.answers.slug import slug_answer
from nacre.runtime.models.offline.answers.summary import compaction_answer
from nacre.runtime.models.offline.answers.turn import turn_answer
from nacre.runtime.models.offline.words.answer import Answer


def respond(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """What the offline responder answers to a request.

    `clock_date` is used when the request does not say what day it is.
    """
    if request.purpose == "compaction":
        return compaction_answer(request, count_tokens=count_tokens)
    if request.purpose == "flush":
        return flush_answer(request, clock_date=clock_date, count_tokens=count_tokens)
    if request.purpose == "slug":
        return slug_answer(request)
    return turn_answer(request, clock_date=clock_date)
