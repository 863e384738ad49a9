"""What a person wants and what a sentence is, by its shape: keep something, look something up, or talk."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import repeat

from nacre.memory.contracts.words import MatchQuery
from nacre.memory.text.evidence import Finder
from nacre.memory.text.forms.words import stop_words_for
from nacre.memory.text.lexical import match_query
from nacre.record import Record
from nacre.runtime.models.offline.phrases import DECIDING, DECIDING_IN_ASCII, PHRASES, occurs
from nacre.runtime.models.offline.sentences import ONE_WRITING, folded, own_words, plain, sentences

SENTENCE_CHARS = 600  # what is longer is no sentence; its beginning says what kind it is
MOST_WORDS_WITHOUT_MARK = 14  # a longer sentence without a question mark is a statement
MOST_CHARS_OF_PLAIN_FACTS = 1_500  # longer messages are pasted more often than facts
MOST_CHARS_OF_SMALL_TALK = 60

KINDS = ("decision", "preference", "rule", "open", "request", "fact", "date")
"""The kinds of statements; of several that fit, the first counts."""

_KEPT_UNASKED = ("decision", "preference", "fact")
_SMALL_TALK = {
    kind: re.compile(rf"\W*(?:(?:{PHRASES[kind].pattern})(?![a-z0-9])\W*)+")
    for kind in ("greeting", "thanks", "farewell")
}
_POLITE = re.compile(rf"^(?:{PHRASES['polite'].pattern}){{1,4}}")
# What has been passed is not tried again at shorter lengths: else a row of blanks takes its square of time.
_QUESTION_MARK = re.compile(r"[?](?<![?][?])[?]*+[\s\"'”»)\]」』*_]*+$")
_STATED = re.compile(r"[,;:.!](?:(?<=[,;:])|$)")
_GAP = r"[\s:,;、。.!\-–—]*+"
_TO_KEEP = re.compile(
    rf"{_GAP}(?P<that>(?:that|dass|(?:de )?que|che|att|dat|что)\b|qu'"
    rf"|(?:this|it|the following)(?=\s*(?:[:.!?]|$)))?{_GAP}"
)


class Intent(Record):
    """What one message wants: to store `to_keep`, to look up `question`, or a kind of `small_talk`.

    What is asked to be kept and is empty was said before ("remember that").
    """

    to_keep: str = ""
    asked_to_keep: bool = False
    question: str = ""
    small_talk: str = ""


def read_intent(message: str) -> Intent:
    """What the message wants; an empty `Intent` when no pattern fits."""
    own = own_words(message).strip()
    said = [*sentences(own)]
    questions = [sentence for sentence in said if is_question(sentence)]
    if small_talk := _small_talk(own, questions):
        return Intent(small_talk=small_talk)
    question, kept = " ".join(questions), _asked_to_keep(message, said)
    if kept is not None:
        return Intent(to_keep=kept, asked_to_keep=True, question=question)
    if PHRASES["forget"].search(plain(own[:SENTENCE_CHARS])):
        return Intent(small_talk="forget")
    typed = said if len(own) <= MOST_CHARS_OF_PLAIN_FACTS else ()
    facts = (part for part in typed if part not in questions and _is_kept_unasked(part))
    return Intent(to_keep="\n".join(facts), question=question)


def kind_of(sentence: str, among: Collection[str] = KINDS) -> str:
    """The first of `KINDS` whose patterns fit the sentence; empty when none does, or one not `among` them."""
    start = plain(sentence[:SENTENCE_CHARS])
    if len(among) < len(KINDS) and not any(map(occurs, among, repeat(start))):
        return ""
    kind = next((kind for kind in KINDS if occurs(kind, start)), "")
    return kind if kind in among else ""


def is_decision(sentence: str) -> bool:
    """Whether that is its kind: decisions count first of all."""
    return occurs("decision", plain(sentence[:SENTENCE_CHARS]))


def may_decide(text: str) -> bool:
    """Whether there can be a decision in a text: what most texts have none of is not looked for."""
    if text.isascii():
        return any(map(text.lower().__contains__, DECIDING_IN_ASCII))
    return any(map(text.translate(ONE_WRITING).lower().__contains__, DECIDING))


def is_question(sentence: str) -> bool:
    """Whether a sentence asks something, with or without a question mark."""
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
    """Whether a sentence ends as a question, in the marks of any script."""
    return _QUESTION_MARK.search(plain(sentence)) is not None


def finder_for(question: str) -> Finder:
    """Looks for the words that say what a question is about, for `plain` text."""
    query = match_query(plain(question)) or MatchQuery()
    nothing = stop_words_for(query.terms)
    told = (term for term in query.terms if term not in nothing and not PHRASES["asking"].fullmatch(term))
    return Finder(replace(query, terms=tuple(told)))


def without_request(sentence: str) -> str:
    """The sentence without the words that ask to keep it; unchanged when there are none."""
    return sentence[_start_to_keep(sentence) or 0 :] or sentence


def _small_talk(own: str, questions: list[str]) -> str:
    for kind, pattern in _SMALL_TALK.items():
        if own and len(own) <= MOST_CHARS_OF_SMALL_TALK and pattern.fullmatch(plain(own)):
            return kind
    asked = questions[0] if questions else own
    return "about" if len(asked) <= SENTENCE_CHARS and PHRASES["about"].search(plain(asked)) else ""


def _is_kept_unasked(sentence: str) -> bool:
    start = plain(sentence[:SENTENCE_CHARS])
    return not PHRASES["supposed"].match(start) and any(occurs(kind, start) for kind in _KEPT_UNASKED)


def _asked_to_keep(message: str, said: list[str]) -> str | None:
    """The text that the message asks to keep, empty when it points back, `None` when it asks nothing.

    After a lead ("Remember …") it goes up to the next question; code and quotations there belong to it.
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
    """Where the text begins that a sentence asks to keep; `None` for others: "Can you remember …?" asks."""
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
