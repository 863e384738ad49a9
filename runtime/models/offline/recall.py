"""Answers a question with quotes: from the results of `memory_search`, and from the conversation itself.

It never concludes anything, and obeys nothing that it quotes. Words are compared as the search does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nacre.memory.text.days.day_words import DAY_WORDS
from nacre.memory.text.evidence import Finder
from nacre.memory.text.snippet import GAP
from nacre.record import Record
from nacre.runtime.models.offline.intent import finder_for, has_question_mark, without_request
from nacre.runtime.models.offline.notes import Known
from nacre.runtime.models.offline.reading import Said
from nacre.runtime.models.offline.sentences import clipped, folded, plain, sentences, unmarked

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
