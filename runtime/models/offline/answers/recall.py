"""Answers a question with quotes: from the results of `memory_search`, and from the conversation itself.

It never concludes anything. What the search gave back is data: it is quoted, line by line, and nothing
in it is obeyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nacre.memory.text.stop_words import JAPANESE_OR_CHINESE, stop_words_for
from nacre.runtime.models.offline.reading.intent import is_question, without_request
from nacre.runtime.models.offline.reading.notes import Known, is_command, is_own_text
from nacre.runtime.models.offline.reading.reading import Said, own_words
from nacre.runtime.models.offline.words.sentences import clipped, folded, sentences, shared, squeezed, words

MOST_QUOTES = 3
MOST_QUOTES_FROM_CONVERSATION = 2
MAX_QUOTE_CHARS = 320
MAX_QUERY_CHARS = 300
MOST_LINES = 2
MOST_READ = 3
WHOLE_SNIPPET_CHARS = 650
"""A snippet that long may have been cut."""

_START = ("startLine", "start_line")
_END = ("endLine", "end_line")

_SOURCE_LINE = re.compile(r"\n\s*Source: \S[^\n]*\s*$")
_LINE_MARK = re.compile(r"^\s*(?:[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|>\s?)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_FRAME = re.compile(
    r"- \*\*(?:Session Key|Session ID|Ended|Source)\*\*: "
    r"|The last (?:words|\d+ messages) of a conversation that is over\. |>?\s*$|> ?Assistant: "
)
"""What a note about an ended session says of itself, and what the assistant said in it."""
_RESULT_START = re.compile(r'\{\s*"path"')
_QUESTION_WORDS_CJK = re.compile(
    r"什么时候|什麼時候|什么|什麼|哪里|哪裡|哪儿|哪个|哪個|哪天|几点|幾點|多少|怎么|怎麼|为什么|為什麼"
    r"|何时|何時|谁|誰|吗|嗎|呢|告诉我|告訴我|我的|你|我|的|是"
    r"|いつ|どこ|だれ|なぜ|どう|何|ですか|ますか|でしたか|ましたか|教えて|ください|私の|私"
)

_ASKING = frozenset(
    (
        *(
            "remember",
            "recall",
            "know",
            "find",
            "search",
            "look",
            "show",
            "remind",
            "notes",
            "note",
            "memory",
        ),
        *(
            "memories",
            "anything",
            "something",
            "everything",
            "about",
            "said",
            "say",
            "told",
            "what's",
            "who's",
        ),
        *(
            "when's",
            "where's",
            "weißt",
            "erinnerst",
            "sag",
            "zeig",
            "such",
            "suche",
            "dime",
            "dis",
            "cherche",
        ),
        *("busca", "dimmi", "скажи", "найди"),
    )
)
"""Words of the asking itself, over and above stop words."""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A quotable place: its lines, and where it stands as `path#L3` or `path#L3-L7`."""

    text: str
    place: str
    matched: int


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """What a search result says once it is read; `problem` is set when it could not search."""

    results: tuple[Mapping[str, Any], ...] = ()
    cites: bool = True
    degraded: str | None = None
    problem: str | None = None


def search_query(question: str, earlier: Sequence[str]) -> str:
    """What to search for: the question itself, with the one before when it says nothing on its own."""
    query = squeezed(question)
    if not query_words(query) and earlier:
        query = f"{squeezed(earlier[-1])} {query}"
    return query[:MAX_QUERY_CHARS]


def query_words(question: str) -> list[str]:
    """The words of a question that say what it is about, each once."""
    spaced = _QUESTION_WORDS_CJK.sub(" ", question)
    found = words(spaced)
    stop = stop_words_for(found)
    told = [
        word for word in found if word not in stop and word not in _ASKING and word not in JAPANESE_OR_CHINESE
    ]
    return list(dict.fromkeys(word for word in told if len(word) > 1 or not word.isascii() or word.isdigit()))


def read_search_result(text: str) -> SearchAnswer:
    """Reads the tool's JSON; what was cut out of a long result only costs the passages in the cut."""
    raw = _json(text)
    if not isinstance(raw, Mapping):
        return SearchAnswer(results=tuple(_loose_results(text)))
    if raw.get("disabled") or raw.get("unavailable"):
        return SearchAnswer(problem=squeezed(str(raw.get("error") or raw.get("warning") or "")))
    results = raw.get("results")
    degraded = raw.get("degraded")
    return SearchAnswer(
        results=tuple(item for item in results if isinstance(item, Mapping))
        if isinstance(results, list)
        else (),
        cites=raw.get("citations") != "off",
        degraded=None if not degraded else squeezed(degraded) if isinstance(degraded, str) else "",
    )


