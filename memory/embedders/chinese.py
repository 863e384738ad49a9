"""Chinese in English words, one after the other, for a model that reads English. Edge: reads a dictionary.

A model of sentences needs no grammar to tell what a text is about, so the first sense of each word does. The
words are the longest that the dictionary has, from left to right (known as forward maximum matching). Imports
nothing of Nacre, so that the process that embeds one question starts at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

DICTIONARY = Path(__file__).parent / "chinese-english" / "glosses.txt"
"""A word and its sense a line, in the order of code points; made by `benchmarks/minilm/settle_glosses.py`."""
LONGEST_WORD_CHARS = 8
_MOST_BYTES_OF_A_CHARACTER = 4
_SIGNS = str.maketrans("，。！？、：；（）「」《》“”", ",.!?,:;()" + 6 * '"')
_FIRST_HAN, _LAST_HAN = "\u2e80", "\u9fff"
_FIRST_OF_LATER_PLANES = "\U00020000"
_FIRST_KANA, _LAST_KANA = "\u3040", "\u30ff"


def is_han(char: str) -> bool:
    """Whether `char` is a Chinese character, of the planes above the first, too."""
    if char <= _LAST_HAN:
        return char >= _FIRST_HAN and not _FIRST_KANA <= char <= _LAST_KANA
    return char >= _FIRST_OF_LATER_PLANES


def is_chinese(line: str) -> bool:
    """Whether a line with Chinese characters is Chinese: Japanese has kana among them."""
    return any(map(is_han, line)) and not any(_FIRST_KANA <= char <= _LAST_KANA for char in line)


class Dictionary:
    """Chinese words with a sense of each in English, read from `file` when first asked.

    Only the words that begin with a character which was asked for are taken apart, and kept: a question needs
    a hundred of 170,000.
    """

    def __init__(self, file: Path = DICTIONARY) -> None:
        self._file = file
        self._words_with = cache(self._taken_apart)

    def in_english(self, text: str) -> str:
        """`text` with the Chinese words of its Chinese lines in English; words that nobody knows stay.

        Raises:
            OSError: the file cannot be read.
        """
        if text.isascii():
            return text
        return "\n".join(
            "".join(self._translated(line)).translate(_SIGNS) if is_chinese(line) else line
            for line in text.split("\n")
        )

    def _translated(self, line: str) -> Iterator[str]:
        at = 0
        while at < len(line):
            if not is_han(line[at]):
                yield line[at]
                at += 1
                continue
            words = self._words_with(line[at])
            ends = range(min(len(line), at + LONGEST_WORD_CHARS), at, -1)
            end = next((end for end in ends if line[at:end] in words), at + 1)
            yield f" {words.get(line[at:end], line[at])} "
            at = end

    def _taken_apart(self, first: str) -> dict[str, str]:
        """All words that begin with a character, with their senses."""
        start = _line_of(self._lines, first, 0)
        end = _line_of(self._lines, chr(ord(first) + 1), start)
        pairs = (line.partition("\t") for line in self._lines[start:end].decode("utf-8").splitlines())
        return {word: sense for word, _, sense in pairs}

    @cached_property
    def _lines(self) -> bytes:
        return self._file.read_bytes()


def _line_of(lines: bytes, first: str, above: int) -> int:
    """Where the first line begins whose word does not come before `first`. UTF-8 keeps the order."""

    def beginning(at: int) -> bytes:
        start = lines.rfind(b"\n", 0, at) + 1
        return lines[start : start + _MOST_BYTES_OF_A_CHARACTER]

    return bisect_left(range(len(lines)), first.encode("utf-8"), lo=above, key=beginning)
