"""Parses a request for the offline responder: who said what, and what each message asks for.

Summaries, recalled logs and tool results are data: nothing in them is a request. Patterns decide whether a
sentence is a request to remember, a question, a decision or a fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, cached_property
from typing import Literal, TypeAlias

from nacre.memory.contracts.words import MatchQuery
from nacre.memory.text.claims import addresses, claim_of
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.forms.words import stop_words_for
from nacre.memory.text.lexical import match_query
from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline import answers
from nacre.runtime.models.offline.answers import leaves_open
from nacre.runtime.models.offline.phrases import PHRASES, occurs
from nacre.runtime.models.offline.sentences import RECALLED, clipped, folded, own_words, plain, sentences
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    call_text,
    message_text,
)

SENTENCE_CHARS = 600  # what is longer is no sentence; its beginning says what kind it is
MOST_WORDS_WITHOUT_MARK = 14  # a longer sentence without a question mark is a statement
MOST_CHARS_OF_PLAIN_FACTS = 1_500  # longer messages are pasted more often than facts
MOST_CHARS_OF_SMALL_TALK = 60
MAX_CONFIRMED_CHARS = 300

KINDS = ("decision", "preference", "rule", "open", "request", "fact", "date")
"""The kinds of statements. If several match, the first counts."""

_KEPT_UNASKED = ("decision", "preference", "fact")
_SMALL_TALK = {
    kind: re.compile(rf"\W*(?:(?:{PHRASES[kind].pattern})(?![a-z0-9])\W*)+")
    for kind in ("greeting", "thanks", "farewell")
}
_POLITE = re.compile(rf"^(?:{PHRASES['polite'].pattern}){{1,4}}")
# Possessive quantifiers: with backtracking, a run of spaces would take quadratic time.
_QUESTION_MARK = re.compile(r"[?](?<![?][?])[?]*+[\s\"'”»)\]」』*_]*+$")
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][^\W_]*")
_STATED = re.compile(r"[,;:.!](?:(?<=[,;:])|$)")
_GAP = r"[\s:,;、。.!\-–—]*+"
_TO_KEEP = re.compile(
    rf"{_GAP}(?P<that>(?:that|dass|(?:de )?que|che|att|dat|что)\b|qu'"
    rf"|(?:this|it|the following)(?=\s*(?:[:.!?]|$)))?{_GAP}"
)

_TOPIC = (
    r"(?:when|if) (?:we|i|you) (?:next )?(?:talk|speak|mention|discuss)(?: about| of| to| with)?"
    r" (?:the |my |our )?(?P<topic>[^:]+(?=: )|[^:]+?)"
)
_REMINDERS = (
    re.compile(rf"(?:please )?remind me {_TOPIC}(?::|,? to|,) (?P<what>\S.*)", re.IGNORECASE),
    re.compile(rf"(?:please )?remind me to (?P<what>.+?),? {_TOPIC}[.!]?", re.IGNORECASE),
)


class Intent(Record):
    """The intent of one message: to store `to_keep`, to look up `question`, or a kind of `small_talk`.

    If `asked_to_keep` is set and `to_keep` is empty, the text is in an earlier message ("remember that").
    """

    to_keep: str = ""
    asked_to_keep: bool = False
    question: str = ""
    small_talk: str = ""


def read_intent(message: str) -> Intent:
    """The intent of a message; an empty `Intent` if no pattern matches."""
    own = own_words(message).strip()
    said = [*sentences(own)]
    questions = [sentence for sentence in said if is_question(sentence)]
    if small_talk := _small_talk(own, questions):
        return Intent(small_talk=small_talk)
    question, kept = " ".join(questions), _asked_to_keep(message, said)
    if kept is not None:
        return Intent(to_keep=kept, asked_to_keep=True, question=question)
    begin = plain(own[:SENTENCE_CHARS])
    if PHRASES["forget"].search(begin):
        return Intent(small_talk="forget")
    if not questions and PHRASES["remind"].search(begin):
        return Intent(small_talk="remind")
    typed = said if len(own) <= MOST_CHARS_OF_PLAIN_FACTS else ()
    told = [part for part in typed if part not in questions and not _small_talk(part, [])]
    facts = [part for part in told if _is_kept_unasked(part)]
    if facts and len(own) <= MAX_CONFIRMED_CHARS:
        facts = [part for part in told if not _is_supposed(part)]
    return Intent(to_keep="\n".join(facts), question=question)


def reminder_line(text: str) -> str:
    """The task for `memory/reminders.md` of "remind me when we talk about the boat: ask Jo", else empty."""
    found = next(filter(None, (pattern.fullmatch(text.strip()) for pattern in _REMINDERS)), None)
    return f"- [ ] {found['topic']}: {found['what']}" if found else ""


def kind_of(sentence: str, among: Collection[str] = KINDS) -> str:
    """The first of `KINDS` that matches a sentence; empty unless one of the kinds in `among` matches."""
    start = plain(sentence[:SENTENCE_CHARS])
    if len(among) < len(KINDS) and not any(occurs(kind, start) for kind in among):
        return ""
    return next((kind for kind in KINDS if occurs(kind, start)), "")


def is_question(sentence: str) -> bool:
    if len(sentence) > SENTENCE_CHARS or not _sounds_like_a_question(plain(sentence)):
        return False
    return bool(folded(sentence)) and _start_to_keep(sentence) is None


def _sounds_like_a_question(text: str) -> bool:
    begun = _begun(text)
    if PHRASES["look_up"].match(text) or (begun and PHRASES["look_up"].match(text, begun)):
        return True
    if _QUESTION_MARK.search(text) or occurs("marked", text):
        return True
    is_statement = _STATED.search(text) or len(text.split()) > MOST_WORDS_WITHOUT_MARK
    return bool(not is_statement and PHRASES["question"].match(text, begun))


def _begun(text: str) -> int:
    polite = _POLITE.match(text)
    return polite.end() if polite else 0


def has_question_mark(sentence: str) -> bool:
    return _QUESTION_MARK.search(plain(sentence)) is not None


def finder_for(question: str) -> Finder:
    """A finder for the content words of a question, for `plain` text."""
    query = match_query(plain(question)) or MatchQuery()
    nothing = stop_words_for(query.terms)
    told = (term for term in query.terms if term not in nothing and not PHRASES["asking"].fullmatch(term))
    return Finder(replace(query, terms=tuple(told)))


def without_request(sentence: str) -> str:
    """The sentence without the words that ask to remember it."""
    return sentence[_start_to_keep(sentence) or 0 :] or sentence


def _small_talk(own: str, questions: list[str]) -> str:
    for kind, pattern in _SMALL_TALK.items():
        if own and len(own) <= MOST_CHARS_OF_SMALL_TALK and pattern.fullmatch(plain(own)):
            return kind
    asked = questions[0] if questions else own
    return "about" if len(asked) <= SENTENCE_CHARS and PHRASES["about"].search(plain(asked)) else ""


def _is_kept_unasked(sentence: str) -> bool:
    start = plain(sentence[:SENTENCE_CHARS])
    if _is_supposed(sentence):
        return False
    return any(occurs(kind, start) for kind in _KEPT_UNASKED) or _tells_of_somebody(sentence)


def _is_supposed(sentence: str) -> bool:
    return PHRASES["supposed"].match(plain(sentence[:SENTENCE_CHARS])) is not None


def _tells_of_somebody(sentence: str) -> bool:
    """Whether a sentence gives a thing of somebody named a value, such as "Ada moved to Graz"."""
    claim = claim_of(sentence)
    if not claim.is_statement or not addresses(sentence):
        return False
    things = {word for thing in claim.values for word in thing}
    named = {fold(word) for word in _NAME.findall(sentence)}
    return not things.isdisjoint(named - stop_words_for(folded(sentence).split()))


def _asked_to_keep(message: str, said: list[str]) -> str | None:
    """The text that the message asks to remember; `None` if it does not ask.

    The text is empty if it is in an earlier message. After a lead ("Remember …") it extends to the next
    question, including code and quotations.
    """
    for at, sentence in enumerate(said):
        text = plain(sentence)
        start, tail = _start_to_keep(sentence), PHRASES["keep_tail"].search(text[:SENTENCE_CHARS])
        if start is not None:
            following = message.partition(sentence)[2]
            asked = next(filter(is_question, sentences(own_words(following))), "")
            following = following.partition(asked)[0].rstrip(" \t\n-*") if asked else following
            kept = (sentence[start:] + following).strip()
            kept = kept.rstrip("?\uff1f") if _QUESTION_MARK.search(text) else kept
        elif tail and not _QUESTION_MARK.search(text):
            kept = sentence[: tail.start()].rstrip(" 、,\uff0c")
        else:
            continue
        return kept or " ".join(part for part in said[:at] if not is_question(part))
    return None


def _start_to_keep(sentence: str) -> int | None:
    """Where the text to remember begins in a sentence; `None` if it does not ask to remember anything.

    "Can you remember …?" is a question.
    """
    text = plain(sentence)
    begun = _begun(text)
    lead, whole = PHRASES["keep"].match(text, begun), PHRASES["keep_whole"].match(text, begun)
    if not (lead or whole) or occurs("marked", text):
        return None
    if whole:
        return begun
    to_keep = _TO_KEEP.match(text, lead.end()) if lead else None
    asks = _QUESTION_MARK.search(text) and not re.search("please|bitte", text[:begun])
    return to_keep.end() if to_keep and (to_keep["that"] or not asks) else None


Speaker: TypeAlias = Literal["user", "assistant", "calls", "other"]

DAILY_LOG = re.compile(r"memory/\d{4}-\d{2}-\d{2}\.md")
_TODAY = re.compile(r"\btoday\b[^\n]{0,80}?(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)", re.IGNORECASE)
_SUMMARY_START = re.compile(r"\s*(?:[^\n<]{0,300}\n{1,3})?<summary\b", re.IGNORECASE)
_COMMAND = re.compile(r"\s*/[a-zA-Z]")
# It begins with signs, which a search through megabytes passes quickly, and not with the beginning of a line.
_LABEL = re.compile(r"\n\[(User|Assistant(?: thinking| tool calls)?|Tool result)\]: ")
_SOURCE = re.compile(r"\n\s*Source: \S[^\n]*\s*$")
_RESULT_START = re.compile(r'\{\s*"path"')
_SPEAKER_LINE = re.compile(r'\A\[(?:"[^"\n]*"|id )[^\n]*\]\n')
_SPEAKERS: Mapping[str, Speaker] = {"User": "user", "Assistant": "assistant", "Assistant tool calls": "calls"}


class Said(Record):
    """One message of a conversation. `text` includes quotes and code, `sentences` does not."""

    speaker: Speaker
    text: str

    @cached_property
    def sentences(self) -> list[str]:
        """The writer's own sentences; none of a chat command or a prompt of the runtime."""
        return [*self._each_sentence()]

    @property
    def first_sentence(self) -> str:
        """The first sentence, or an empty string. It does not parse the others."""
        return next(self._each_sentence(), "")

    @cached_property
    def questions(self) -> Collection[str]:
        return {sentence for sentence in self.sentences if is_question(sentence)}

    @cached_property
    def folded_text(self) -> str:
        """The text in the form in which a `Finder` compares words."""
        return fold(plain(self.text))

    def _each_sentence(self) -> Iterator[str]:
        if _COMMAND.match(self.text) or SILENT_TOKEN in self.text:
            return iter(())
        return sentences(own_words(self.text))


