# ruff: noqa: E501 - one pattern per line
"""What is worth keeping of the owner's words, its category, and what nobody should store.

For thirteen languages the patterns are those of the offline responder; this file adds the patterns that the
responder does not need, and Czech.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from nacre.extensions.lancedb.records import Category
from nacre.runtime.models.offline.phrases import PHRASES, occurs
from nacre.runtime.models.offline.sentences import own_words, plain

LEAST_CHARS = 10
LEAST_CHARS_WITHOUT_SPACES = 5
"""The minimum in scripts without spaces, where a word has one or two characters."""
MOST_EMOJI = 3
MOST_CAPTURES = 3
"""The most memories from one message."""

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")
_PHONE = re.compile(r"\+\d(?:[ ()./-]?\d){9,14}(?!\d)")
_CALLED = re.compile(
    r"\b(?:is|are|was) (?:called|named)\b|\b(?:heißt|se llama|s'appelle|si chiama|jmenuje se|nazývá se)\b|叫做?|という名前|라고 (?:불러|합니다)"
)
_CZECH = {
    "keep": re.compile(r"\b(?:zapamatuj|pamatuj)(?: si)?\b|\bnezapome[nň]"),
    "preference": re.compile(r"\b(?:preferuji|radši|raději|nechci|mám (?:rád|ráda)|nesnáším)\b"),
    "decision": re.compile(r"\b(?:rozhodli jsme|rozhodl[a]? jsem|budeme používat)\b"),
    "fact": re.compile(r"\b(?:můj|moje|má|mé)\s[^.?!,;]{1,80}?\s(?:je|jsou|má)\b|\bje (?:můj|moje)\b"),
}
_STRESSED = re.compile(r"\b(?:always|never|important)\b|\bi (?:like|prefer|hate|love|want|need)\b")
_PREFERS = re.compile(r"\b(?:prefers?|likes?|loves?|hates?|wants?)\b")
_DECIDED = re.compile(r"\b(?:decided|will use)\b")
_IS = re.compile(
    r"\b(?:is|are|has|have|je|má|jsou|ist|sind|hat|est|sont|es|son|è|sono|jest)\b|是|です|だ。|입니다|является"
)
_TAG = re.compile(r"<\s*/?\s*(?:system|assistant|developer|tool|function|relevant-memories)\b", re.IGNORECASE)
_MARKUP = re.compile(r"\s*<.*</", re.DOTALL)
_BULLET = re.compile(r"^\s*-", re.MULTILINE)
_INJECTED = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any |the |your |my )*(?:previous|above|prior|earlier|preceding)?\s?(?:instructions|rules|prompts?)\b"
    r"|\b(?:ignore|disregard) (?:all|any|previous|above|prior) instructions\b"
    r"|\bdo not follow (?:the )?(?:system|developer)\b|\b(?:system|developer) (?:prompt|message)\b"
    r"|\b(?:run|execute|call|invoke)\b.{0,40}\b(?:tool|command)\b"
    r"|\bignoriere? (?:alle |die )*(?:vorherigen|bisherigen|obigen) (?:anweisungen|regeln)\b|\bignore[zs]? (?:toutes )?les instructions\b"
    r"|\bignora (?:todas )?las instrucciones\b|\bигнорируй(?:те)? (?:все )?(?:предыдущие )?инструкции"
    r"|忽略.{0,6}(?:之前|以上|前面|所有).{0,6}(?:指令|指示|提示)|(?:以前|これまで|上記)の指示を無視|이전 지시를? 무시"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_EMOJI = re.compile("[\U0001f300-\U0001f9ff]")
_MARKS = re.compile(r"[\s.,;:!?…。、，！？；：'\"“”‘’«»「」()\[\]]+")
"""Punctuation that does not distinguish statements. Vowel signs, `#`, `+`, a minus and emoji do."""


def looks_like_injection(text: str) -> bool:
    """Whether a text addresses the assistant's rules, tools or message format instead of stating something."""
    one_line = " ".join(plain(text).split())
    return _TAG.search(text) is not None or _INJECTED.search(one_line) is not None


def should_capture(text: str, *, most_chars: int, triggers: Sequence[str] = ()) -> bool:
    """Whether a text of the owner is a statement worth keeping; `triggers` are the owner's own keywords."""
    text = text.strip()
    least = LEAST_CHARS if text.isascii() else LEAST_CHARS_WITHOUT_SPACES
    if not least <= len(text) <= most_chars or looks_like_injection(text) or _MARKUP.match(text):
        return False
    if ("**" in text and _BULLET.search(text)) or len(_EMOJI.findall(text)) > MOST_EMOJI:
        return False
    flat = plain(text)
    if any(plain(trigger) in flat for trigger in triggers):
        return True
    if text.endswith(("?", "？")) or PHRASES["forget"].search(flat):
        return False
    return bool(
        _EMAIL.search(text)
        or _PHONE.search(text)
        or PHRASES["keep"].search(flat)
        or any(occurs(kind, flat) for kind in ("decision", "preference", "rule", "fact"))
        or any(pattern.search(flat) for pattern in _CZECH.values())
        or _STRESSED.search(flat)
    )


def captures(said: str, *, most_chars: int, triggers: Sequence[str] = ()) -> tuple[str, ...]:
    """The parts of a message to keep, in order: all of it, or the sentences of a longer message that are
    worth keeping.

    Quotations and notes that the runtime inserted are not the owner's words and are skipped.
    """
    own = own_words(said).strip()
    if len(own) <= most_chars:
        parts: Sequence[str] = (own,)
    else:
        parts = [part.strip() for part in _SENTENCE_END.split(own)]
    kept = [part for part in parts if should_capture(part, most_chars=most_chars, triggers=triggers)]
    return tuple(dict.fromkeys(kept))[:MOST_CAPTURES]


def category_of(text: str) -> Category:
    """The category of a text, by whole words."""
    flat = plain(text)
    if occurs("preference", flat) or _CZECH["preference"].search(flat) or _PREFERS.search(flat):
        return "preference"
    if occurs("decision", flat) or _CZECH["decision"].search(flat) or _DECIDED.search(flat):
        return "decision"
    if _EMAIL.search(text) or _PHONE.search(text) or _CALLED.search(flat):
        return "entity"
    return "fact" if occurs("fact", flat) or _CZECH["fact"].search(flat) or _IS.search(flat) else "other"


def same_statement(left: str, right: str) -> bool:
    """Whether two texts differ only in case, punctuation and spaces.

    Another digit, name or negation makes another statement, however near the vectors are.
    """
    return _bare(left) == _bare(right)


def _bare(text: str) -> str:
    return _MARKS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
