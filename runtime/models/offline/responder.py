"""Answers one request: a turn, a flush, a summary or a slug. It raises for no text.

The transcript shows which calls of a turn are done. A question is answered with quotes from the results of
`memory_search` and from the conversation, without conclusions; quoted text is never followed as an
instruction. Words are compared as in the search. A summary and the notes of a flush consist of sentences from
the conversation.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain, islice, zip_longest

from nacre.memory.text.days.day_words import DAY_WORDS
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.forms.words import stop_words_for
from nacre.memory.text.snippet import GAP
from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline import answers
from nacre.runtime.models.offline.answers import Answer, is_quoting
from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import (
    DAILY_LOG,
    KINDS,
    MAX_CONFIRMED_CHARS,
    SENTENCE_CHARS,
    Hit,
    Intent,
    Known,
    Reading,
    Said,
    Search,
    finder_for,
    finished_calls,
    has_question_mark,
    is_answer,
    is_question,
    kind_of,
    read_intent,
    read_labeled,
    read_request,
    read_search,
    reminder_line,
    todays_log,
    told_later,
    without_request,
)
from nacre.runtime.models.offline.sentences import clipped, folded, own_words, plain, sentences, unmarked
from nacre.sessions.compaction.facts import has_identifier
from nacre.sessions.contracts.messages import ToolCall, message_text

APPEND, SEARCH = "append", "memory_search"
REMINDERS = "memory/reminders.md"

_NOT_PRIVATE = re.compile(r"\bChat: (?!direct\b)\S")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")


def respond(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """The answer to a request. `clock_date` is today if the request does not state a date."""
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
    # Only the owner's private chat may write into the log.
    is_private = not _NOT_PRIVATE.search(request.system.changing)
    intent = _intent(reading)
    if calls := _calls(reading, intent, log, tools if is_private else tools - {APPEND}):
        return Answer(calls=calls)
    parts = [*_due(request), *_about_keeping(reading, intent), *_about_question(reading, intent)]
    return Answer(text="\n\n".join(parts) or _otherwise(reading, intent, is_private=is_private))


def _due(request: ModelRequest) -> list[str]:
    """The reminders of this turn, which the runtime has ticked when it ends."""
    tasks = request.system.tail.partition(render("tail/reminders", text="").strip())[2]
    return [answers.REMINDER.format(text=unmarked(line)) for line in tasks.split("\n> ")[1:]]


def _intent(reading: Reading) -> Intent:
    """The intent of the last message. "Remember that" refers to the message before it."""
    intent = read_intent(reading.ask)
    if intent.to_keep or not intent.asked_to_keep or not (earlier := _message_before(reading)):
        return intent
    told = " ".join(part for part in sentences(earlier[0]) if not is_question(part))
    return replace(intent, to_keep=told or earlier[0])


def _message_before(reading: Reading) -> list[str]:
    """The last message of a person before the current one, if there is one."""
    newest = (part for part in reading.said_newest_first() if part.speaker == "user" and part.sentences)
    return [own_words(part.text).strip() for part in islice(newest, 1)]


def _calls(reading: Reading, intent: Intent, log: str, tools: set[str]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    if intent.to_keep and APPEND in tools and not reading.finished_call(APPEND):
        # Each fact that was kept unasked is a line of its own, which can be forgotten alone.
        notes = [intent.to_keep] if intent.asked_to_keep else intent.to_keep.splitlines()
        task = reminder_line(intent.to_keep)
        text = task or "\n".join(map(_bullet, notes))
        calls.append(_call(APPEND, path=REMINDERS if task else log, text=text))
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


def _about_question(reading: Reading, intent: Intent) -> Iterator[str]:
    """The paragraphs about a question: quotes from notes and conversation, or that there are none."""
    if not intent.question:
        return
    finder, search = finder_for(intent.question), read_search(reading.finished_call(SEARCH))
    passages = best_passages(search.hits, finder)
    here = said_before(reading.said, finder, Known(passage.text for passage in passages))
    lead = _lead_to(passages)
    if here and lead != answers.FOUND:
        passages = []  # what was said here is nearer than notes that do not answer
    if search.problem:
        yield search.problem
    if passages:
        yield lead
        yield from (quoted(passage.text, passage.place if search.cites else "") for passage in passages)
    if here:
        yield answers.SAID
        yield from map(quoted, here)
    if passages or here:
        yield answers.STALE_QUOTES if passages and search.is_stale else answers.QUOTES_ONLY
    else:
        yield _nothing_found(search)
        if search.is_stale:
            yield answers.NOTHING_FOUND_YET
    if search.degraded:
        yield answers.SEARCH_DEGRADED.format(problem=search.degraded)


def _lead_to(passages: Sequence[Passage]) -> str:
    """The sentence above quotes from notes, by the first of them."""
    if not passages or not passages[0].matched:
        return answers.FOUND_NEAR
    return answers.ASKED if passages[0].asks else answers.FOUND


def _nothing_found(search: Search) -> str:
    if not search.was_run:
        return answers.NOTHING_FOUND_HERE
    return answers.NOTHING_SAID_HERE if search.problem else answers.NOTHING_FOUND


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
MAX_QUOTE_CHARS, MAX_NOTE_CHARS, MAX_QUERY_CHARS = 320, 400, 300

_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_NOT_QUOTABLE = re.compile(
    r"- \*\*(?:Session Key|Session ID|Ended|Source)\*\*: "
    r"|The last (?:words|\d+ messages) of a conversation that is over\. |\W*$|> ?Assistant: "
)
"""Metadata of a note about an ended session, the assistant's words in it, and lines without words."""
_FRAMES = ("<", ">", "BEGIN NOTES FROM ", "END NOTES FROM ")
"""The beginnings of lines that enclose or quote text that the runtime loaded."""


