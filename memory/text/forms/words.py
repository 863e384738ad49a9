"""Stop words and the small words of claims, lower-case, and the languages of texts, which they show.

`words.json` is read once, for the first query or text. Stop words are only removed from queries: the index
keeps every word, so that an exact phrase can be found.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

_DATA = json.loads(Path(__file__).with_name("words.json").read_bytes())

NAMED_STOP_WORDS = {name: frozenset(" ".join(lines).split()) for name, lines in _DATA["stop words"].items()}
"""The stop words of each language with spaces between words, by its lower-case English name."""
ENGLISH, CHINESE = NAMED_STOP_WORDS["english"], NAMED_STOP_WORDS.pop("chinese")
CHINESE_PARTICLES = frozenset(_DATA["particles"]["chinese"])
"""Characters that usually stand beside a word and not inside one."""
JAPANESE_OR_CHINESE = frozenset(_DATA["particles"]["japanese or chinese"])


def claim_words(kind: str) -> frozenset[str]:
    """The words of all languages that express a kind of claim, such as "is" or "not"."""
    languages: Mapping[str, str] = _DATA["claims"][kind]
    return frozenset(word for words in languages.values() for word in words.split(", "))


def verbs_of_things() -> Iterator[tuple[str, bool, frozenset[str]]]:
    """Things with the verbs of all languages that give them a value, and whether these tell of a change.

    The value stands behind the words, or at their "…". The thing is empty for verbs behind which the thing
    stands that somebody does not have.
    """
    for thing, kinds in _DATA["verbs"].items():
        for kind, languages in kinds.items():
            phrases = frozenset(phrase for each in languages.values() for phrase in each.split(", "))
            yield thing, kind == "changes", phrases


def claim_words_beside(kind: str, is_said: Callable[[str], bool]) -> frozenset[str]:
    """Such words of the languages of which one is said."""
    languages = (frozenset(words.split(", ")) for words in _DATA["claims"][kind].values())
    return frozenset().union(*(words for words in languages if any(map(is_said, words))))


def stop_words_for(words: Collection[str]) -> frozenset[str]:
    """The stop words of the language that has most of these lower-case words.

    English wins a tie, because stop words of other languages are English words (`die`, `was`, `per`).
    """
    counted = dict.fromkeys(NAMED_STOP_WORDS, 0)
    for word in words:
        for language in _languages_with(word):
            counted[language] += 1
    return NAMED_STOP_WORDS[max(counted, key=counted.__getitem__)]


@lru_cache(maxsize=16_384)
def _languages_with(word: str) -> tuple[str, ...]:
    return tuple(name for name, stop_words in NAMED_STOP_WORDS.items() if word in stop_words)


LEAST_SHARE = 0.05
"""The share of texts that a language needs, because a quotation does not make a language of the notes."""
_EXAMINED_CHARS = 800
_LEAST_SMALL_WORDS = 2
_DENSE = 3
"""How many Latin letters say as much as one character of Chinese, Japanese or Korean."""

_SCRIPTS = {
    "Japanese": "\u3040-\u30ff",
    "Chinese": "\u3400-\u9fff",
    "Korean": "\uac00-\ud7af",
    "Cyrillic": "\u0400-\u04ff",
    "Arabic": "\u0600-\u06ff",
    "Hindi": "\u0900-\u097f",
    "Hebrew": "\u0590-\u05ff",
    "Greek": "\u0370-\u03ff",
    "Thai": "\u0e00-\u0e7f",
    "Latin": "a-zA-Z\u00c0-\u024f",
}
_OF_SCRIPT = {"Latin": set(NAMED_STOP_WORDS) - {"russian"}, "Cyrillic": {"russian"}}


@cache  # searches do not need it
def _patterns() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}


def languages_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The English names of the languages of the texts, sorted.

    A script stands for its main language if a question need not distinguish its languages.
    """
    counted = Counter(filter(None, map(language_of, texts)))
    least = LEAST_SHARE * counted.total()
    return tuple(sorted(name for name, count in counted.items() if count >= least))


def language_of(text: str) -> str:
    """The English name of the language of a text; empty if it is too short or unknown."""
    text = text[:_EXAMINED_CHARS]
    letters = {name: len(pattern.findall(text)) for name, pattern in _patterns().items()}
    for dense in ("Japanese", "Chinese", "Korean"):
        letters[dense] *= _DENSE
    if letters["Japanese"] * 5 > letters["Chinese"]:  # Japanese has kana between Chinese characters
        letters["Japanese"] += letters.pop("Chinese")
    script = max(letters, key=letters.__getitem__)
    if not letters[script]:
        return ""
    if script not in _OF_SCRIPT:
        return script
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    small = {
        name: sum(words[word] for word in NAMED_STOP_WORDS[name] if word in words)
        for name in sorted(_OF_SCRIPT[script])
    }
    best = max(small, key=small.__getitem__)
    return best.capitalize() if small[best] >= _LEAST_SMALL_WORDS else ""
