"""Which sentences of a conversation are worth keeping, word for word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from nacre.record import Record
from nacre.runtime.models.offline.answers import is_quoting, leaves_open
from nacre.runtime.models.offline.intent import (
    KINDS,
    SENTENCE_CHARS,
    finder_for,
    has_question_mark,
    is_decision,
    is_question,
    kind_of,
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


def notes_of(said: Sequence[Said], known: Known, wanted: Collection[str] = KINDS) -> Iterator[Item]:
    """The notes of a conversation, newest first, each once; of an assistant's words only decisions.

    They are looked for as they are asked for, and only of the `wanted` kinds, which may become fewer
    meanwhile: who needs a few does not wait for a long conversation.
    """
    notes = _Notes(said, known, wanted)
    for order in range(len(said) - 1, -1, -1):
        yield from notes.of(order)


def answers(part: Said) -> bool:
    """Whether a contribution is an answer; that nothing was found is none."""
    return part.speaker == "assistant" and not leaves_open(part.text)


class _Notes:
    """What was noted of a conversation so far, read from its end."""

    def __init__(self, said: Sequence[Said], known: Known, wanted: Collection[str]) -> None:
        self._said = said
        self._known = known
        self._wanted = wanted
        self._kinds: dict[str, str] = {}
        self._kept: set[str] = set()
        self._closed: list[str] = []
        self._closed_words: set[str] = set()
        self._next: Said | None = None

    def of(self, order: int) -> Iterator[Item]:
        part, following = self._said[order], self._next
        if part.speaker in ("user", "assistant"):
            self._next = part
        if part.speaker == "user" and part.sentences:
            has_answer = following is not None and answers(following)
            for sentence in part.sentences:
                if note := self._of_user(sentence, order, has_answer=has_answer):
                    yield note
        elif part.speaker == "assistant" and "decision" in self._wanted and part.may_decide:
            for sentence in () if is_quoting(part.text) else part.sentences:
                if is_decision(sentence) and not is_question(sentence):
                    text = without_request(sentence)
                    if note := self._noted(sentence, text, "decision", order):
                        yield note

    def _of_user(self, sentence: str, order: int, *, has_answer: bool) -> Item | None:
        text = without_request(sentence)
        is_told = text != sentence
        kind = self._kinds.get(sentence)
        if kind is None:
            kinds, asked = self._said[order].kinds, (sentence, frozenset(self._wanted))
            if asked not in kinds:
                kinds[asked] = self._kind(sentence, is_told=is_told)
            kind = self._kinds[sentence] = kinds[asked]
        is_plain = kind in ("", "request")
        if has_answer and is_plain:
            # Whether it was a question is not looked at: it is no note in either case.
            self._closed.append(text)
            return None
        if is_plain and not {"open", "fact"}.intersection(self._wanted):
            return None
        if not is_told and (kind == "request" or sentence in self._said[order].questions):
            if has_answer:
                self._closed.append(text)
                return None
            kind = "open"
        return self._noted(sentence, text, kind, order) if kind else None

    def _kind(self, sentence: str, *, is_told: bool) -> str:
        """The kind of a sentence, whatever it asks; empty also for one that is no longer wanted."""
        wants_facts = "fact" in self._wanted
        kind = kind_of(sentence, KINDS if wants_facts else self._wanted)
        if is_told:
            return "fact" if kind in ("", "request") else kind
        return "fact" if not kind and wants_facts and has_identifier(sentence[:SENTENCE_CHARS]) else kind

    def _noted(self, sentence: str, text: str, kind: str, order: int) -> Item | None:
        words = folded(text)
        if words in self._kept or (kind == "open" and self._is_closed(words)):
            return None
        is_known = self._known.has_folded(words) or (text != sentence and self._known.has(sentence))
        if is_known and not has_question_mark(sentence):
            return None
        self._kept.add(words)
        if kind == "open" and (answer := _told_later(sentence, self._said, order)) is not None:
            order, sentence = answer
            words, kind = folded(without_request(sentence)), "fact"
            is_known = words in self._kept or self._known.has_folded(words)
            self._kept.add(words)
        if is_known or kind not in self._wanted:
            return None
        return Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)

    def _is_closed(self, words: str) -> bool:
        self._closed_words.update(map(folded, self._closed))
        self._closed.clear()
        return words in self._closed_words


def _told_later(question: str, said: Sequence[Said], order: int) -> tuple[int, str] | None:
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
