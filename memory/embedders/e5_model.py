"""The model that ships with Nacre: turns a text into its vector, on the calling thread.

The only file that imports onnxruntime, and only on first use. It imports nothing of Nacre, so that the
process that embeds one question starts at once. It never uses the network.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import unicodedata
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL_FOLDER = Path(__file__).parent / "multilingual-e5-small"
"""Written by `benchmarks/e5/export_e5.py`."""
MAX_INPUT_TOKENS = 512
DIMENSIONS = 384
QUESTION, PASSAGE = "query: ", "passage: "
"""The prefixes of questions and passages with which the model was trained."""

_START, _END, _UNKNOWN = 0, 2, 3
_SPACE = "\u2581"
_SPACES = re.compile(" {2,}")
_CONTROLS = dict.fromkeys((*range(1, 9), 11, *range(14, 32), 127, 143, 159))
_BLANKS = dict.fromkeys(
    (9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD), " "
)
_NORMALIZED = {0: None, **_CONTROLS, **_BLANKS}
"""The rules that SentencePiece's `nmt_nfkc` adds to NFKC, as in the model's own tokenizer."""

_UNKNOWN_PENALTY = 10.0
_MOST_WORDS = 50_000
_WORST = -1e30


class E5Model:
    """The loaded model. With `many`, loading takes longer and each text less time.

    Without a sound model, the constructor raises the errors of onnxruntime and the file system.
    """

    def __init__(self, folder: Path = MODEL_FOLDER, *, many: bool) -> None:
        # Builds for Linux and macOS send telemetry, unless it is disabled before the library is loaded.
        os.environ.update(ORT_DISABLE_TELEMETRY="1", ORT_TELEMETRY_DISABLED="1")
        self._tokens = UnigramTokenizer(folder)
        self._session = _session(folder, many=many)

    def vector(self, text: str) -> list[float]:
        """The vector of a text with its prefix (`QUESTION` or `PASSAGE`), of length 1."""
        import numpy

        # One text at a time, because int8 scales depend on the whole batch and padding would change vectors.
        ids = [_START, *self._tokens.ids(text)[: MAX_INPUT_TOKENS - 2], _END]
        output: Any = self._session.run(None, {"input_ids": numpy.array([ids], dtype=numpy.int64)})[0]
        vector: list[float] = output[0].tolist()
        return vector


class UnigramTokenizer:
    """The unigram tokenizer of XLM-RoBERTa: the pieces with the highest sum of scores.

    Kudo 2018, https://arxiv.org/abs/1804.10959. Text is normalized as in SentencePiece. Libraries take 0.3 to
    1.2 s to load the 250,000 pieces, longer than a search from the command line.
    """

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        self._pieces, self._scores = _vocabulary(folder)
        self._longest = max(map(len, self._pieces))
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY
        self._word = lru_cache(_MOST_WORDS)(self._split)

    def ids(self, text: str) -> list[int]:
        """The ids of the pieces of `text`, without the marks of its start and end."""
        plain = unicodedata.normalize("NFKC", text.translate(_NORMALIZED))
        spaced = _SPACES.sub(" ", plain if plain.startswith(" ") else f" {plain}").replace(" ", f" {_SPACE}")
        # No piece has a space after its first character, so words are split one by one.
        ids: list[int] = []
        for word in spaced.split(" ")[1:]:
            ids += self._word(word)
        return ids

    def _split(self, word: str) -> tuple[int, ...]:
        """The best pieces of a word (Viterbi). Adjacent characters without a piece are one unknown piece."""
        end = len(word)
        best = [0.0] + [_WORST] * end
        came: list[tuple[int, int]] = [(0, 0)] * (end + 1)
        for start in range(end):
            for stop in range(start + 1, min(end, start + self._longest) + 1):
                piece = self._pieces.get(word[start:stop])
                if piece is not None and best[start] + self._scores[piece] > best[stop]:
                    best[stop], came[stop] = best[start] + self._scores[piece], (start, piece)
            if best[start] + self._unknown_score > best[start + 1]:
                best[start + 1], came[start + 1] = best[start] + self._unknown_score, (start, _UNKNOWN)
        ids: list[int] = []
        while end:
            end, piece = came[end]
            if piece != _UNKNOWN or ids[-1:] != [_UNKNOWN]:
                ids.append(piece)
        return tuple(reversed(ids))


def _vocabulary(folder: Path) -> tuple[Mapping[str, int], Sequence[float]]:
    pieces = (folder / "pieces.txt").read_text(encoding="utf-8").split("\n")
    scores = _floats(folder / "scores.bin")
    # The first pieces mark start, end, padding and unknown. In a text, they are ordinary characters.
    return {piece: number for number, piece in enumerate(pieces) if number > _UNKNOWN}, scores


def language_numbers(folder: Path = MODEL_FOLDER) -> array[float]:
    """The numbers that `benchmarks/e5/language_part.py` wrote; empty if the file cannot be read."""
    try:
        return _floats(folder / "languages.bin")
    except OSError:
        return array("f")


def _floats(file: Path) -> array[float]:
    numbers = array("f")
    numbers.frombytes(file.read_bytes())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def answer_on_pipe() -> None:
    """Embeds the question on standard input and writes the numbers to standard output, as float32.

    Then it ends the process at once, without the libraries' cleanup.
    """
    question = sys.stdin.buffer.read().decode("utf-8", "replace")
    vector = E5Model(many=False).vector(QUESTION + question)
    sys.stdout.buffer.write(struct.pack(f"<{len(vector)}f", *vector))
    sys.stdout.buffer.flush()
    os._exit(0)


def _session(folder: Path, *, many: bool) -> InferenceSession:
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    # Texts are short. With many, each core gets a text of its own.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # The graph already has fused operators (benchmarks/e5/export_e5.py).
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    if not many:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