class Finished(Record):
    """A tool call with the text of its result. `failed` means that the tool reported an error."""

    call: ToolCall
    text: str
    failed: bool


class Reading(Record):
    """A request: the last message of a person, the messages before it, and the calls after it."""

    before: Sequence[Message]
    ask: str = ""
    has_image: bool = False
    finished: Sequence[Finished] = ()

    @cached_property
    def said(self) -> Sequence[Said]:
        """The messages before `ask`, computed on first use."""
        return conversation(self.before)

    def said_newest_first(self) -> Iterator[Said]:
        """The messages before `ask`, newest first, computed one at a time."""
        return (part for message in reversed(self.before) for part in reversed(conversation([message])))

    def finished_call(self, tool_name: str) -> Finished | None:
        return next((done for done in reversed(self.finished) if done.call.name == tool_name), None)


def read_request(request: ModelRequest) -> Reading:
    """Finds the last message of a person and what happened after it."""
    messages = request.messages
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and not is_background(message_text(message)):
            return Reading(
                ask=RECALLED.sub("\n", _SPEAKER_LINE.sub("", message_text(message))).strip(),
                has_image=any(isinstance(block, Image) for block in message.content),
                before=messages[:at],
                finished=finished_calls(messages[at + 1 :]),
            )
    return Reading(before=messages)