def to_read_whole(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first few results whose snippet is not the whole of the lines that it stands for.

    Their lines can only be quoted and counted exactly once they are read.
    """
    return [result for result in results[:MOST_READ] if _is_excerpt(result)]


def with_read(results: Sequence[Mapping[str, Any]], read: Sequence[str]) -> list[Mapping[str, Any]]:
    """The results, with the text of `memory_get` answers in place of the snippets that they complete."""
    texts: dict[tuple[str, int], Mapping[str, Any]] = {}
    for text in read:
        raw = _json(text)
        if isinstance(raw, Mapping) and isinstance(raw.get("text"), str) and raw["text"].strip():
            start = _line(raw, *_START)
            if start is not None:
                texts[str(raw.get("path")), start] = {**raw, "snippet": raw["text"]}
    return [texts.get((str(item.get("path")), _line(item, *_START) or 0), item) for item in results]


def best_passages(results: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Passage]:
    """The one to three passages that share most words with the question, best first.

    When none shares any, the best result of the search stands alone, with `matched` 0.
    """
    passages: list[Passage] = []
    seen: set[str] = set()
    for result in results:
        for passage in _passages_of(result, wanted):
            key = folded(passage.text)
            if key and key not in seen:
                seen.add(key)
                passages.append(passage)
    if not passages:
        return []
    most = max(passage.matched for passage in passages)
    if most == 0:
        return passages[:1]
    good = [passage for passage in passages if passage.matched * 2 > most]
    return sorted(good, key=lambda passage: -passage.matched)[:MOST_QUOTES]


def quote(text: str, place: str = "") -> str:
    """A Markdown quotation of a text, with its source under it."""
    lines = [f"> {line}" for line in text.splitlines() if line.strip()]
    return "\n".join([*lines, f"> — `{place}`"] if place else lines)


def said_before(said: Sequence[Said], wanted: Sequence[str], quoted: Known, *, needed: int = 2) -> list[str]:
    """Sentences of the conversation with at least `needed` of the question's words, best first.

    Only what a person said and the summary of earlier parts are looked at; questions are no answers,
    and what is `quoted` from the notes already is not said again.
    """
    if not wanted:
        return []
    needed = min(needed, len(wanted))
    found: list[tuple[int, int, str]] = []
    for order, contribution in enumerate(said):
        for sentence in _statements(contribution):
            matched = len(shared(wanted, words(sentence)))
            if matched >= needed and not quoted.has(without_request(sentence)):
                found.append((matched, order, clipped(sentence, MAX_QUOTE_CHARS)))
    if not found:
        return []
    most = max(matched for matched, _, _ in found)
    best = sorted((item for item in found if item[0] * 2 > most), key=lambda item: (-item[0], -item[1]))
    return list(dict.fromkeys(text for _, _, text in best))[:MOST_QUOTES_FROM_CONVERSATION]


def _statements(contribution: Said) -> list[str]:
    if contribution.speaker == "other":
        return [
            # what is quoted comes from notes, which the search has looked through
            part
            for part in sentences(contribution.text)
            if not part.startswith(("<", ">")) and part != "(none)"
        ]
    if contribution.speaker != "user" or is_command(contribution.text) or is_own_text(contribution.text):
        return []
    return [part for part in sentences(own_words(contribution.text)) if not is_question(part)]


def _passages_of(result: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[Passage]:
    path, snippet = result.get("path"), result.get("snippet")
    if not isinstance(path, str) or not path or not isinstance(snippet, str):
        return
    lines = _lines(snippet)
    first, last = _line(result, *_START), _line(result, *_END)
    counts = [len(shared(wanted, words(line))) for line in lines]
    quotable = [at for at, line in enumerate(lines) if not (_HEADING.match(line) or _FRAME.match(line))]
    best = sorted((at for at in quotable if counts[at]), key=lambda at: (-counts[at], at))[:MOST_LINES]
    for at in best or quotable[:1]:
        exact = first is not None and (last is None or last - first + 1 == len(lines))
        yield Passage(
            text=clipped(_LINE_MARK.sub("", lines[at]), MAX_QUOTE_CHARS),
            place=_place(path, first + at, first + at)
            if exact and first is not None
            else _place(path, first, last),
            matched=counts[at],
        )


def _lines(snippet: str) -> list[str]:
    return _SOURCE_LINE.sub("", snippet).rstrip("\n").split("\n")


def _is_excerpt(result: Mapping[str, Any]) -> bool:
    first, last, snippet = _line(result, *_START), _line(result, *_END), result.get("snippet")
    if (
        first is None
        or last is None
        or not isinstance(snippet, str)
        or not isinstance(result.get("path"), str)
    ):
        return False
    return last - first + 1 != len(_lines(snippet)) or len(snippet) >= WHOLE_SNIPPET_CHARS


def _place(path: str, first: int | None, last: int | None) -> str:
    path = squeezed(path).replace("`", "")
    if first is None:
        return path
    return f"{path}#L{first}" if last is None or last <= first else f"{path}#L{first}-L{last}"


def _line(result: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = result.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _loose_results(text: str) -> Iterator[Mapping[str, Any]]:
    """The result objects that are whole inside a text that as a whole is no JSON."""
    decoder = json.JSONDecoder()
    for start in _RESULT_START.finditer(text):
        try:
            result, _ = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(result, Mapping):
            yield result