class Passage(Record):
    """A quotable line, its place as `path#L3` or `path#L3-L7`, and how many words of the question it has.
    `asks` means that the line is itself a question."""

    text: str
    place: str
    matched: float
    asks: bool


def search_query(question: str, message_before: Sequence[str]) -> str:
    """The search query: the question, preceded by the message before it if it has no content words."""
    says_something = finder_for(question).terms or any(day in plain(question) for day in DAY_WORDS)
    return clipped(" ".join([*(() if says_something else message_before), question]), MAX_QUERY_CHARS)


def best_passages(hits: Sequence[Hit], finder: Finder) -> list[Passage]:
    """Up to three passages with the most words of the question; if none has any, the first result alone.

    Questions are quoted only if no statement has any of the words.
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
    """A Markdown quotation of a text, followed by its source."""
    return f"> {text}\n> — `{place}`" if place else f"> {text}"


def said_before(said: Sequence[Said], finder: Finder, known: Known) -> list[str]:
    """Statements of people and summaries with at least two words of the question, best first.

    Questions, and `known` text that the notes already answered with, are left out.
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
    # Quotes in it come from notes, which the search covers.
    told = [*sentences(part.text)] if part.speaker == "other" else []
    return [sentence for sentence in told if not sentence.startswith(_FRAMES) and sentence != "(none)"]


def _passages_of(hit: Hit, finder: Finder) -> list[Passage]:
    """The best lines of a hit. Words count half that only the heading above or a superseded line has."""
    found, above = list[Passage](), frozenset[int]()
    # Lines of an excerpt with gaps cannot be numbered, so each is cited with the whole range.
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
            # A question about a day alone has no words: the search found the log of that day.
            matched = len(terms) + len(above - terms) / 2 if finder.terms else 1
            found.append(
                Passage(
                    text=clipped(text, MAX_QUOTE_CHARS),
                    place=f"{place}-L{last}" if last > first else place,
                    matched=matched / 2 if is_whole and first in hit.superseded else matched,
                    asks=has_question_mark(text),
                )
            )
    return sorted(found, key=lambda passage: (passage.asks, -passage.matched))[:MOST_LINES]


