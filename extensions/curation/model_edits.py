"""Asks a model which lines of the daily logs belong into the curated note, and turns its answer into edits.

Every line that an answer names must be one that the model was given, word for word. Every removed line must
be folded in, word for word, or have a newer line that supersedes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from nacre.extensions.curation.edits import (
    Edit,
    EditKind,
    Place,
    has_lines_below,
    tidied,
    with_citation,
    without_citation,
)
from nacre.extensions.curation.notes import TidyNotes, places
from nacre.extensions.curation.topics import NotAPage, Topics, topic_name, topic_notes, topic_page, topics_in
from nacre.memory.files.proposals import ProposalFailed
from nacre.memory.files.sources.sources import line_key
from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.claims import Claim, is_not
from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.forms.words import stop_words_for
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.models.failover import whole_answer
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.runtime.providers.opening import connected_model, model_budget
from nacre.runtime.settings.config import Config
from nacre.sessions.contracts.messages import AssistantMessage, Message, message_text, user_message

MOST_CALLS = 4
"""The most requests of one run; older parts of the logs wait for the next run."""
MOST_INPUT_TOKENS = 30_000
"""The most tokens of one request; with more, models overlook lines."""
ANSWER_TOKENS = 8_000
"""The most tokens of an answer, including reasoning, if the window has room."""
LEAST_LOG_TOKENS = 500
"""With less room for log lines than this, no request is made."""
MOST_PAGE_TOKENS = 12_000
"""The most tokens of the pages in a request, if the log lines leave them room."""
ANSWER_SECONDS = 180.0

log = logging.getLogger(__name__)

MAX_LINE_CHARS = 600
MAX_REASON_CHARS = 200
_SHOWN_CHARS = 80
_MOST_NAMES = 100
"""The most pages that a request names."""
_FIELDS = frozenset(("from", "remove", "superseded_by", "write", "under", "why"))
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d{3,}")
_BETWEEN = re.compile(r"(?<=\d)[\s./-]+(?=\d)")
"""Separators within one number, such as a telephone number or a date."""
_FENCED = re.compile(r"\s*```[a-z]*\n(.*?)\n?```\s*", re.DOTALL)


class AnswerBroken(Exception):
    """A model's answer cannot be used. The message says why, for the model and for the owner."""


class TidyInput(Record):
    """What a model is given: the curated note, and the lines of it, of pages and of logs that it may name.

    The note and each page may grow to `max_chars`, or to its present length if that is more. Without `pages`,
    no edit may name one. A page is shown if lines of it may be named.
    """

    path: str
    text: str
    places: tuple[Place, ...]
    max_chars: int
    pages: Topics | None = None


def edits_in(answer: str, given: TidyInput) -> tuple[Edit, ...]:
    """The edits of an answer, all of them or none.

    Raises:
        AnswerBroken: the answer is not the expected JSON, names an unknown line, loses one, or makes the note
            too long.
    """
    raw = _json(answer)
    names = {place.name: place for place in given.places}
    edits = tuple(_edit(each, number, given, names) for number, each in enumerate(raw, start=1))
    gone = [place.name for edit in edits for place in edit.removed]
    if twice := next((name for name in gone if gone.count(name) > 1), ""):
        raise AnswerBroken(f"Two edits remove {twice}.")
    for number, edit in enumerate(edits, start=1):
        if lost := next((place.name for place in edit.evidence if place.name in gone and not edit.added), ""):
            raise AnswerBroken(f"Edit {number} depends on {lost}, which another edit removes.")
    made = tidied(given.path, given.text, edits)
    less = "Write less, or remove what is superseded."
    if given.pages is not None:
        less = 'Write less, remove what is superseded, or name a "page".'
    for note in (made, *topic_notes(edits, given.pages or {}, made.after)):
        if len(note.after) > max(given.max_chars, len(note.before or "")):
            raise AnswerBroken(
                f"{note.path} would have {len(note.after):,} characters, more than its limit of "
                f"{given.max_chars:,}. {less}"
            )
    return edits


def _json(answer: str) -> list[Mapping[str, Any]]:
    fenced = _FENCED.fullmatch(answer)
    text = (fenced[1] if fenced else answer).strip()
    try:
        raw = json.loads(text)
        json.dumps(raw, ensure_ascii=False).encode()  # half of a pair, such as \ud83d, cannot be written
    except (ValueError, RecursionError):
        raise AnswerBroken(f"The answer is not JSON: {text[:_SHOWN_CHARS]!r}.") from None
    edits = raw.get("edits") if isinstance(raw, dict) else None
    if not isinstance(edits, list) or not all(isinstance(each, dict) for each in edits):
        raise AnswerBroken('The answer is not an object with a list of objects "edits".')
    return edits


