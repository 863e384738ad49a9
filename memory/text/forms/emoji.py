"""Emoji as words, because stores treat them as separators."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_EMOJI = re.compile(
    "[\u2600-\u27bf\u2b00-\u2bff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_BEYOND = re.compile("[^\x00-\u25ff]")
"""Tells in a third of the time that a text has none."""
_SAYS_NOTHING = frozenset(
    (
        *("and", "the", "with", "sign", "symbol", "mark", "black", "white", "heavy", "face", "open"),
        *("person", "regional", "indicator", "letter", "emoji", "component", "left", "right", "down"),
    )
)


def emoji_in(text: str) -> list[str]:
    """The emoji of a text in order, without modifiers."""
    return _EMOJI.findall(text) if _BEYOND.search(text) else []


def is_emoji(term: str) -> bool:
    return _EMOJI.fullmatch(term) is not None


def emoji_words(emoji: str) -> Iterator[str]:
    """The words of an emoji's Unicode name, such as `parrot`."""
    name = unicodedata.name(emoji, "").lower()
    yield from (word for word in re.findall("[a-z]{3,}", name) if word not in _SAYS_NOTHING)
