"""A made-up workspace of daily logs for measuring speed: words drawn as language draws them, fixed by a seed.

Not for measuring what is found: for that, see `benchmarks/recall.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path

from nacre.memory.text.forms.words import ENGLISH

VOCABULARY_WORDS = 50_000
WORDS_PER_CHUNK = 220
FIRST_RANK = 130
"""The ranks above it are stop words, which are half of what people write."""
CHUNKS_PER_FILE = 8
KINDS: Mapping[str, tuple[int, int]] = {
    "rare words": (10_000, VOCABULARY_WORDS),
    "topics": (300, 10_000),
    "common words alone": (1, 100),
    "mixed": (1, VOCABULARY_WORDS),
}
"""Kinds of questions, by the ranks that their words have."""

_NOTES = (
    "We decided to move the {} from {} to {}.",
    "I prefer the {} with {} and {}.",
    "My {} is called {} {}.",
    "I still need to bring the {} to {} {}.",
)
"""A decision, a preference, a fact and something that is open."""
_STOP_WORDS = sorted(ENGLISH)
_SYLLABLES = [consonant + vowel for consonant in "bklmnr" for vowel in "aeiou"]


class Words:
    """Made-up words with frequencies that fall as one over the rank, every other one a stop word."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        seen: dict[str, None] = {}
        while len(seen) < VOCABULARY_WORDS:
            seen.setdefault("".join(self._random.choices(_SYLLABLES, k=self._random.randint(2, 4))))
        self.words = list(seen)
        ranks = range(FIRST_RANK, FIRST_RANK + len(self.words))
        self._cumulative = list(accumulate(1 / rank for rank in ranks))

    def draw(self, count: int) -> list[str]:
        """`count` words."""
        drawn = self._random.choices(self.words, cum_weights=self._cumulative, k=count)
        drawn[::2] = self._random.choices(_STOP_WORDS, k=len(drawn[::2]))
        return drawn

    def message(self) -> str:
        """Two or three sentences of a chat, some thirty words; one message in a thousand is worth a note.

        So few that whoever looks for forty notes of a kind reads a session of 100,000 messages to its end.
        """
        kind = self._random.randrange(1_000 * len(_NOTES))
        noted = [_NOTES[kind].format(*self.draw(6)[1::2])] if kind < len(_NOTES) else []
        counts = self._random.choices(range(8, 18), k=self._random.choice((2, 3)) - len(noted))
        return " ".join([*noted, *(f"{' '.join(self.draw(count)).capitalize()}." for count in counts)])

    def question(self, count: int = 5, *, kind: str = "mixed") -> str:
        """A question of `count` words, from frequent to rare in equal shares, with stop words between."""
        asked = []
        low, high = map(math.log, KINDS[kind])
        for _ in range(count):
            rank = int(math.exp(self._random.uniform(low, high)))
            asked += [self._random.choice(_STOP_WORDS), self.words[rank - 1]]
        return " ".join(asked)


def write_workspace(root: Path, *, chunks: int, seed: int = 1) -> list[str]:
    """Writes about `chunks` chunks of daily logs into `root/memory` and returns some questions."""
    words = Words(seed)
    folder = root / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    day = date(2000, 1, 1)
    for number in range(-(-chunks // CHUNKS_PER_FILE)):
        text = _log(words, day + timedelta(days=number))
        (folder / f"{day + timedelta(days=number)}.md").write_text(text, encoding="utf-8")
    return [words.question() for _ in range(200)]


def _log(words: Words, day: date) -> str:
    parts = [f"# {day}\n"]
    for _ in range(CHUNKS_PER_FILE):
        parts.append(f"\n## {' '.join(words.draw(4))}\n")
        drawn = words.draw(WORDS_PER_CHUNK)
        parts += [f"- {' '.join(drawn[start : start + 20])}.\n" for start in range(0, WORDS_PER_CHUNK, 20)]
    return "".join(parts)
