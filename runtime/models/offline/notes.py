"""Which sentences of a conversation are worth keeping, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nacre.records.record import Record
from nacre.runtime.models.offline.answers import is_quoting, leaves_open
from nacre.runtime.models.offline.intent import (
    SENTENCE_CHARS,
    finder_for,
    has_question_mark,
    is_decision,
    is_question,
    kind_of,
    may_decide,
    without_request,
)
from nacre.runtime.models.offline.reading import Said
from nacre.runtime.models.offline.sentences import clipped, folded, plain
from nacre.sessions.compaction.facts import has_identifier

MAX_NOTE_CHARS = 400
MOST_PARTS_TO_AN_ANSWER = 40
"""How much later in a conversation the answer to a question is looked for, in contributions."""


LEAST_WORDS_OF_AN_ANSWER = 2
"""With fewer words that say something, a question has too many sentences that share them."""
ANSWERED = "answered"
"""The kind of a question that needs no note; asked before in the same words, it is no less answered."""


class Item(Record):
    """A line to keep; `order` is its place in the conversation, from 0, and negative for what was before."""

    text: str
    order: int
    kind: str = ""


class Known:
    """What is written down already, whatever its case and marks."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = " \n ".join(f" {folded(text)} " for text in texts)

    def has(self, sentence: str) -> bool:
        """Whether the whole sentence stands there; one without words always does."""
        return self.has_folded(folded(sentence))

    def has_folded(self, words: str) -> bool:
        """The same for what was `folded` already."""
        return not words or f" {words} " in self._text


def notes_of(said: Sequence[Said], known: Known) -> Iterator[Item]:
    """The notes of a conversation, newest first, each once; of an assistant's words only decisions.

    They are looked for as they are asked for: who needs a few does not wait for a long conversation.
    """
    kept: set[str] = set()
    for order in range(len(said) - 1, -1, -1):
        part = said[order]
        if part.speaker == "user" or (part.speaker == "assistant" and _may_hold_notes(part.text)):
            for sentence in part.sentences:
                if (note := _note(sentence, said, order, known, kept)) is not None:
                    yield note


def _may_hold_notes(answer: str) -> bool:
    return may_decide(answer) and not is_quoting(answer)


def is_answered(said: Sequence[Said], *, after: int) -> bool:
    """Whether an assistant answered behind a place before the person spoke again; "found nothing" is none."""
    places = range(after + 1, len(said))
    answer = next((said[place] for place in places if said[place].speaker in ("user", "assistant")), None)
    return answer is not None and answer.speaker == "assistant" and not leaves_open(answer.text)


def _note(sentence: str, said: Sequence[Said], order: int, known: Known, kept: set[str]) -> Item | None:
    is_by_user = said[order].speaker == "user"
    if not is_by_user and not is_decision(sentence):
        return None
    text = without_request(sentence)
    words, is_told = folded(text), text != sentence
    if words in kept:
        return None
    is_known = known.has_folded(words) or (is_told and known.has(sentence))
    if is_known and not has_question_mark(sentence):
        return None
    kind = _kind_of_users(sentence, said, order, is_told) if is_by_user else _kind_of_models(sentence)
    if not kind:
        return None
    kept.add(words)
    if kind == "open" and (answer := _told_later(sentence, said, order)) is not None:
        order, sentence = answer
        words, kind = folded(without_request(sentence)), "fact"
        is_known = words in kept or known.has_folded(words)
        kept.add(words)
    if is_known or kind == ANSWERED:
        return None
    return Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)


def _told_later(question: str, said: Sequence[Said], order: int) -> tuple[int, str] | None:
    """The person's later statement that has all words of a question, and its place in the conversation."""
    finder = finder_for(question)
    if len(finder.terms) < LEAST_WORDS_OF_AN_ANSWER:
        return None
    for at in range(order + 1, min(len(said), order + 1 + MOST_PARTS_TO_AN_ANSWER)):
        part = said[at]
        if part.speaker != "user" or not all(term in part.folded_text for term in finder.terms):
            continue
        for sentence in part.sentences:
            has_all = len(finder.look(plain(sentence)).terms) == len(finder.terms)
            if has_all and sentence not in part.questions and kind_of(sentence) not in ("open", "request"):
                return at, sentence
    return None


def _kind_of_models(decision: str) -> str:
    return "" if is_question(decision) else "decision"


def _kind_of_users(sentence: str, said: Sequence[Said], order: int, is_told: bool) -> str:
    asks = not is_told and sentence in said[order].questions
    kind = "" if asks else kind_of(sentence)
    if asks or (kind == "request" and not is_told):
        return ANSWERED if is_answered(said, after=order) else "open"
    if kind not in ("", "request"):
        return kind
    return "fact" if is_told or has_identifier(sentence[:SENTENCE_CHARS]) else ""
