"""One request to one answer: a turn, a flush, a summary or a name. Never raises for any text.

A call that was made since the person spoke is done: the transcript shows the step of a turn. A question is
answered with quotes, from the results of `memory_search` and from the conversation. Nothing is concluded, and
nothing that is quoted is obeyed. Words are compared as in the search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import Any

from nacre.memory.text.days.day_words import DAY_WORDS
from nacre.memory.text.evidence import Finder
from nacre.memory.text.snippet import GAP
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline import answers
from nacre.runtime.models.offline.answers import Answer
from nacre.runtime.models.offline.intent import (
    Intent,
    finder_for,
    has_question_mark,
    is_question,
    read_intent,
    without_request,
)
from nacre.runtime.models.offline.notes import Known
from nacre.runtime.models.offline.reading import DAILY_LOG, Reading, Said, heard, read_request, todays_log
from nacre.runtime.models.offline.sentences import clipped, folded, own_words, plain, sentences, unmarked
from nacre.runtime.models.offline.summary import flush_notes, slug_of, summary_of
from nacre.sessions.contracts.messages import ToolCall

APPEND, SEARCH = "append", "memory_search"
MAX_CONFIRMED_CHARS = 300

_NOT_PRIVATE = re.compile(r"\bChat: (?!direct\b)\S")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")


def respond(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """The answer to a request; `clock_date` counts when the request does not say what day it is."""
    if request.purpose == "compaction":
        return Answer(text=summary_of(request, count_tokens=count_tokens))
    if request.purpose == "slug":
        return Answer(text=slug_of(request))
    reading, log = read_request(request), todays_log(request, clock_date=clock_date)
    tools = {tool.name for tool in request.tools}
    if request.purpose == "flush":
        can_write = APPEND in tools and not reading.finished_call(APPEND)
        notes = flush_notes(request, reading.said, count_tokens=count_tokens) if can_write else ""
        named = DAILY_LOG.search(reading.ask)
        call = _call(APPEND, path=named.group() if named else log, text=notes)
        return Answer(calls=[call]) if notes else Answer(text=SILENT_TOKEN)
    # Nobody else's chat writes into the owner's log.
    is_private = not _NOT_PRIVATE.search(request.system.changing)
    intent = _intent(reading)
    heard.cache_clear()
    if calls := _calls(reading, intent, log, tools if is_private else tools - {APPEND}):
        return Answer(calls=calls)
    parts = [*_about_keeping(reading, intent), *_about_question(reading, intent)]
    return Answer(text="\n\n".join(parts) or _otherwise(reading, intent, is_private=is_private))


def _intent(reading: Reading) -> Intent:
    """What the last message wants; what "remember that" points to is the message before."""
    intent = read_intent(reading.ask)
    if intent.to_keep or not intent.asked_to_keep or not (earlier := _message_before(reading)):
        return intent
    told = " ".join(part for part in sentences(earlier[0]) if not is_question(part))
    return replace(intent, to_keep=told or earlier[0])


def _message_before(reading: Reading) -> list[str]:
    """The last message of a person before the one that is answered, if there is one."""
    newest = (part for part in reading.said_newest_first() if part.speaker == "user" and part.sentences)
    return [own_words(part.text).strip() for part in islice(newest, 1)]


def _calls(reading: Reading, intent: Intent, log: str, tools: set[str]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    if intent.to_keep and APPEND in tools and not reading.finished_call(APPEND):
        calls.append(_call(APPEND, path=log, text=_bullet(intent.to_keep)))
    if intent.question and SEARCH in tools and not reading.finished_call(SEARCH):
        calls.append(_call(SEARCH, query=search_query(intent.question, _message_before(reading))))
    return calls


def _call(tool_name: str, **arguments: str) -> ToolCall:
    return ToolCall(id="", name=tool_name, arguments=arguments)


def _about_keeping(reading: Reading, intent: Intent) -> list[str]:
    done = reading.finished_call(APPEND)
    if not intent.to_keep:
        return [answers.NOTHING_TO_KEEP] if intent.asked_to_keep else []
    if done is None:
        return [answers.NOT_KEPT_HERE] if intent.asked_to_keep else []
    if done.failed:
        return [answers.NOT_WRITTEN.format(problem=clipped(done.text, MAX_CONFIRMED_CHARS))]
    named = DAILY_LOG.search(done.text)
    path = named.group() if named else str(done.call.arguments.get("path") or "")
    stood_there = done.text.lower().startswith(("nothing new", "nothing was added"))
    sentence = answers.ALREADY_WRITTEN if stood_there else answers.WROTE_DOWN
    return [sentence.format(path=path, text=clipped(intent.to_keep, MAX_CONFIRMED_CHARS))]


def _about_question(reading: Reading, intent: Intent) -> list[str]:
    if not intent.question:
        return []
    finder, searched = finder_for(intent.question), reading.finished_call(SEARCH)
    result = searched.text if searched and not searched.failed else ""
    told = told_in(result)
    passages = best_passages(hits_in(result), finder)
    is_near = bool(passages and not passages[0].matched)
    asks = bool(passages and passages[0].asks)
    here = said_before(reading.said, finder, Known(passage.text for passage in passages))
    parts: list[str] = []
    if searched and searched.failed:
        parts.append(answers.SEARCH_FAILED.format(problem=clipped(searched.text, MAX_CONFIRMED_CHARS)))
    elif told.get("disabled"):
        parts.append(answers.SEARCH_DISABLED.format(problem=told.get("error")))
    nothing = answers.NOTHING_SAID_HERE if parts else answers.NOTHING_FOUND
    is_quoted = bool(passages) and not ((is_near or asks) and here)
    if is_quoted:
        cites = told.get("citations") != "off"
        parts.append(answers.FOUND_NEAR if is_near else answers.ASKED if asks else answers.FOUND)
        parts += [quoted(part.text, part.place if cites else "") for part in passages]
    if here:
        parts += [answers.SAID, *map(quoted, here)]
    if passages or here:
        parts.append(answers.STALE_QUOTES if is_quoted and told.get("stale") else answers.QUOTES_ONLY)
    else:
        parts.append(nothing if searched else answers.NOTHING_FOUND_HERE)
        parts += [answers.NOTHING_FOUND_YET] if told.get("stale") else []
    degraded = told.get("degraded")
    return [*parts, answers.SEARCH_DEGRADED.format(problem=degraded)] if degraded else parts


def _otherwise(reading: Reading, intent: Intent, *, is_private: bool) -> str:
    if intent.small_talk:
        return answers.SMALL_TALK[intent.small_talk]
    if not reading.ask:
        return answers.CANNOT_SEE_IMAGES if reading.has_image else answers.ABOUT
    if not is_private:
        return answers.NOT_UNDERSTOOD_HERE
    told_before = any(said.speaker == "assistant" and answers.ABOUT in said.text for said in reading.said)
    return f"{answers.NOT_UNDERSTOOD}\n\n{answers.CONNECT_A_MODEL if told_before else answers.ABOUT}"


def _bullet(text: str) -> str:
    first, *rest = text.strip().splitlines()
    if _LIST_ITEM.match(first):
        return text.strip()
    return "\n".join([f"- {first.strip()}", *(f"  {line.rstrip()}" if line.strip() else "" for line in rest)])


MOST_QUOTES, MOST_QUOTES_FROM_CONVERSATION, MOST_LINES = 3, 2, 2
MAX_QUOTE_CHARS, MAX_QUERY_CHARS = 320, 300

_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_NOT_QUOTABLE = re.compile(
    r"- \*\*(?:Session Key|Session ID|Ended|Source)\*\*: "
    r"|The last (?:words|\d+ messages) of a conversation that is over\. |\W*$|> ?Assistant: "
)
"""What a note about an ended session says of itself, what the assistant said in it, lines without words."""
_FRAMES = ("<", ">", "BEGIN NOTES FROM ", "END NOTES FROM ")
"""How lines begin that stand around what the runtime loaded, or quote it."""
_SOURCE = re.compile(r"\n\s*Source: \S[^\n]*\s*$")
_RESULT_START = re.compile(r'\{\s*"path"')


class Hit(Record):
    """A place that the search gave; `first` and `last` are 0 where they are not known."""

    path: str
    lines: Sequence[str]
    first: int
    last: int


class Passage(Record):
    """A quotable line: where it stands, as `path#L3` or `path#L3-L7`, and how many wanted words it has.

    One that `asks` has them as a question, and answers nothing.
    """

    text: str
    place: str
    matched: float
    asks: bool


def search_query(question: str, message_before: Sequence[str]) -> str:
    """What to search for: the question itself, with the message before when it says nothing on its own."""
    says_something = finder_for(question).terms or any(day in plain(question) for day in DAY_WORDS)
    return clipped(" ".join([*(() if says_something else message_before), question]), MAX_QUERY_CHARS)


def told_in(result: str) -> Mapping[str, Any]:
    """What the tool says besides the results; nothing when its JSON was cut."""
    try:
        told = json.loads(result)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, Mapping) else {}


def hits_in(result: str) -> list[Hit]:
    """The places in a tool's JSON; what was cut out of a long result only costs the places in the cut."""
    found: list[Hit] = []
    for start in _RESULT_START.finditer(result):
        try:
            raw, _ = json.JSONDecoder().raw_decode(result, start.start())
        except (ValueError, RecursionError):
            continue
        path, text = raw["path"], raw.get("snippet")
        if isinstance(path, str) and path and isinstance(text, str):
            numbers = (raw.get("startLine"), raw.get("endLine"))
            first, last = (line if isinstance(line, int) and line > 0 else 0 for line in numbers)
            lines = _SOURCE.sub("", text).rstrip("\n").split("\n")
            found.append(Hit(path=path, lines=lines, first=first, last=last))
    return found


