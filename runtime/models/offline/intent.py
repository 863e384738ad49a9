"""What a person wants and what a sentence is, by its shape: keep something, look something up, or talk.

A pure guess by patterns. A message can want two things at once ("Remember that …. When is …?").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import own_words
from nacre.runtime.models.offline.sentences import folded, plain, sentences

SENTENCE_CHARS = 600
"""What is longer is no sentence; its beginning says what kind it is."""

MOST_WORDS_WITHOUT_MARK = 14
"""A longer sentence that begins like a question and has no question mark is a statement."""

MOST_CHARS_OF_PLAIN_FACTS = 1_500
"""Longer messages are pasted text more often than facts; they are kept when that is asked for."""

MOST_CHARS_OF_SMALL_TALK = 60

KINDS = ("decision", "preference", "constraint", "name", "blocked", "ask", "person", "date", "fact")
"""The kinds of statements; of several that fit, the first counts."""

_PLAIN_FACTS = ("decision", "preference", "name", "fact")
_SMALL_TALK = {
    kind: re.compile(rf"\W*(?:(?:{PHRASES[kind].pattern})(?![a-z0-9])\W*)+")
    for kind in ("greeting", "thanks", "farewell")
}
_POLITE = re.compile(rf"(?:{PHRASES['polite'].pattern}){{1,4}}")
_QUESTION_MARK = re.compile(r"[?]+[\s\"'”»)\uff09\]」』*_]*$")
_LEAD_REST = re.compile(r"^[\s:,;\uff0c\uff1a、。.!\uff01\-–—]+")
_THAT = re.compile(r"^(?:that|dass|que|che|att|dat|что)\s+", re.IGNORECASE)
_ENDS_IN_THAT = re.compile(r"(?:that|dass|que|qu'|che|att|dat|что|:)\s*$")


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What one message wants.

    `to_keep` is the text to store, in its writer's words: asked for, or a plain lasting fact;
    `keep_previous` says that the text to store was said before ("remember that"). `question` is the
    text to look up. Without either, `small_talk` may name a kind of its own.
    """

    to_keep: str = ""
    asked_to_keep: bool = False
    keep_previous: bool = False
    question: str = ""
    small_talk: str = ""


def read_intent(message: str) -> Intent:
    """What the message wants; an empty `Intent` when no pattern fits."""
    own = own_words(message).strip()
    said = sentences(own)
    questions = [sentence for sentence in said if is_question(sentence)]
    small_talk = _small_talk(own, questions)
    if small_talk:
        return Intent(small_talk=small_talk)
    question = " ".join(questions)
    kept = _asked_to_keep(message, said)
    if kept is not None:
        return Intent(to_keep=kept, asked_to_keep=True, keep_previous=not kept, question=question)
    if PHRASES["forget"].search(plain(own[:SENTENCE_CHARS])):
        return Intent(small_talk="forget")
    facts = [sentence for sentence in said if sentence not in questions and _is_plain_fact(sentence)]
    return Intent(
        to_keep="\n".join(facts) if len(own) <= MOST_CHARS_OF_PLAIN_FACTS else "", question=question
    )


def kind_of(sentence: str) -> str:
    """The first of `KINDS` whose patterns fit the sentence, empty when none does.

    >>> kind_of("We decided to use Postgres."), kind_of("Nice weather.")
    ('decision', '')
    """
    start = plain(sentence[:SENTENCE_CHARS])
    return next((kind for kind in KINDS if PHRASES[kind].search(start)), "")


def is_question(sentence: str) -> bool:
    """Whether a sentence asks something, with or without a question mark."""
    if len(sentence) > SENTENCE_CHARS or _lead_chars(sentence) is not None or not folded(sentence):
        return False
    text = plain(sentence)
    begun = text[_polite_chars(text) :]
    if _QUESTION_MARK.search(text) or PHRASES["marked"].search(text):
        return True
    if PHRASES["look_up"].match(begun) or PHRASES["look_up"].match(text):
        return True
    if text.endswith((".", "!")) or re.search("[,;:]", text) or len(text.split()) > MOST_WORDS_WITHOUT_MARK:
        return False
    return bool(PHRASES["question"].match(begun))


def without_request(sentence: str) -> str:
    """The sentence without the words that ask to keep it; unchanged when there are none."""
    chars = _lead_chars(sentence)
    return sentence if chars is None else _tidy(sentence[chars:]) or sentence


def _small_talk(own: str, questions: list[str]) -> str:
    for kind, pattern in _SMALL_TALK.items():
        if own and len(own) <= MOST_CHARS_OF_SMALL_TALK and pattern.fullmatch(plain(own)):
            return kind
    one_line = own if len(own) <= SENTENCE_CHARS and "\n" not in own else ""
    return "about" if PHRASES["about"].search(plain(questions[0] if questions else one_line)) else ""


def _is_plain_fact(sentence: str) -> bool:
    """Whether a statement is a lasting fact about its speaker, kept even when nobody asks for it."""
    start = plain(sentence[:SENTENCE_CHARS])
    return not PHRASES["supposed"].match(start) and any(PHRASES[kind].search(start) for kind in _PLAIN_FACTS)


def _asked_to_keep(message: str, said: list[str]) -> str | None:
    """The text that the message asks to keep, empty when it points back, `None` when it asks nothing.

    After a lead ("Remember …") it goes up to the next question; code and quotations there belong to it.
    """
    for at, sentence in enumerate(said):
        asks = bool(_QUESTION_MARK.search(plain(sentence)))
        chars = _lead_chars(sentence)
        tail = PHRASES["keep_tail"].search(plain(sentence[:SENTENCE_CHARS]))
        if chars is not None:
            following = message.partition(sentence)[2]
            kept = (_tidy(sentence[chars:]) + _until_question(following)).strip()
            kept = kept.rstrip("?\uff1f") if asks else kept
        elif tail and not asks:
            kept = sentence[: tail.start()].rstrip(" 、,\uff0c")
        else:
            continue
        return kept or " ".join(part for part in said[:at] if not is_question(part))
    return None


def _until_question(text: str) -> str:
    """The text up to its first sentence that asks something outside of code and quotations."""
    question = next((part for part in sentences(own_words(text)) if is_question(part)), "")
    return text.partition(question)[0].rstrip(" \t\n-*") if question else text


def _lead_chars(sentence: str) -> int | None:
    """How long the words are that ask to keep the rest of a sentence; `None` when it does not ask that.

    0 when all of it is to be kept. "Can you remember my dentist?" and "你记得…吗" are questions.
    """
    text = plain(sentence)
    polite_chars = _polite_chars(text)
    lead = PHRASES["keep"].match(text, polite_chars)
    chars = polite_chars if PHRASES["keep_whole"].match(text, polite_chars) else lead.end() if lead else None
    if chars is None or PHRASES["marked"].search(text):
        return None
    commands = _ENDS_IN_THAT.search(text[:chars]) or re.search("please|bitte", text[:polite_chars])
    return chars if commands or not _QUESTION_MARK.search(text) else None


def _polite_chars(text: str) -> int:
    polite = _POLITE.match(text)
    return polite.end() if polite else 0


def _tidy(text: str) -> str:
    return _THAT.sub("", _LEAD_REST.sub("", text))