def _edit(raw: Mapping[str, Any], number: int, given: TidyInput, names: Mapping[str, Place]) -> Edit:
    if unknown := sorted(raw.keys() - _FIELDS - ({"page"} if given.pages is not None else set())):
        raise AnswerBroken(f"Edit {number} has {unknown[0]!r}, which is not a field of an edit.")
    quoted = tuple(_quoted(raw.get("from"), number, names))
    removed = tuple(_quoted(raw.get("remove"), number, names))
    newer = tuple(_quoted(raw.get("superseded_by"), number, names))
    added = tuple(_written(raw.get("write"), number))
    page, title = _page(raw.get("page"), number, given)
    edited = page or given.path
    if place := next((place for place in quoted if day_in_path(place.path) is None), None):
        raise AnswerBroken(f'Edit {number} has {place.name} in "from", which takes lines of logs only.')
    if place := next((place for place in removed if place.path != edited), None):
        raise AnswerBroken(f"Edit {number} removes {place.name}: only lines of {edited} can be removed.")
    if place := next((place for place in newer if place in removed), None):
        raise AnswerBroken(f"Edit {number} removes {place.name}, which it names as the newer line.")
    if not (removed or added):
        raise AnswerBroken(f"Edit {number} neither removes nor writes a line.")
    if added and not (quoted or removed):
        raise AnswerBroken(f'Edit {number} writes a line without naming its source in "from" or "remove".')
    is_new = page and page not in (given.pages or {})
    _check_numbers(number, (*added, title) if is_new else added, (*quoted, *removed, *newer))
    added = tuple(with_citation(line, quoted, removed) for line in added)
    _check_below(number, (given.pages or {}).get(page) or given.text, removed)
    _check_kept(number, removed, added, newer)
    why = raw.get("why")
    return Edit(
        kind=_kind(removed, added, newer),
        evidence=tuple(dict.fromkeys((*quoted, *newer))) or removed,
        removed=removed,
        added=added,
        under=_heading(raw.get("under"), number),
        reason=" ".join(why.split())[:MAX_REASON_CHARS] if isinstance(why, str) else "",
        page=page,
        title=title,
    )


def _page(raw: object, number: int, given: TidyInput) -> tuple[str, str]:
    """The path and the title of the page that an edit names; empty without one."""
    if not raw:
        return "", ""
    try:
        return topic_page(raw if isinstance(raw, str) else "", given.pages or {})
    except NotAPage as error:
        raise AnswerBroken(f"Edit {number} names the page {str(raw)[:_SHOWN_CHARS]!r}: {error}.") from None


def _quoted(raw: object, number: int, names: Mapping[str, Place]) -> Iterator[Place]:
    """The lines that a field names; a single line may stand there without a list."""
    for each in raw if isinstance(raw, list) else [raw] if raw else []:
        at, says = (each.get("at"), each.get("says")) if isinstance(each, dict) else (None, None)
        if not isinstance(at, str) or not isinstance(says, str):
            raise AnswerBroken(f'Edit {number} names a line without "at" and "says".')
        place = names.get(at)
        if place is None:
            raise AnswerBroken(f"Edit {number} names {at[:_SHOWN_CHARS]}, which it was not given.")
        if " ".join(says.split()) != " ".join(place.text.split()):
            raise AnswerBroken(
                f"Edit {number} quotes {place.name} as {says[:_SHOWN_CHARS]!r}; that line says "
                f"{place.text[:_SHOWN_CHARS]!r}."
            )
        yield place


def _written(raw: object, number: int) -> Iterator[str]:
    for line in raw if isinstance(raw, list) else [raw] if raw else []:
        if not isinstance(line, str) or not line.strip() or min(line) < " " or len(line.splitlines()) > 1:
            raise AnswerBroken(f"Edit {number} writes something that is not one line of text.")
        if len(line) > MAX_LINE_CHARS or HEADING.match(line) or FENCE.match(line):
            raise AnswerBroken(
                f"Edit {number} writes {line[:_SHOWN_CHARS]!r}: one fact in one line of {MAX_LINE_CHARS} "
                "characters at most, no heading and no code."
            )
        yield line.rstrip() if ITEM.match(line) else f"- {line.strip()}"