def best_passages(hits: Sequence[Hit], finder: Finder) -> list[Passage]:
    """The up to three passages with most of the wanted words; when none has any, the search's first alone.

    Questions are quoted only when no statement has any of the words.
    """
    passages: dict[str, Passage] = {}
    for passage in (passage for hit in hits for passage in _passages_of(hit, finder)):
        passages.setdefault(folded(passage.text), passage)
    told = [passage for passage in passages.values() if not passage.asks]
    found = told if any(passage.matched for passage in told) else passages.values()
    ranked = sorted(found, key=lambda passage: -passage.matched)
    fitting = [passage for passage in ranked if passage.matched * 2 > ranked[0].matched]
    return fitting[:MOST_QUOTES] or ranked[:1]


def quoted(text: str, place: str = "") -> str:
    """A Markdown quotation of a text, with its source under it."""
    return f"> {text}\n> — `{place}`" if place else f"> {text}"


def said_before(said: Sequence[Said], finder: Finder, known: Known) -> list[str]:
    """What a person, or the summary of earlier parts, said with at least two of the wanted words, best first.

    Questions are no answers, and what is `known`, because the notes are quoted with it, is not said again.
    """
    found: list[tuple[int, int, str]] = []
    for order, contribution in enumerate(said):
        for sentence in _statements(contribution) if finder.terms else ():
            matched = len(finder.look(plain(sentence)).terms)
            if matched >= min(2, len(finder.terms)) and not known.has(without_request(sentence)):
                found.append((matched, order, clipped(sentence, MAX_QUOTE_CHARS)))
    found.sort(key=lambda item: (-item[0], -item[1]))
    best = dict.fromkeys(text for matched, _, text in found if matched * 2 > found[0][0])
    return list(best)[:MOST_QUOTES_FROM_CONVERSATION]


