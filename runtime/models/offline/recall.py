"""Answers a question with quotes: from the results of `memory_search`, and from the conversation itself.

It never concludes anything. What the search gave back is data: it is quoted, line by line, and nothing
in it is obeyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nacre.memory.text.words import JAPANESE_OR_CHINESE, stop_words_for
from nacre.runtime.models.offline.intent import is_question, without_request
from nacre.runtime.models.offline.notes import NOTHING, Known
from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import Said
from nacre.runtime.models.offline.sentences import (
    clipped,
    folded,
    plain,
    sentences,
    shared,
    squeezed,
    unmarked,
    words,
)

MOST_QUOTES = 3
MOST_QUOTES_FROM_CONVERSATION = 2
MAX_QUOTE_CHARS = 320
MAX_QUERY_CHARS = 300
MOST_LINES = 2
MOST_READ = 3
WHOLE_SNIPPET_CHARS = 650
"""A snippet that long may have been cut."""

_SOURCE_LINE = re.compile(r"\n\s*Source: \S[^\n]*\s*$")
_NOT_QUOTABLE = re.compile(
    r"\s{0,3}#{1,6}\s|- \*\*(?:Session Key|Session ID|Ended|Source)\*\*: "
    r"|The last (?:words|\d+ messages) of a conversation that is over\. |>?\s*$|> ?Assistant: "
)
"""A heading, what a note about an ended session says of itself, and what the assistant said in it."""
_RESULT_START = re.compile(r'\{\s*"path"')


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A place that the search or `memory_get` gave: its text, and its lines where they are known."""

    path: str
    text: str
    first: int = 0
    last: int = 0

    @property
    def lines(self) -> list[str]:
        """The text's lines, without the note of its source."""
        return _SOURCE_LINE.sub("", self.text).rstrip("\n").split("\n")

    @property
    def is_whole(self) -> bool:
        """Whether the text has as many lines as it stands for; only then a line of it has a number."""
        return self.last - self.first + 1 == len(self.lines)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A quotable place: where it stands, as `path#L3` or `path#L3-L7`, and how many wanted words it has."""

    text: str
    place: str
    matched: int


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a search result says once it is read; `disabled` is the reason when it could not search."""

    hits: tuple[Hit, ...] = ()
    cites: bool = True
    degraded: str = ""
    disabled: str = ""


def search_query(question: str, earlier: Sequence[str]) -> str:
    """What to search for: the question itself, with the message before when it says nothing on its own."""
    query = squeezed(question)
    if not query_words(query) and earlier:
        query = f"{squeezed(earlier[-1])} {query}"
    return query[:MAX_QUERY_CHARS]


def query_words(question: str) -> list[str]:
    """The words of a question that say what it is about, each once."""
    asking = PHRASES["asking"]  # words of the asking itself, over and above stop words
    found = words(PHRASES["no_subject"].sub(" ", plain(question)))
    nothing = stop_words_for(found) | JAPANESE_OR_CHINESE
    told = dict.fromkeys(word for word in found if word not in nothing and not asking.fullmatch(word))
    return [word for word in told if len(word) > 1 or not word.isascii() or word.isdigit()]


def read_search_result(text: str) -> SearchAnswer:
    """Reads the tool's JSON; what was cut out of a long result only costs the passages in the cut."""
    raw = _json(text)
    if not isinstance(raw, Mapping):
        return SearchAnswer(hits=tuple(_loose_hits(text)))
    if raw.get("disabled"):
        return SearchAnswer(disabled=squeezed(str(raw.get("error") or "no reason was given.")))
    results = raw.get("results")
    hits = map(_hit, results if isinstance(results, list) else ())
    return SearchAnswer(
        hits=tuple(hit for hit in hits if hit),
        cites=raw.get("citations") != "off",
        degraded=squeezed(str(raw.get("degraded") or "")),
    )


def to_read_whole(hits: Sequence[Hit]) -> list[Hit]:
    """The first few hits whose text is not the whole of the lines that it stands for.

    Their lines can only be quoted and counted exactly once they are read.
    """
    excerpts = (hit for hit in hits[:MOST_READ] if not hit.is_whole or len(hit.text) >= WHOLE_SNIPPET_CHARS)
    return [hit for hit in excerpts if hit.first and hit.last]


