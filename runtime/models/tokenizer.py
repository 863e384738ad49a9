"""Counts tokens: with tiktoken's tables where they lie on disk, else by an estimate per script.

The only file that imports tiktoken (on the first count: loading a table takes the better part of a
second, so count a word in a thread before it matters). Never downloads a table, and never raises: a count
is always there, and what the provider reports later corrects it.
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
from functools import lru_cache
from pathlib import Path
from typing import Any

from nacre.runtime.models.completions.price_map import package_folder

log = logging.getLogger(__name__)

_CACHE_DIR_VARIABLE = "TIKTOKEN_CACHE_DIR"
_TABLE_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_OLDER_MODEL = re.compile(r"gpt-3\.5|gpt-35|gpt-4(?![o.\d])|text-embedding|text-davinci")

_SLICE_CHARS = 20_000
"""Longer texts are counted in slices: older tiktoken is quadratic in runs without a space, or fails."""

_MAX_COUNTED_CHARS = 1_000_000
"""Of longer texts only evenly spaced slices of this many characters together are counted."""

_MOST_REMEMBERED = 2_048
_MOST_REMEMBERED_CHARS = 8_000
"""So many texts of so many characters at most are kept in mind: 16 MB, in Chinese 32, if all were so long."""

# What one match costs in o200k_base tokens, fitted by least squares on English notes, Python, JSON, Chinese
# notes and short texts in 15 languages: within 9 % over each collection, mostly within 25 % for one text.
_PIECES = re.compile(
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)"
    r"|(?P<digits>[0-9]{1,3})"
    r"|(?P<punctuation>[!-/:-@\[-`{-~]+)"
    r"|(?P<newlines>\n+)"
    r"|(?P<cyrillic>[\u0370-\u052f]+)"
    r"|(?P<alphabet>[\u0530-\u10ff])"
    r"|(?P<hangul>[\u1100-\u11ff\uac00-\ud7af])"
    r"|(?P<han>[\u3400-\u9fff\uf900-\ufaff])"
    r"|(?P<kana>[\u3040-\u30ff])"
    r"|(?P<symbol>[\u0080-\u00bf\u2000-\u2fff\ud800-\udfff\U00010000-\U0010ffff])"
)
_COST_PER_MATCH = {
    "word": 0.9,
    "digits": 1.3,
    "punctuation": 0.95,
    "newlines": 0.35,
    "cyrillic": 1.0,
    "alphabet": 0.38,
    "hangul": 0.68,
    "han": 0.87,
    "kana": 0.67,
    "symbol": 1.75,
}
# from which length on a match costs more, and how much for each further character
_COST_OF_LENGTH = {"word": (6, 0.25), "punctuation": (1, 0.1), "cyrillic": (3, 0.2)}
_COST_OF_CAPITALS = (2, 0.6)


def count_tokens_for(model_name: str) -> Callable[[str], int]:
    """A counter of tokens for `provider/model`; any thread may call it.

    Older OpenAI models use `cl100k_base`; newer ones, and all others as the best guess, `o200k_base`.
    Text that looks like a special token (`<|endoftext|>`) is counted as text.
    """
    encoding_name = "cl100k_base" if _OLDER_MODEL.search(model_name.lower()) else "o200k_base"
    return _Counter(encoding_name)


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` has, from its words and scripts alone."""
    total = 0.0
    for match in _PIECES.finditer(text):
        kind = match.lastgroup or "symbol"
        length = match.end() - match.start()
        free, price = _COST_OF_LENGTH.get(kind, (length, 0.0))
        if kind == "word" and length > 1 and text[match.end() - 1].isupper():
            free, price = _COST_OF_CAPITALS
        total += _COST_PER_MATCH[kind] + max(0, length - free) * price
    return math.ceil(total)


def counted_once(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """The same counter, which remembers the texts that it counted last; any thread may call it.

    Where a provider reports no usage, the whole window is counted before every call, and all but the
    newest messages of it were counted before.
    """
    remembered = lru_cache(maxsize=_MOST_REMEMBERED)(count_tokens)
    return lambda text: remembered(text) if len(text) <= _MOST_REMEMBERED_CHARS else count_tokens(text)


class _Counter:
    def __init__(self, encoding_name: str) -> None:
        self._encoding_name = encoding_name
        self._lock = threading.Lock()
        self._count_slice: Callable[[str], int] | None = None

    def __call__(self, text: str) -> int:
        if not text:
            return 0
        step_chars = _SLICE_CHARS * math.ceil(len(text) / _MAX_COUNTED_CHARS)
        slices = [text[start : start + _SLICE_CHARS] for start in range(0, len(text), step_chars)]
        total = sum(map(self._slice, slices))
        return math.ceil(total * len(text) / sum(map(len, slices)))

    def _slice(self, text: str) -> int:
        count = self._count_slice
        if count is None:
            with self._lock:
                count = self._count_slice = self._count_slice or _loaded(self._encoding_name)
        try:
            return count(text)
        except Exception as error:  # noqa: BLE001 - whatever the native tokenizer dislikes, a turn needs a number
            log.warning("the tokenizer failed on %d characters: %s", len(text), type(error).__name__)
            return estimate_tokens(text)


def _loaded(encoding_name: str) -> Callable[[str], int]:
    """tiktoken's count, or the estimate when tiktoken or its table is not here."""
    folder = _table_folder()
    name = hashlib.sha1(_TABLE_ADDRESS.format(encoding_name).encode(), usedforsecurity=False).hexdigest()
    # without the file tiktoken would download it
    if folder is None or not (folder / name).is_file():
        log.info("no table %s on this machine: tokens are estimated", encoding_name)
        return estimate_tokens
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
        encoding = tiktoken.get_encoding(encoding_name)
    except Exception as error:  # noqa: BLE001 - a missing or broken native module must not stop a turn
        log.warning("tiktoken cannot be used, tokens are estimated: %s", error)
        return estimate_tokens
    return lambda text: len(encoding.encode_ordinary(text))


def _table_folder() -> Path | None:
    """Where tiktoken finds its tables: as the owner set it, else the copy that litellm brings along."""
    folder = os.environ.get(_CACHE_DIR_VARIABLE)
    if folder is None:
        litellm = package_folder()
        if litellm is None:
            return None
        folder = str(litellm / "litellm_core_utils" / "tokenizers")
        os.environ.setdefault(_CACHE_DIR_VARIABLE, folder)
    return Path(folder)