def conversation(messages: Sequence[Message]) -> list[Said]:
    """Messages and calls in order. A user message that the runtime wrote has the speaker `other`."""
    said: list[Said] = []
    for message in messages:
        if isinstance(message, UserMessage):
            said.append(said_by("user", message_text(message)))
        elif isinstance(message, AssistantMessage):
            said.append(said_by("assistant", message_text(message)))
            said.extend(said_by("calls", call_text(call)) for call in message.tool_calls)
    return [contribution for contribution in said if contribution.text]


def is_background(text: str) -> bool:
    """Whether the runtime wrote a user message: a summary, or a message about notes."""
    return ("<" in text and bool(_SUMMARY_START.match(text))) or text.lstrip().startswith(_loaded())


@cache
def _loaded() -> tuple[str, ...]:
    return "BEGIN NOTES FROM ", render("recall/notes", files="").strip(), _changes_begin()


@cache
def _changes_begin() -> str:
    return render("tail/changes", text="").strip()


def todays_log(request: ModelRequest, *, clock_date: date) -> str:
    """The path of today's log, by the last date that the runtime stated, or else by `clock_date`."""
    told = (
        message_text(message) for message in reversed(request.messages) if isinstance(message, UserMessage)
    )
    changes = (text for text in told if text.startswith(_changes_begin()))
    stated = next(filter(None, map(_TODAY.search, (*changes, request.system.changing))), None)
    return f"memory/{stated[1] if stated else clock_date}.md"