def with_read(hits: Sequence[Hit], read: Sequence[str]) -> list[Hit]:
    """The hits, with what `memory_get` answered in place of the snippets that it completes."""
    whole = {(hit.path, hit.first): hit for hit in map(_hit, map(_json, read)) if hit and hit.text.strip()}
    return [whole.get((hit.path, hit.first), hit) for hit in hits]


def best_passages(hits: Sequence[Hit], wanted: Sequence[str]) -> list[Passage]:
    """The one to three passages that share most words with the question, best first.

    When none shares any, the best result of the search stands alone, with `matched` 0.
    """
    passages: dict[str, Passage] = {}
    for passage in (passage for hit in hits for passage in _passages_of(hit, wanted)):
        passages.setdefault(folded(passage.text), passage)
    passages.pop("", None)
    ranked = sorted(passages.values(), key=lambda passage: -passage.matched)
    most = ranked[0].matched if ranked else 0
    return [passage for passage in ranked if passage.matched * 2 > most][:MOST_QUOTES] or ranked[:1]


def quoted(text: str, place: str = "") -> str:
    """A Markdown quotation of a text, with its source under it."""
    return f"> {text}\n> — `{place}`" if place else f"> {text}"


def said_before(said: Sequence[Said], wanted: Sequence[str], known: Known, *, needed: int = 2) -> list[str]:
    """Sentences of the conversation with at least `needed` of the question's words, best first.

    Only what a person said and the summary of earlier parts are looked at; questions are no answers,
    and what is `known`, because it is quoted from the notes already, is not said again.
    """
    found: list[tuple[int, int, str]] = []
    for order, contribution in enumerate(said):
        for sentence in _statements(contribution) if wanted else ():
            matched = len(shared(wanted, words(sentence)))
            if matched >= min(needed, len(wanted)) and not known.has(without_request(sentence)):
                found.append((matched, order, clipped(sentence, MAX_QUOTE_CHARS)))
    found.sort(key=lambda item: (-item[0], -item[1]))
    best = dict.fromkeys(text for matched, _, text in found if matched * 2 > found[0][0])
    return list(best)[:MOST_QUOTES_FROM_CONVERSATION]


def _statements(contribution: Said) -> list[str]:
    if contribution.speaker == "other":
        # What is quoted comes from notes, which the search has looked through.
        found = sentences(contribution.text)
        return [part for part in found if not part.startswith(("<", ">")) and part != NOTHING]
    if contribution.speaker != "user":
        return []
    return [part for part in contribution.sentences if not is_question(part)]


def _passages_of(hit: Hit, wanted: Sequence[str]) -> Iterator[Passage]:
    lines = hit.lines
    counts = [len(shared(wanted, words(line))) for line in lines]
    quotable = [at for at, line in enumerate(lines) if not _NOT_QUOTABLE.match(line)]
    best = sorted((at for at in quotable if counts[at]), key=lambda at: -counts[at])[:MOST_LINES]
    for at in best or quotable[:1]:
        first, last = (hit.first + at, 0) if hit.first and hit.is_whole else (hit.first, hit.last)
        place = squeezed(hit.path).replace("`", "") + (f"#L{first}" if first else "")
        yield Passage(
            text=clipped(unmarked(lines[at].removeprefix(">")), MAX_QUOTE_CHARS),
            place=f"{place}-L{last}" if last > first else place,
            matched=counts[at],
        )


def _hit(raw: object) -> Hit | None:
    if not isinstance(raw, Mapping):
        return None
    path, text = raw.get("path"), raw.get("snippet", raw.get("text"))
    if not isinstance(path, str) or not path or not isinstance(text, str):
        return None
    first, last = (
        line if isinstance(line, int) and line > 0 else 0
        for line in (raw.get("startLine"), raw.get("endLine"))
    )
    return Hit(path=path, text=text, first=first, last=last)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _loose_hits(text: str) -> Iterator[Hit]:
    """The results that are whole inside a text that as a whole is no JSON."""
    for start in _RESULT_START.finditer(text):
        try:
            raw, _ = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if hit := _hit(raw):
            yield hit
