"""A word that nobody wrote, as the words that it is made of: `ledgersync`, "Zahnarzttermin". Pure."""

from __future__ import annotations

from collections.abc import Callable

LEAST_LETTERS = 3
_MOST_LETTERS = 40
_MOST_SEGMENTS = 3
_LINKS = ("", "s", "es", "n", "en")
"""What German, Dutch and Swedish put between two words."""


def segments(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """The fewest words that `word` is made of and that `is_known` says stand somewhere; empty when not.

    The longest first one is taken. A letter or two that only link may stand between them.
    """
    if not 2 * LEAST_LETTERS <= len(word) <= _MOST_LETTERS:
        return ()
    known: dict[str, bool] = {}

    def stands(part: str) -> bool:
        if part not in known:
            known[part] = is_known(part)
        return known[part]

    for count in range(2, _MOST_SEGMENTS + 1):
        if found := _cut(word, count, stands):
            return found
    return ()


def _cut(word: str, count: int, stands: Callable[[str], bool]) -> tuple[str, ...]:
    if count == 1:
        return (word,) if len(word) >= LEAST_LETTERS and stands(word) else ()
    for end in range(len(word) - LEAST_LETTERS * (count - 1), LEAST_LETTERS - 1, -1):
        first = word[:end]
        bare = next((b for link in _LINKS if (b := _without(first, link)) and stands(b)), "")
        if bare and (rest := _cut(word[end:], count - 1, stands)):
            return (bare, *rest)
    return ()


def _without(word: str, link: str) -> str:
    bare = word.removesuffix(link) if link else word
    return bare if len(bare) >= LEAST_LETTERS and (not link or bare != word) else ""
