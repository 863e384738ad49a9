"""Which sentences of a conversation are worth keeping.

Extraction by patterns: every note is a sentence that was really said. Quotations, code, recalled
notes, summaries, commands and answered questions are never notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nacre.runtime.models.offline.reading.intent import is_question, without_request
from nacre.runtime.models.offline.reading.reading import Said, own_words
from nacre.runtime.models.offline.words.kinds import SENTENCE_CHARS, NoteKind, kind_of
from nacre.runtime.models.offline.words.sentences import clipped, folded, sentences
from nacre.runtime.models.offline.words.wording import SIGNS_OF_NO_ANSWER, SIGNS_OF_OWN_TEXT
from nacre.sessions.compaction.identifiers import identifiers

MAX_NOTE_CHARS = 400
MIN_NOTE_CHARS = 4
MAX_SENTENCES_PER_MESSAGE = 400

_COMMAND = re.compile(r"\s*/[a-z]", re.IGNORECASE)
_SILENT_TOKENS = ("NO_REPLY", "HEARTBEAT_OK")
_REQUEST = re.compile(
    r"(?:please|pls|bitte|can you|could you|would you|will you|kannst du|könntest du|peux-tu|pourrais-tu"
    r"|puedes|podrías|por favor|per favore|puoi|пожалуйста)\b"
    r"|请|請|麻烦|麻煩|帮我|幫我|.{0,200}(?:ください|お願いします|주세요)[。.!\uff01]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Note:
    """One sentence worth keeping; `order` is the place of its message in the conversation, from 0."""

    kind: NoteKind
    text: str
    order: int


class Known:
    """What is written down already, to be asked whether a sentence is in it; ignores case and marks."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = " \n ".join(f" {folded(text)} " for text in texts)

    def has(self, sentence: str) -> bool:
        """Whether the whole sentence stands there."""
        key = folded(sentence)
        return not key or f" {key} " in self._text


def notes_of(said: Sequence[Said], known: Known) -> list[Note]:
    """The notes of a conversation in the order they were said, each once.

    What a person said counts in every kind; of an assistant's words only decisions are taken, and
    none of what this responder wrote itself.
    """
    notes: list[Note] = []
    seen: set[str] = set()
    for order, contribution in enumerate(said):
        for sentence in _sentences_of(contribution):
            kind = _kind(sentence, contribution, said[order + 1 :])
            text = without_request(sentence)
            key = folded(text)
            if kind is None or key in seen or known.has(text) or known.has(sentence):
                continue
            seen.add(key)
            notes.append(Note(kind=kind, text=clipped(sentence, MAX_NOTE_CHARS), order=order))
    return notes


def is_answered(later: Sequence[Said]) -> bool:
    """Whether an assistant answered before the person spoke again; "found nothing" is no answer."""
    for contribution in later:
        if contribution.speaker == "user":
            return False
        if contribution.speaker == "assistant":
            return not any(sign in contribution.text for sign in SIGNS_OF_NO_ANSWER)
    return False


def is_own_text(text: str) -> bool:
    """Whether a text is an answer of this responder."""
    return any(sign in text for sign in SIGNS_OF_OWN_TEXT)


def is_command(text: str) -> bool:
    """Whether a message is a chat command or a prompt of the runtime, and no conversation."""
    return bool(_COMMAND.match(text)) or any(token in text for token in _SILENT_TOKENS)


def _sentences_of(contribution: Said) -> list[str]:
    if contribution.speaker not in ("user", "assistant") or is_command(contribution.text):
        return []
    if contribution.speaker == "assistant" and is_own_text(contribution.text):
        return []
    found = sentences(own_words(contribution.text))[:MAX_SENTENCES_PER_MESSAGE]
    return [sentence for sentence in found if len(sentence) >= MIN_NOTE_CHARS]


def _kind(sentence: str, contribution: Said, later: Sequence[Said]) -> NoteKind | None:
    kind = kind_of(sentence)
    if contribution.speaker == "assistant":
        return "decision" if kind == "decision" and not is_question(sentence) else None
    if is_question(sentence):
        return None if is_answered(later) else "ask"
    if without_request(sentence) != sentence:
        return kind or "fact"
    if kind is None:
        return "fact" if identifiers([sentence[:SENTENCE_CHARS]], most=1) else None
    if kind == "ask" and _REQUEST.match(sentence) and is_answered(later):
        return None
    return kind