def _heading(raw: object, number: int) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str) or len(raw.splitlines()) > 1 or len(raw) > MAX_REASON_CHARS:
        raise AnswerBroken(f'Edit {number} has an "under" that is not a heading.')
    return raw.strip("# \t")


def _kind(removed: Sequence[Place], added: Sequence[str], newer: Sequence[Place]) -> EditKind:
    if added:
        return "fold"
    same = {line_key(place.text) for place in newer}
    return "duplicate" if all(line_key(place.text) in same for place in removed) else "superseded"


def _check_kept(number: int, removed: Sequence[Place], added: Sequence[str], newer: Sequence[Place]) -> None:
    kept = {word for line in added for word in _WORD.findall(fold(line))}
    for place in removed:
        words = _WORD.findall(fold(place.text))
        filler = stop_words_for(words)
        lost = [word for word in words if word not in kept and (word not in filler or is_not(word))]
        about = Claim(place.text).stems.keys()
        if lost and newer and all(about.isdisjoint(Claim(each.text).stems) for each in newer):
            raise AnswerBroken(
                f"Edit {number} would lose {place.name}: {newer[0].name}, which it names as the newer line, "
                "has no word in common with it."
            )
        if lost and not newer:
            raise AnswerBroken(
                f"Edit {number} would lose {place.name}: {lost[0]!r} is not in what it writes, and "
                '"superseded_by" names no line.'
            )


def _check_numbers(number: int, added: Sequence[str], evidence: Sequence[Place]) -> None:
    said = [_BETWEEN.sub("", text) for place in evidence for text in (place.path, place.text)]
    for line in added:
        if wrong := next(
            (found for found in _NUMBER.findall(line) if not any(found in text for text in said)), ""
        ):
            raise AnswerBroken(
                f"Edit {number} writes {wrong}, which none of the lines that it names contains."
            )


def _check_below(number: int, text: str, removed: Sequence[Place]) -> None:
    lines = text.split("\n")
    for place in removed:
        if has_lines_below(lines, place.number) and place.number + 1 not in [each.number for each in removed]:
            raise AnswerBroken(f"Edit {number} removes {place.name} but not the indented lines below it.")


