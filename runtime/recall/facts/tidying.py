"""Asks a model what of the daily logs belongs into the curated note. What it says is checked line by line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from nacre.memory.files.proposals.note_change import ProposalFailed
from nacre.memory.files.sources.sources import line_key
from nacre.memory.files.tidy.answer import AnswerBroken, TidyInput, edits_in
from nacre.memory.files.tidy.edits import Edit, Place, tidied
from nacre.memory.files.tidy.notes import TidyNotes
from nacre.memory.text.chunker import day_in_path
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.models.failover import held_to_contract
from nacre.sessions.contracts.messages import AssistantMessage, Message, message_text, user_message

MOST_CALLS = 4
"""How many parts of the logs are asked about in one go; older ones wait for the next."""
MOST_INPUT_TOKENS = 30_000
"""Most of one request: with more, models overlook lines."""
ANSWER_TOKENS = 8_000
"""Most of an answer, where the window has room; models that reason count that in."""
LEAST_LOG_TOKENS = 500
"""With less room than this for lines of logs, nothing is asked."""
ANSWER_SECONDS = 180.0

log = logging.getLogger(__name__)


class TidyLimits(Record):
    """`window_tokens` is that of the model, `most_chars` the limit of the curated note."""

    window_tokens: int
    most_chars: int
    count_tokens: Callable[[str], int]

    @property
    def answer_tokens(self) -> int:
        """Most of an answer."""
        return min(ANSWER_TOKENS, self.window_tokens // 6)


class TidyAnswer(Record):
    """What the model proposes. `not_read_until` is the day of the newest log line that there was no room for,
    as an ISO day; `""` if all were read."""

    edits: tuple[Edit, ...]
    not_read_until: str


async def ask_for_edits(model: ChatModel, notes: TidyNotes, limits: TidyLimits, now: Clock) -> TidyAnswer:
    """Asks about the logs part by part, the oldest first, in `MOST_CALLS` requests at most.

    An answer that cannot be used is asked for once more.

    Raises:
        ProposalFailed: the model cannot be asked, its answer cannot be used, or nothing fits into its window.
    """
    text = notes.curated or ""
    room_tokens = _room_tokens(notes, text, limits)
    parts, left = _parts(notes, room_tokens, limits.count_tokens)
    if not parts and len(notes.curated_places(text)) > 1:
        parts = [[]]  # the curated note may contradict itself
    edits: list[Edit] = []
    for part in parts:
        places = (*notes.curated_places(text), *part)
        given = TidyInput(path=notes.path, text=text, places=places, max_chars=limits.most_chars)
        found = await _asked(model, given, part, limits, now)
        text = tidied(notes.path, text, found).after
        edits += found
    newest = max((day.isoformat() for place in left if (day := day_in_path(place.path))), default="")
    return TidyAnswer(edits=tuple(edits), not_read_until=newest)


def request_text(given: TidyInput, part: Sequence[Place]) -> str:
    """The request about one part of the logs."""
    named = {place.number: place.name for place in given.places if place.path == given.path}
    lines = given.text.split("\n")
    curated = "\n".join(
        f"{named[number]}: {line.strip()}" if number in named else line
        for number, line in enumerate(lines, start=1)
    )
    logs = "\n".join(f"{place.name}: {place.text}" for place in part)
    return render(
        "tidy/request",
        path=given.path,
        curated=quoted(curated),
        logs=quoted(logs),
        chars=str(len(given.text)),
        most_chars=str(given.max_chars),
    )


async def _asked(
    model: ChatModel, given: TidyInput, part: Sequence[Place], limits: TidyLimits, now: Clock
) -> tuple[Edit, ...]:
    messages: tuple[Message, ...] = (user_message(request_text(given, part), timestamp_ms=epoch_ms(now())),)
    answer = await _answer(model, messages, limits.answer_tokens)
    try:
        return edits_in(message_text(answer), given)
    except AnswerBroken as error:
        log.info("an answer about %s cannot be used: %s", given.path, error)
        asked = user_message(render("tidy/correction", problem=str(error)), timestamp_ms=epoch_ms(now()))
    again = await _answer(model, (*messages, answer, asked), limits.answer_tokens)
    try:
        return edits_in(message_text(again), given)
    except AnswerBroken as error:
        raise ProposalFailed(
            f"Nothing was changed: the answer of {model.name} cannot be used. {error} Run it again, or with "
            "another model (--model)."
        ) from error


async def _answer(model: ChatModel, messages: tuple[Message, ...], most_tokens: int) -> AssistantMessage:
    request = ModelRequest(
        system=SystemPrompt(stable=render("tidy/system")),
        messages=messages,
        max_output_tokens=most_tokens,
        purpose="tidy",
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            async for item in held_to_contract(model.stream(request), model_name=model.name):
                if isinstance(item, AssistantMessage):
                    return item
    except (ModelError, TimeoutError) as error:
        why = str(error) or f"{model.name} did not answer in {ANSWER_SECONDS:.0f} seconds."
        raise ProposalFailed(f"Nothing was changed. {why}") from error
    raise ProposalFailed(f"Nothing was changed: {model.name} gave no answer.")


def _room_tokens(notes: TidyNotes, text: str, limits: TidyLimits) -> int:
    """How many tokens of log lines one request may have."""
    given = TidyInput(
        path=notes.path, text=text, places=notes.curated_places(text), max_chars=limits.most_chars
    )
    taken = limits.count_tokens(request_text(given, ())) + limits.count_tokens(render("tidy/system"))
    # twice, because an answer that cannot be used is sent back with what is wrong
    room = min(MOST_INPUT_TOKENS, limits.window_tokens - 2 * limits.answer_tokens) - taken
    if room < LEAST_LOG_TOKENS:
        raise ProposalFailed(
            f"{notes.path} alone takes {taken:,} tokens, and a window of {limits.window_tokens:,} has no "
            "room for logs beside it and the answer. Shorten it by hand, or name a model with "
            "a larger one (--model)."
        )
    return room


def _parts(
    notes: TidyNotes, room_tokens: int, count: Callable[[str], int]
) -> tuple[list[list[Place]], list[Place]]:
    """The lines of the logs in parts, the oldest first, and the lines that there is no room for."""
    known = {line_key(place.text) for place in notes.curated_places(notes.curated or "")}
    wanted = [place for place in notes.log_places if line_key(place.text) not in known | {""}]
    parts: list[list[Place]] = [[]]
    left: list[Place] = []
    taken = 0
    for place in reversed(wanted):  # the newest are worth most
        tokens = count(f"> {place.name}: {place.text}\n")
        if taken + tokens > room_tokens and parts[0]:
            parts.insert(0, [])
            taken = 0
        if tokens > room_tokens or len(parts) > MOST_CALLS:
            left.append(place)
            continue
        parts[0].insert(0, place)
        taken += tokens
    return [part for part in parts[-MOST_CALLS:] if part], left
