"""What a person wants, read off the shape of a message: keep something, look something up, or talk.

A pure guess by patterns. A message can want two things at once ("Remember that …. When is …?").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.runtime.models.offline.reading.reading import own_words
from nacre.runtime.models.offline.words.ask_phrases import (
    ABOUT_SELF,
    FAREWELL,
    FORGET,
    GREETING,
    LOOK_UP,
    POLITE,
    QUESTION_CJK,
    QUESTION_MARK,
    QUESTION_START,
    REMEMBER_LEAD,
    REMEMBER_TAIL,
    REMEMBER_WHOLE,
    THANKS,
)
from nacre.runtime.models.offline.words.kinds import SENTENCE_CHARS, is_plain_fact
from nacre.runtime.models.offline.words.sentences import folded, is_cjk, sentences

SmallTalk: TypeAlias = Literal["greeting", "thanks", "farewell", "about", "forget"]

MOST_WORDS_WITHOUT_MARK = 14
"""A longer sentence that begins like a question and has no question mark is a statement."""

MOST_CHARS_OF_PLAIN_FACTS = 1_500
"""Longer messages are pasted text more often than facts; they are kept when that is asked for."""

_SMALL_TALK: tuple[tuple[SmallTalk, re.Pattern[str]], ...] = (
    ("greeting", GREETING),
    ("thanks", THANKS),
    ("farewell", FAREWELL),
)
_LEAD_REST = re.compile(r"^[\s:,;\uff0c\uff1a、。.!\uff01\-–—]+")
_THAT = re.compile(r"^(?:that|dass|que|che|att|dat|что)\s+", re.IGNORECASE)
_MARKS = " \t\n.,!?。\uff0c\uff01\uff1f~～…👋🙂😊"
_QUESTION_MARKS = "?\uff1f"
_TRAILING_MARKS = " 、,\uff0c"
_CODE_MARK = re.compile(r"^\s*(?:```|~~~|>)")


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
    small_talk: SmallTalk | None = None


def read_intent(message: str) -> Intent:
    """What the message wants; an empty `Intent` when no pattern fits."""
    plain = own_words(message).strip()
    small_talk = _small_talk(plain)
    if small_talk is not None:
        return Intent(small_talk=small_talk)
    said = sentences(plain)
    questions = [sentence for sentence in said if is_question(sentence)]
    if questions and any(ABOUT_SELF.search(question) for question in questions[:1]):
        return Intent(small_talk="about")
    question = " ".join(questions)
    asked_to_keep = _asked_to_keep(message, said)
    if asked_to_keep is not None:
        return Intent(
            to_keep=asked_to_keep,
            asked_to_keep=True,
            keep_previous=not asked_to_keep,
            question=question,
        )
    if FORGET.search(plain):
        return Intent(small_talk="forget")
    facts: list[str] = []
    if len(plain) <= MOST_CHARS_OF_PLAIN_FACTS:
        facts = [sentence for sentence in said if sentence not in questions and is_plain_fact(sentence)]
    return Intent(to_keep="\n".join(facts), question=question)


def is_question(sentence: str) -> bool:
    """Whether a sentence asks something, with or without a question mark."""
    if len(sentence) > SENTENCE_CHARS:
        return False
    if _lead(sentence) is not None and not _is_polite_question(sentence):
        return False
    if not folded(sentence):
        return False
    if QUESTION_MARK.search(sentence):
        return True
    start = POLITE.sub("", sentence, count=1) if POLITE.match(sentence) else sentence
    if LOOK_UP.match(start) or LOOK_UP.match(sentence):
        return True
    if is_cjk(sentence) or _is_korean(sentence):
        return bool(QUESTION_CJK.search(sentence))
    if sentence.endswith((".", "!")):
        return False
    short = len(sentence.split()) <= MOST_WORDS_WITHOUT_MARK
    return short and not re.search(r"[,;:]", sentence) and bool(QUESTION_START.match(start))


def without_request(sentence: str) -> str:
    """The sentence without the words that ask to keep it; unchanged when there are none."""
    lead = None if _is_polite_question(sentence) else _lead(sentence)
    return sentence if lead is None else _tidy(sentence[len(lead) :]) or sentence


def _small_talk(text: str) -> SmallTalk | None:
    bare = text.strip(_MARKS)
    if len(bare) > 60:
        return "about" if len(bare) < 200 and ABOUT_SELF.search(text) and "\n" not in bare else None
    for kind, pattern in _SMALL_TALK:
        rest = bare
        while match := pattern.match(rest):
            following = rest[match.end() :]
            if not match.group() or (following and following[0].isalnum() and following[0].isascii()):
                break
            rest = following.strip(_MARKS)
        if bare and not rest:
            return kind
    return "about" if ABOUT_SELF.search(text) else None


def _asked_to_keep(message: str, said: list[str]) -> str | None:
    """The text that the message asks to keep, empty when it points back, `None` when it asks nothing."""
    for at, sentence in enumerate(said):
        lead = None if _is_polite_question(sentence) else _lead(sentence)
        if lead is not None:
            return _kept_from(message, sentence, lead, said[:at])
        tail = REMEMBER_TAIL.search(sentence) if len(sentence) <= SENTENCE_CHARS else None
        if tail and not QUESTION_MARK.search(sentence):
            kept = sentence[: tail.start()].rstrip(_TRAILING_MARKS)
            return kept or " ".join(part for part in said[:at] if not is_question(part))
    return None


def _kept_from(message: str, sentence: str, lead: str, earlier: list[str]) -> str:
    """What stands behind the lead, up to the next question; code and quotations there belong to it."""
    start = message.find(sentence)
    if start < 0:
        return _tidy(sentence[len(lead) :])
    following = message[start + len(sentence) :]
    kept = _tidy(sentence[len(lead) :]) + _until_question(following)
    kept = kept.strip()
    if kept:
        return kept.rstrip(_QUESTION_MARKS) if QUESTION_MARK.search(sentence) else kept
    return " ".join(part for part in earlier if not is_question(part))


def _until_question(text: str) -> str:
    """The text up to its first sentence that asks something outside of code and quotations."""
    for sentence in sentences(own_words(text)):
        if is_question(sentence):
            at = text.find(sentence)
            return text[:at].rstrip(" \t\n-*") if at >= 0 else text
    return text


def _lead(sentence: str) -> str | None:
    """The words of a sentence that ask to keep the rest; empty when all of it is to be kept."""
    if _CODE_MARK.match(sentence):
        return None
    polite = POLITE.match(sentence)
    start = polite.end() if polite else 0
    if REMEMBER_WHOLE.match(sentence, start):
        return sentence[:start]
    lead = REMEMBER_LEAD.match(sentence, start)
    return None if lead is None else sentence[: lead.end()]


def _is_polite_question(sentence: str) -> bool:
    """Whether a request to keep is really a question: "Can you remember my dentist?", "你记得…吗"."""
    if QUESTION_CJK.search(sentence) and (is_cjk(sentence) or _is_korean(sentence)):
        return True
    lead = _lead(sentence)
    if lead is None or not QUESTION_MARK.search(sentence):
        return False
    if re.search(r"(?:that|dass|que|qu['’]|che|att|dat|что|:)\s*$", lead, re.IGNORECASE):
        return False
    polite = POLITE.match(sentence)
    return polite is None or not re.search(r"please|bitte", sentence, re.IGNORECASE)


def _tidy(text: str) -> str:
    return _THAT.sub("", _LEAD_REST.sub("", text))


def _is_korean(sentence: str) -> bool:
    return any("\uac00" <= sign <= "\ud7a3" for sign in sentence)
