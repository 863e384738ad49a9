"""Which sentences of a conversation are worth keeping, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nacre.runtime.models.offline.answers import is_quoting, leaves_open
from nacre.runtime.models.offline.intent import (
    SENTENCE_CHARS,
    is_decision,
    is_question,
    kind_of,
    without_request,
)
from nacre.runtime.models.offline.reading import Said
from nacre.runtime.models.offline.sentences import clipped, folded
from nacre.sessions.compaction.identifiers import identifiers

MAX_NOTE_CHARS = 400


@dataclass(frozen=True, kw_only=True)
class Item:
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
        if part.speaker == "user" or (part.speaker == "assistant" and not is_quoting(part.text)):
            for sentence in part.sentences:
                if (note := _note(sentence, said, order, known, kept)) is not None:
                    yield note


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
    if words in kept or known.has_folded(words) or (is_told and known.has(sentence)):
        return None
    kind = _kind_of_users(sentence, said, order, is_told) if is_by_user else _kind_of_models(sentence)
    if not kind:
        return None
    kept.add(words)
    return Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)


def _kind_of_models(decision: str) -> str:
    return "" if is_question(decision) else "decision"


def _kind_of_users(sentence: str, said: Sequence[Said], order: int, is_told: bool) -> str:
    asks = not is_told and is_question(sentence)
    kind = "" if asks else kind_of(sentence)
    if asks or (kind == "request" and not is_told):
        return "" if is_answered(said, after=order) else "open"
    is_fact = is_told or identifiers([sentence[:SENTENCE_CHARS]], most=1)
    return kind if kind not in ("", "request") else "fact" if is_fact else ""