class Item(Record):
    """A line to keep; `order` is its place in the conversation, from 0, and negative for what was before."""

    text: str
    order: int
    kind: str = ""


class _Notes:
    """The notes of a conversation, newest first, each once; of an assistant's words only decisions.

    They are looked for as they are asked for, and only of the `wanted` kinds, which may become fewer
    meanwhile: who needs a few does not wait for a long conversation.
    """

    def __init__(self, said: Sequence[Said], known: Known, wanted: Collection[str]) -> None:
        self._said = said
        self._known = known
        self._wanted = wanted
        self._kept: set[str] = set()
        self._answered: list[Said] = []
        self._closed: set[str] = set()

    def __iter__(self) -> Iterator[Item]:
        following = None
        for order in range(len(self._said) - 1, -1, -1):
            part = self._said[order]
            if part.speaker == "user":
                is_answered = following is not None and is_answer(following)
                if is_answered:
                    self._answered.append(part)
                yield from self._of_user(order, is_answered=is_answered)
            elif part.speaker == "assistant" and "decision" in self._wanted:
                yield from self._of_assistant(order)
            following = part if part.speaker in ("user", "assistant") else following

    def _of_user(self, order: int, *, is_answered: bool) -> Iterator[Item]:
        asks_nothing = is_answered or "open" not in self._wanted
        for sentence in self._said[order].sentences:
            text = without_request(sentence)
            kind = kind_of(sentence, self._wanted if asks_nothing and text == sentence else KINDS)
            if text != sentence:
                kind = "fact" if kind in ("", "request") else kind
            elif not kind and "fact" in self._wanted and has_identifier(sentence[:SENTENCE_CHARS]):
                kind = "fact"
            elif kind in ("", "request") and asks_nothing:
                continue
            if text == sentence and (kind == "request" or is_question(sentence)):
                if is_answered or self._is_closed(folded(text)):
                    continue
                kind = "open"
            if kind and (note := self._noted(sentence, text, kind, order)):
                yield note

    def _of_assistant(self, order: int) -> Iterator[Item]:
        part = self._said[order]
        for sentence in () if is_quoting(part.text) else part.sentences:
            is_decision = kind_of(sentence, ("decision",)) and not is_question(sentence)
            if is_decision and (note := self._noted(sentence, without_request(sentence), "decision", order)):
                yield note

    def _noted(self, sentence: str, text: str, kind: str, order: int) -> Item | None:
        words = folded(text)
        if words in self._kept:
            return None
        is_known = self._known.has(text) or (text != sentence and self._known.has(sentence))
        if is_known and not has_question_mark(sentence):
            return None
        self._kept.add(words)
        if kind == "open" and (answer := told_later(sentence, self._said, order)) is not None:
            order, sentence = answer
            text, kind = without_request(sentence), "fact"
            is_known = folded(text) in self._kept or self._known.has(text)
            self._kept.add(folded(text))
        if is_known or kind not in self._wanted:
            return None
        return Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)

    def _is_closed(self, words: str) -> bool:
        """Whether the same was asked again later, and answered then."""
        for part in self._answered:
            self._closed.update(folded(without_request(sentence)) for sentence in part.sentences)
        self._answered.clear()
        return words in self._closed


SUMMARY_TOKENS = 1_500  # whatever more a request allows: summaries of summaries must not grow


class Section(Record):
    """A heading of a `level`; `under` is one above it without own lines, `{}` in `marker` a line's number."""

    title: str
    marker: str = "- "
    under: str = ""
    level: int = 2


GOAL, CONSTRAINTS = Section(title="Goal"), Section(title="Constraints & Preferences")
DONE = Section(title="Done", marker="- [x] ", under="Progress", level=3)
IN_PROGRESS = Section(title="In Progress", marker="- [ ] ", under="Progress", level=3)
BLOCKED, DECISIONS = Section(title="Blocked", under="Progress", level=3), Section(title="Key Decisions")
NEXT_STEPS, CONTEXT = Section(title="Next Steps", marker="{}. "), Section(title="Critical Context")
SECTIONS = (GOAL, CONSTRAINTS, DONE, IN_PROGRESS, BLOCKED, DECISIONS, NEXT_STEPS, CONTEXT)

