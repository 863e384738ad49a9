"""Which sentences of a conversation are worth keeping, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nacre.runtime.models.offline.answers import is_quoting, leaves_open
from nacre.runtime.models.offline.intent import SENTENCE_CHARS, is_question, kind_of, without_request
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
        return not folded(sentence) or f" {folded(sentence)} " in self._text


def notes_of(said: Sequence[Said], known: Known) -> list[Item]:
    """The notes of a conversation, newest first, each once; of an assistant's words only decisions."""
    notes: dict[str, Item] = {}
    for order, part in enumerate(said):
        if part.speaker == "user" or (part.speaker == "assistant" and not is_quoting(part.text)):
            for sentence in part.sentences:
                kind, text = _kind(sentence, part, said[order + 1 :]), without_request(sentence)
                if kind and folded(text) not in notes and not known.has(text) and not known.has(sentence):
                    notes[folded(text)] = Item(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order)
    return sorted(notes.values(), key=lambda note: -note.order)


def is_answered(later: Sequence[Said]) -> bool:
    """Whether an assistant answered before the person spoke again; "found nothing" is no answer."""
    answer = next((part for part in later if part.speaker in ("user", "assistant")), None)
    return answer is not None and answer.speaker == "assistant" and not leaves_open(answer.text)


def _kind(sentence: str, contribution: Said, later: Sequence[Said]) -> str:
    asks, kind, is_told = is_question(sentence), kind_of(sentence), without_request(sentence) != sentence
    if contribution.speaker == "assistant":
        return kind if kind == "decision" and not asks else ""
    if asks or (kind == "request" and not is_told):
        return "" if is_answered(later) else "open"
    is_fact = is_told or identifiers([sentence[:SENTENCE_CHARS]], most=1)
    return kind if kind not in ("", "request") else "fact" if is_fact else ""