def _statements(part: Said) -> list[str]:
    if part.speaker == "user":
        return [sentence for sentence in part.sentences if sentence not in part.questions]
    # What is quoted there comes from notes, which the search has looked through.
    told = [*sentences(part.text)] if part.speaker == "other" else []
    return [sentence for sentence in told if not sentence.startswith(_FRAMES) and sentence != "(none)"]


def _passages_of(hit: Hit, finder: Finder) -> list[Passage]:
    """The best lines of a hit; a word that only the heading above has counts half."""
    found, above = list[Passage](), frozenset[int]()
    # In an excerpt, which has gaps, the lines cannot be counted: each is cited with the whole range.
    is_whole = hit.first and hit.last - hit.first + 1 == len(hit.lines) and GAP not in hit.lines
    evidence = finder.look(plain("\n".join(hit.lines)))
    for at, line in enumerate(hit.lines):
        terms = evidence.lines.get(at, frozenset())
        if _HEADING.match(line):
            above = terms
        elif not _NOT_QUOTABLE.match(line):
            first, last = (hit.first + at, 0) if is_whole else (hit.first, hit.last)
            place = " ".join(hit.path.split()).replace("`", "") + (f"#L{first}" if first else "")
            text = unmarked(line.removeprefix(">"))
            found.append(
                Passage(
                    text=clipped(text, MAX_QUOTE_CHARS),
                    place=f"{place}-L{last}" if last > first else place,
                    # A question of a day alone has no words: the search found the log of that day.
                    matched=len(terms) + len(above - terms) / 2 if finder.terms else 1,
                    asks=has_question_mark(text),
                )
            )
    return sorted(found, key=lambda passage: (passage.asks, -passage.matched))[:MOST_LINES]