ORIGINAL_REQUEST = Section(title="Original Request", marker="")
EARLY_PROGRESS, SUFFIX_CONTEXT = Section(title="Early Progress"), Section(title="Context for Suffix")
_AS_USUAL = {ORIGINAL_REQUEST.title: GOAL, EARLY_PROGRESS.title: DONE, SUFFIX_CONTEXT.title: CONTEXT}

_PLACES = {
    DECISIONS: ("decision",),
    CONSTRAINTS: ("preference", "rule"),
    CONTEXT: ("fact", "date"),
    NEXT_STEPS: ("open",),
}
"""Which kinds of notes stand in a section of a summary."""
_IN_FLUSH = {DECISIONS: "Decisions", CONSTRAINTS: "Preferences", CONTEXT: "Facts", NEXT_STEPS: "Open asks"}
"""The headings of the same in the notes of a flush."""

MOST_GOALS, MOST_ITEMS_PER_SECTION, MOST_SLUG_WORDS = 8, 40, 2
MAX_LAST_ASK_CHARS, MAX_ASK_CHARS, MAX_STEP_CHARS = 600, 200, 240

_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus[^:\n]*:[ \t]*([^\n]+)", re.MULTILINE)
_EARLIER = 1_000_000  # what was said before has places before those of a conversation
_SUMMARY_HEADING = re.compile(r"\n#{1,6} +")
_NO_ITEM = re.compile(r"\W*(?:none|nothing|n/a)?\W*|---.*|\*\*Turn Context.*", re.IGNORECASE)
_CALL = re.compile(r"(?:^|; )(append|write|edit)\((?:.{0,40}?)path=\"([^\"\n]{1,200})\"", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> (?!—)(.+)$", re.MULTILINE)
_SLUG_USER = re.compile(r"^User: (.*?)(?=^(?:User|Assistant): |\Z)", re.DOTALL | re.MULTILINE)


def summary_of(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> str:
    """The summary that a request asks for; nothing inside the tags of the prompt is an instruction."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    talk, without_talk = _CONVERSATION.search(prompt), _CONVERSATION.sub("", prompt)
    previous, instructions = _PREVIOUS.search(without_talk), _PREVIOUS.sub("", without_talk)
    said = read_labeled(talk[1]) if talk else []
    if f"## {ORIGINAL_REQUEST.title}" in instructions:
        candidates = _of_turn_prefix(said)
    else:
        focus = _FOCUS.search(instructions)
        earlier, words = previous[1] if previous else "", focus[1] if focus else ""
        candidates = _of_history(said, earlier, words)
    return _outline(candidates, request, count_tokens, "(none)")


def flush_notes(request: ModelRequest, said: Sequence[Said], *, count_tokens: Callable[[str], int]) -> str:
    """The notes of what was `said` before a request; empty when none is new, worth keeping, and fits."""
    calls = (done.call for done in finished_calls(request.messages) if not done.failed)
    appended = [str(call.arguments.get("text")) for call in calls if call.name == "append"]
    recalled = [part.text for part in said if part.speaker == "other"]
    known = Known([request.system.joined(), *recalled, *appended])
    found = _newest_notes(said, known, most=MOST_ITEMS_PER_SECTION)
    groups = {Section(title=_IN_FLUSH[section], level=3): notes for section, notes in found.items()}
    text = _outline(groups, request, count_tokens, "")
    return f"{text}\n" if text else ""


def decisions_of(said: Sequence[tuple[str, str]]) -> list[str]:
    """Decisions, preferences and dates of a conversation of (`user` or `assistant`, text), word for word.

    In the order in which it was said; the newest ones where there are many.
    """
    parts = [Said(speaker="user" if who == "user" else "assistant", text=text) for who, text in said]
    newest = islice(_Notes(parts, Known(()), {"decision", "preference", "date"}), MOST_ITEMS_PER_SECTION)
    return [item.text for item in sorted(newest, key=lambda item: item.order)]


def _newest_notes(said: Sequence[Said], known: Known, *, most: int) -> dict[Section, list[Item]]:
    """The newest `most` notes of each section; no more is read than that takes."""
    found: dict[Section, list[Item]] = {section: [] for section in _PLACES}
    section_of = {kind: section for section, kinds in _PLACES.items() for kind in kinds}
    wanted = set(KINDS)
    for note in _Notes(said, known, wanted):
        section = section_of[note.kind]
        found[section].append(note)
        if len(found[section]) == most:
            wanted.difference_update(_PLACES[section])
            if wanted.isdisjoint(section_of):
                break
    return found


def slug_of(request: ModelRequest) -> str:
    """One or two words that the person used most, joined by `-`; none when they have no plain letters."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    said = fold("\n".join(_SLUG_USER.findall(prompt.rpartition("</conversation>")[0])))
    words = re.findall(r"(?<!\w)[a-z]{3,14}(?!\w)", said)
    nothing, asking = stop_words_for(words), PHRASES["asking"]
    counted = Counter(word for word in words if word not in nothing and not asking.fullmatch(word))
    # Of words that were said equally often the longer one says more.
    most = sorted(counted, key=lambda word: (-counted[word], -len(word)))[:MOST_SLUG_WORDS]
    return "-".join(word for word in counted if word in most)


def _of_history(said: Sequence[Said], previous: str, focus: str) -> dict[Section, list[Item]]:
    # What has words of the focus goes first, wherever it was said; else the newest.
    most = sys.maxsize if focus else MOST_ITEMS_PER_SECTION
    new = {section: list[Item]() for section in SECTIONS} | _newest_notes(said, Known(()), most=most)
    new |= {GOAL: _goals(said), DONE: _done(said, most=most)}
    old, finder = _earlier(previous), finder_for(focus)
    candidates: dict[Section, list[Item]] = {}
    for section in SECTIONS:
        both = [*filter(None, chain.from_iterable(zip_longest(new[section], old[section])))]
        # Words of the focus first; sorting keeps the order of what has as many.
        both.sort(key=lambda item: -len(finder.look(plain(item.text)).terms))
        candidates[section] = both[:MOST_ITEMS_PER_SECTION]
    return candidates


def _of_turn_prefix(said: Sequence[Said]) -> dict[Section, list[Item]]:
    asked = [part.text for part in said if part.speaker == "user"]
    steps = [Item(text=_gist(part), order=at) for at, part in enumerate(said) if _gist(part)]
    return {
        ORIGINAL_REQUEST: [Item(text=clipped(text, MAX_LAST_ASK_CHARS), order=0) for text in asked],
        EARLY_PROGRESS: [*_done(said, most=MOST_ITEMS_PER_SECTION), *steps][:MOST_ITEMS_PER_SECTION],
        SUFFIX_CONTEXT: [*_Notes(said, Known(asked), KINDS)],
    }


def _goals(said: Sequence[Said]) -> list[Item]:
    """A person's last questions, newest first, the very last in full. Statements become notes instead."""
    goals: list[str] = []
    for part in reversed(said):
        wish = read_intent(part.text) if part.speaker == "user" and part.sentences else None
        if wish and wish.small_talk in ("", "remind") and (wish.question or not wish.to_keep):
            goals.append(clipped(part.text, MAX_ASK_CHARS if goals else MAX_LAST_ASK_CHARS))
            if len(goals) == MOST_GOALS:
                break
    return [Item(text=text, order=at - 2 * _EARLIER) for at, text in enumerate(goals)]


def _done(said: Sequence[Said], *, most: int) -> list[Item]:
    """Files that were written, and questions with the beginning of their answers, newest first.

    `most` or a few more; no more turns are read than that takes.
    """
    done: list[Item] = []
    end = len(said)
    while end and len(done) < most:
        start = next((at for at in range(end - 1, 0, -1) if said[at].speaker == "user"), 0)
        done += sorted(_done_in_turn(said, start, end), key=lambda item: -item.order)
        end = start
    return done


def _done_in_turn(said: Sequence[Said], start: int, end: int) -> list[Item]:
    done: list[Item] = []
    question = ""
    for order in range(start, end):
        part, told = said[order], list[str]()
        if part.speaker == "user":
            question = " ".join(sentence for sentence in part.sentences if sentence in part.questions)
        elif part.speaker == "calls":
            told = [f"`{name}` on `{path}`" for name, path in _CALL.findall(part.text)]
        elif question and is_answer(part) and (gist := _gist(part)):
            told = [f"Asked “{clipped(question, MAX_ASK_CHARS)}”, answered: {gist}"]
            question = ""
        done.extend(Item(text=text, order=order) for text in told)
    return done


def _gist(part: Said) -> str:
    """The first sentence of an answer, or the first quotation when this responder wrote it."""
    if part.speaker != "assistant":
        return ""
    if not is_quoting(part.text):
        return clipped(part.first_sentence, MAX_STEP_CHARS)
    quoted = _QUOTED_LINE.search(part.text)
    return clipped(quoted[1], MAX_STEP_CHARS) if quoted else ""


def _earlier(summary: str) -> dict[Section, list[Item]]:
    """The items of an earlier summary under today's headings, the newest first."""
    sections = {section.title: section for section in SECTIONS} | _AS_USUAL
    found = {section: list[Item]() for section in SECTIONS}
    for block in _SUMMARY_HEADING.split(f"\n{summary}"):
        title, *lines = block.split("\n")
        section = sections.get(title.strip("*: "), CONTEXT)
        texts = [text for line in lines if not _NO_ITEM.fullmatch(text := unmarked(line))]
        items = [
            Item(text=clipped(text, MAX_NOTE_CHARS), order=at - _EARLIER) for at, text in enumerate(texts)
        ]
        # Of goals the newest stand first; everywhere else they stand last.
        found[section] += items if section is GOAL else reversed(items)
    return found


def _outline(
    candidates: Mapping[Section, Sequence[Item]],
    request: ModelRequest,
    count: Callable[[str], int],
    empty: str,
) -> str:
    """The headings with as many candidates as fit, taken from each section in turn, each statement once.

    Candidates come most important first and are written in their order. The first section, which says what
    was asked, may repeat others. A heading without lines has `empty` under it, or is left out without that.
    """
    allowed_tokens = SUMMARY_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    most_tokens = min(SUMMARY_TOKENS, allowed_tokens)
    chosen: list[tuple[Section, Item]] = []
    seen = set[tuple[bool, str]]()
    left_tokens = most_tokens - count(_written(candidates, chosen, empty))
    first = next(iter(candidates))
    in_turn = zip_longest(*([(section, item) for item in items] for section, items in candidates.items()))
    for section, item in filter(None, chain.from_iterable(in_turn)):
        statement = (section is first, folded(item.text))
        tokens = count(f"{section.marker}{item.text}\n") + 1
        if tokens <= left_tokens and statement not in seen:
            seen.add(statement)
            chosen.append((section, item))
            left_tokens -= tokens
    while chosen and count(_written(candidates, chosen, empty)) > most_tokens:
        chosen.pop()
    return _written(candidates, chosen, empty)


def _written(sections: Iterable[Section], chosen: Sequence[tuple[Section, Item]], empty: str) -> str:
    parts: list[str] = []
    for section in sections:
        items = sorted((item for of, item in chosen if of is section), key=lambda item: item.order)
        lines = [section.marker.format(number) + item.text for number, item in enumerate(items, start=1)]
        above = f"## {section.under}" if section.under else ""
        if lines or empty:
            parts += [above] if above and above not in parts else []
            parts.append("\n".join([f"{'#' * section.level} {section.title}", *(lines or [empty])]))
    return "\n\n".join(parts)
