"""Counts tokens with tiktoken's tables, which come with Nacre; without a table, estimates them per script.

The only file that imports tiktoken. The first count loads a table, which takes almost a second; count a word
on a thread beforehand. It never downloads a table and never raises, because the usage that the provider
reports corrects a count.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_CACHE_DIR_VARIABLE = "TIKTOKEN_CACHE_DIR"
_TABLES = Path(__file__).parent / "tiktoken"
"""OpenAI's tables (MIT), by the names that tiktoken gives its cache; drawn by `.ci/snapshots.py`."""
_TABLE_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_OLDER_MODEL = re.compile(r"gpt-3\.5|gpt-35|gpt-4(?![o.\d])|text-embedding|text-davinci")

_SLICE_CHARS = 20_000
"""Longer texts are counted in slices: older tiktoken is quadratic in runs without a space, or fails, and
a count blocks all other threads until its end.
"""

_MAX_COUNTED_CHARS = 1_000_000
"""Of longer texts, only evenly spaced slices with this many characters in total are counted."""

_MOST_REMEMBERED = 200_000
"""The most cached counts, which take about 40 MB."""

# What one match costs in o200k_base tokens, fitted by least squares on English notes, Python, JSON, Chinese
# notes and short texts in 15 languages: within 9 % over each collection, mostly within 25 % for one text. No
# character is in two patterns, so each is looked for by itself: a third of the time of one pattern.
_DIGITS = re.compile(r"[0-9]{1,3}")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]+")
_NEWLINES = re.compile(r"\n+")
_CYRILLIC = re.compile(r"[\u0370-\u052f]+")
_LETTERS = bytes(
    ord("A" if 65 <= at <= 90 else "a" if 97 <= at <= 122 else "\t" if 48 <= at <= 57 else " ")
    for at in range(256)
)
"""ASCII letters as `A` and `a`, digits as tabs, all others as blanks. A word is `A?a+` or `A+`."""
_CAPITALS = re.compile(b"AA+")
_MARKS = bytes(ord("." if 33 <= at <= 126 and not chr(at).isalnum() else " ") for at in range(256))
_COST_PER_CHARACTER = (
    (r"[\u0530-\u10ff]", 0.38),
    (r"[\u1100-\u11ff\uac00-\ud7af]", 0.68),
    (r"[\u3400-\u9fff\uf900-\ufaff]", 0.87),
    (r"[\u3040-\u30ff]", 0.67),
    (r"[\u0080-\u00bf\u2000-\u2fff\ud800-\udfff\U00010000-\U0010ffff]", 1.75),
)
"""Alphabets from Armenian to Georgian, Hangul, Han, kana, symbols; compiled for the first text with any."""


def count_tokens_for(model_name: str) -> Callable[[str], int]:
    """A counter of tokens for `provider/model`; any thread may call it.

    Older OpenAI models use `cl100k_base`; newer ones and, as the best guess, all others `o200k_base`.
    Text that looks like a special token (`<|endoftext|>`) is counted as text.
    """
    encoding_name = "cl100k_base" if _OLDER_MODEL.search(model_name.lower()) else "o200k_base"
    return _Counter(encoding_name)


def _sliced(text: str, count_slice: Callable[[str], int]) -> int:
    """The sum over slices, because one search through megabytes would block every other thread."""
    if len(text) <= _SLICE_CHARS:
        return count_slice(text) if text else 0
    step_chars = _SLICE_CHARS * math.ceil(len(text) / _MAX_COUNTED_CHARS)
    slices = [text[start : start + _SLICE_CHARS] for start in range(0, len(text), step_chars)]
    return math.ceil(sum(map(count_slice, slices)) * len(text) / sum(map(len, slices)))


def estimate_tokens(text: str) -> int:
    """An estimate of the tokens in `text`, from its words and scripts."""
    if len(text) > _SLICE_CHARS:
        return _sliced(text, estimate_tokens)
    # Tables and splits take a quarter of the time of patterns.
    data = text.encode("ascii", "replace")
    letters, is_ascii, total = data.translate(_LETTERS), text.isascii(), 0.0
    if b"aA" in letters:
        letters = letters.replace(b"aA", b"a A")
    if b"AA" in letters:
        # A word in capitals ends before a small letter, and costs more from its third letter on.
        capitals = [*map(len, _CAPITALS.findall(letters))]
        letters = _CAPITALS.sub(b" ", letters)
        total += 0.9 * len(capitals) + 0.6 * sum([length - 2 for length in capitals if length > 2])
    words = [*map(len, letters.split())]
    marks = [*map(len, data.translate(_MARKS).split() if is_ascii else _PUNCTUATION.findall(text))]
    total += 0.9 * len(words) + 0.95 * len(marks) + 0.1 * (sum(marks) - len(marks))
    total += 0.25 * sum([length - 6 for length in words if length > 6])  # long ones cost more
    if b"\t" in letters:
        total += 1.3 * len(_DIGITS.findall(text))
    if "\n" in text:
        total += 0.35 * len(_NEWLINES.findall(text))
    if not is_ascii:
        runs = _CYRILLIC.findall(text)
        total += len(runs) + 0.2 * sum(max(0, len(run) - 3) for run in runs)
        total += sum(cost * len(re.findall(pattern, text)) for pattern, cost in _COST_PER_CHARACTER)
    return math.ceil(round(total, 6))


def counted_once(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """The same counter with a cache by hash and length; any thread may call it.

    If a provider reports no usage, the whole window is counted before each call, although most of its
    messages were counted before.
    """
    remembered: dict[tuple[int, int], int] = {}

    def count(text: str) -> int:
        key = hash(text), len(text)
        tokens = remembered.get(key)
        if tokens is None:
            tokens = count_tokens(text)
            if len(remembered) >= _MOST_REMEMBERED:
                remembered.clear()
            remembered[key] = tokens
        return tokens

    return count


class _Counter:
    def __init__(self, encoding_name: str) -> None:
        self._encoding_name = encoding_name
        self._lock = threading.Lock()
        self._count: Callable[[str], int] | None = None

    def __call__(self, text: str) -> int:
        count = self._count
        if count is None:
            with self._lock:
                count = self._count = self._count or _loaded(self._encoding_name)
        try:
            return count(text) if len(text) <= _SLICE_CHARS else _sliced(text, count)
        except Exception as error:  # noqa: BLE001 - whatever the native tokenizer dislikes, a turn needs a number
            log.warning("the tokenizer failed on %d characters: %s", len(text), type(error).__name__)
            return estimate_tokens(text)


def _loaded(encoding_name: str) -> Callable[[str], int]:
    """Counts with tiktoken, or estimates if tiktoken or its table is missing."""
    # The owner's setting, or else the tables that come with Nacre.
    folder = Path(os.environ.setdefault(_CACHE_DIR_VARIABLE, str(_TABLES)))
    name = hashlib.sha1(_TABLE_ADDRESS.format(encoding_name).encode(), usedforsecurity=False).hexdigest()
    # Without the file, tiktoken would download it.
    if not (folder / name).is_file():
        log.info("no table %s on this machine: tokens are estimated", encoding_name)
        return estimate_tokens
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
        encoding = tiktoken.get_encoding(encoding_name)
    except Exception as error:  # noqa: BLE001 - a missing or broken native module must not stop a turn
        log.warning("tiktoken cannot be used, tokens are estimated: %s", error)
        return estimate_tokens
    return lambda text: len(encoding.encode_ordinary(text))