class TidyLimits(Record):
    """The model's context window, the limit of the curated note in characters, and the most requests of one
    run, apart from corrections."""

    window_tokens: int
    most_chars: int
    most_calls: int = MOST_CALLS

    @property
    def answer_tokens(self) -> int:
        return min(ANSWER_TOKENS, self.window_tokens // 6)


class TidyAnswer(Record):
    """The proposed edits. `not_read_until` is the ISO day of the newest log line that did not fit, if any."""

    edits: tuple[Edit, ...]
    not_read_until: str


async def edits_by_model(
    config: Config,
    notes: TidyNotes,
    now: Clock,
    *,
    most_calls: int = MOST_CALLS,
    open_model: Callable[[Config, str, Clock], ChatModel] = connected_model,
) -> TidyAnswer:
    """Asks the model that the settings name; see `ask_for_edits`.

    Raises:
        ConfigError: the model cannot be connected, or its window is too small.
        ProposalFailed: as from `ask_for_edits`.
    """
    async with aclosing(open_model(config, config.model_name, now)) as model:
        limits = TidyLimits(
            window_tokens=(await model_budget(config.settings.agent, model)).window_tokens,
            most_chars=config.settings.agent.bootstrap_max_chars,
            most_calls=most_calls,
        )
        return await ask_for_edits(model, notes, limits, now)


async def ask_for_edits(model: ChatModel, notes: TidyNotes, limits: TidyLimits, now: Clock) -> TidyAnswer:
    """Asks about the logs part by part, oldest first, in at most `limits.most_calls` requests.

    An invalid answer is requested once more.

    Raises:
        ProposalFailed: the model fails, its answers are invalid, or nothing fits into its window.
    """
    given = TidyInput(
        path=notes.path,
        text=notes.curated or "",
        places=notes.curated_places(notes.curated or ""),
        max_chars=limits.most_chars,
        pages=notes.pages,
    )
    room_tokens = _room_tokens(given, limits)
    parts, left = _parts(notes, room_tokens, limits)
    if not parts and len(given.places) > 1:
        parts = [[]]  # the curated note alone may contradict itself
    edits: list[Edit] = []
    for part in parts:
        of_pages = _page_places(given, part, room_tokens)
        found = await _asked(
            model, replace(given, places=(*given.places, *of_pages, *part)), part, limits, now
        )
        text = tidied(given.path, given.text, found).after
        given = replace(given, text=text, places=notes.curated_places(text))
        edits += found
    newest = max((day.isoformat() for place in left if (day := day_in_path(place.path))), default="")
    return TidyAnswer(edits=tuple(edits), not_read_until=newest)


def request_text(given: TidyInput, part: Sequence[Place]) -> str:
    """The request about one part of the logs."""
    curated = _with_places(given.path, given.text, given.places)
    for path in dict.fromkeys(place.path for place in given.places if place.path in (given.pages or {})):
        curated += f"\n\n{path}:\n\n{_with_places(path, (given.pages or {})[path] or '', given.places)}"
    logs = "\n".join(f"{place.name}: {place.text}" for place in part)
    known = [topic_name(path) for path, page in (given.pages or {}).items() if page is not None]
    names = ", ".join([each for each in known if each.isprintable()][:_MOST_NAMES]) or "none"
    pages = render("tidy/pages", path=given.path, names=names) if given.pages is not None else ""
    return render(
        "tidy/request",
        path=given.path,
        curated=quoted(curated),
        logs=quoted(logs),
        chars=str(len(given.text)),
        most_chars=str(given.max_chars),
        pages=pages,
    )


def _with_places(path: str, text: str, named: Sequence[Place]) -> str:
    """The text of a note with the places of the lines that may be named in front."""
    names = {place.number: place.name for place in named if place.path == path}
    return "\n".join(
        f"{names[number]}: {line.strip()}" if number in names else line
        for number, line in enumerate(text.split("\n"), start=1)
    )


def _page_places(given: TidyInput, part: Sequence[Place], room_tokens: int) -> Iterator[Place]:
    """The lines of the pages that log lines name, of those that fit beside these as a whole."""
    pages, logs = given.pages or {}, (f"> {place.name}: {place.text}\n" for place in part)
    room_tokens = min(MOST_PAGE_TOKENS, room_tokens - sum(map(estimate_tokens, logs)))
    for path in topics_in(pages, part):
        text = pages[path] or ""
        found = tuple(places(path, text))
        tokens = estimate_tokens(quoted(_with_places(path, text, found)))
        if tokens <= room_tokens:
            room_tokens -= tokens
            yield from found


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
            return await whole_answer(model, request)
    except (ModelError, TimeoutError) as error:
        why = str(error) or f"{model.name} did not answer in {ANSWER_SECONDS:.0f} seconds."
        raise ProposalFailed(f"Nothing was changed. {why}") from error


def _room_tokens(given: TidyInput, limits: TidyLimits) -> int:
    taken = estimate_tokens(request_text(given, ())) + estimate_tokens(render("tidy/system"))
    # twice, because an invalid answer is sent back with the problem
    room = min(MOST_INPUT_TOKENS, limits.window_tokens - 2 * limits.answer_tokens) - taken
    if room < LEAST_LOG_TOKENS:
        raise ProposalFailed(
            f"{given.path} alone takes {taken:,} tokens, and a window of {limits.window_tokens:,} has no "
            "room for logs beside it and the answer. Shorten it by hand, or name a model with "
            "a larger one (--model)."
        )
    return room


def new_places(notes: TidyNotes) -> list[Place]:
    """The log lines that the curated note does not have, oldest first."""
    known = {line_key(without_citation(place.text)) for place in notes.curated_places(notes.curated or "")}
    return [place for place in notes.log_places if line_key(place.text) not in known | {""}]


def _parts(notes: TidyNotes, room_tokens: int, limits: TidyLimits) -> tuple[list[list[Place]], list[Place]]:
    """The log lines in parts, oldest first, and the lines that do not fit."""
    wanted = new_places(notes)
    parts: list[list[Place]] = [[]]
    left: list[Place] = []
    taken = 0
    for place in reversed(wanted):  # newer lines take precedence
        tokens = estimate_tokens(f"> {place.name}: {place.text}\n")
        if taken + tokens > room_tokens and parts[0]:
            parts.insert(0, [])
            taken = 0
        if tokens > room_tokens or len(parts) > limits.most_calls:
            left.append(place)
            continue
        parts[0].insert(0, place)
        taken += tokens
    return [part for part in parts[-limits.most_calls :] if part], left