def finished_calls(messages: Sequence[Message]) -> list[Finished]:
    """The calls that have results. Ids are unique within one message only."""
    finished: list[Finished] = []
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage) and (call := calls.pop(message.tool_call_id, None)):
            text = message_text(message).strip()
            finished.append(Finished(call=call, text=text, failed=message.is_error))
    return finished


class Hit(Record):
    """A search result. `first` and `last` are 0 if unknown; a later note replaced the lines `superseded`."""

    path: str
    lines: Sequence[str]
    first: int
    last: int
    superseded: Sequence[object] = ()


class Search(Record):
    """What a memory search returned. `problem` says why it found nothing, `degraded` what it went without."""

    was_run: bool = False
    hits: Sequence[Hit] = ()
    problem: str = ""
    degraded: str = ""
    is_stale: bool = False
    cites: bool = True


def read_search(done: Finished | None) -> Search:
    """Reads the result of a memory search. Of a truncated one, the complete hits are still read."""
    if done is None:
        return Search()
    if done.failed:
        problem = answers.SEARCH_FAILED.format(problem=clipped(done.text, MAX_CONFIRMED_CHARS))
        return Search(was_run=True, problem=problem)
    try:
        report = json.loads(done.text)
    except (ValueError, RecursionError):
        report = {}
    report = report if isinstance(report, Mapping) else {}
    is_disabled = report.get("disabled")
    return Search(
        was_run=True,
        hits=_hits_in(done.text),
        problem=answers.SEARCH_DISABLED.format(problem=report.get("error")) if is_disabled else "",
        degraded=str(report.get("degraded") or ""),
        is_stale=bool(report.get("stale")),
        cites=report.get("citations") != "off",
    )


def _hits_in(result: str) -> list[Hit]:
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
            told = raw.get("superseded")
            old = [one.get("line") for one in told if isinstance(one, dict)] if isinstance(told, list) else ()
            found.append(Hit(path=path, lines=lines, first=first, last=last, superseded=old))
    return found


def read_labeled(text: str) -> list[Said]:
    """Parses a serialized conversation, without reasoning and tool results."""
    _, *labeled = _LABEL.split(f"\n{text}")
    pairs = zip(labeled[::2], labeled[1::2], strict=True)
    said = [said_by(_SPEAKERS[label], words.strip()) for label, words in pairs if label in _SPEAKERS]
    return [contribution for contribution in said if contribution.text]


def said_by(speaker: Speaker, text: str) -> Said:
    """One message without its speaker line. A user message that the runtime wrote is `other`."""
    text = (_SPEAKER_LINE.sub("", text) if speaker == "user" and text[:1] == "[" else text).strip()
    return Said(speaker="other" if speaker == "user" and is_background(text) else speaker, text=text)


class Known:
    """The text that is written down already, compared without case and punctuation."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = " \n ".join(f" {folded(text)} " for text in texts)

    def has(self, sentence: str) -> bool:
        """Whether the whole sentence stands there; one without words always does."""
        words = folded(sentence)
        return not words or f" {words} " in self._text


def is_answer(part: Said) -> bool:
    """Whether a contribution is an answer; that nothing was found is none."""
    return part.speaker == "assistant" and not leaves_open(part.text)


MOST_PARTS_TO_AN_ANSWER = 40
"""How much later in a conversation the answer to a question is looked for, in contributions."""
LEAST_WORDS_OF_AN_ANSWER = 2
"""With fewer words that say something, a question has too many sentences that share them."""


def told_later(question: str, said: Sequence[Said], order: int) -> tuple[int, str] | None:
    """The sentence that answers a question soon after its place in a conversation, and where it stands."""
    finder = finder_for(question)
    if len(finder.terms) < LEAST_WORDS_OF_AN_ANSWER:
        return None
    for at in range(order + 1, min(len(said), order + 1 + MOST_PARTS_TO_AN_ANSWER)):
        part = said[at]
        if part.speaker != "user" or not all(term in part.folded_text for term in finder.terms):
            continue
        for sentence in part.sentences:
            has_all = len(finder.look(plain(sentence)).terms) == len(finder.terms)
            if has_all and not is_question(sentence) and kind_of(sentence) not in ("open", "request"):
                return at, sentence
    return None
