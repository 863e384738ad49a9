"""The model that arrives with the install: a text in, its vector out, on the calling thread. Edge.

The only file that imports onnxruntime and tokenizers, and only on first use. Imports next to nothing of
Nacre, so that the process that embeds one question starts at once. Never touches the network.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.memory.embedders.chinese import DICTIONARY, Dictionary

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MODEL_FOLDER = Path(__file__).parent / "all-MiniLM-L6-v2"
MAX_INPUT_TOKENS = 256
DIMENSIONS = 384
_PADDING, _UNKNOWN, _FIRST, _LAST, _MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


class MiniLm:
    """The loaded model. `many` prepares it for many texts: that takes longer, and then each text is quicker.

    Raises, on construction, whatever onnxruntime and tokenizers raise for a folder without a sound model.
    """

    def __init__(self, folder: Path = MODEL_FOLDER, dictionary: Path = DICTIONARY, *, many: bool) -> None:
        # Builds for Linux and macOS report to their maker unless told otherwise before the library is loaded.
        os.environ.update(ORT_DISABLE_TELEMETRY="1", ORT_TELEMETRY_DISABLED="1")
        self._chinese = Dictionary(dictionary)
        self._tokenizer = _tokenizer(folder)
        self._session = _session(folder, many=many)

    def vector(self, text: str) -> list[float]:
        """The vector of a text, of length 1.

        Raises:
            OSError: the text is Chinese, and the dictionary cannot be read.
        """
        import numpy

        # One text at a time: int8 scales depend on what is in a batch, and padding would change vectors.
        ids = numpy.array([self._tokenizer.encode(self._chinese.in_english(text)).ids], dtype=numpy.int64)
        feed = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}
        output: Any = self._session.run(None, feed)[0]
        vector: list[float] = output[0].tolist()
        return vector


def answer_on_pipe() -> None:
    """Embeds what standard input says and writes the numbers to standard output, as little-endian float32.

    Then the process ends at once, without taking the libraries apart.
    """
    vector = MiniLm(many=False).vector(sys.stdin.buffer.read().decode("utf-8", "replace"))
    sys.stdout.buffer.write(struct.pack(f"<{len(vector)}f", *vector))
    sys.stdout.buffer.flush()
    os._exit(0)


def _session(folder: Path, *, many: bool) -> InferenceSession:
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    # Texts are short: who has many gives each core one of its own.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # The graph was rewritten before it was shipped (benchmarks/minilm/settle_minilm.py).
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    if not many:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def _tokenizer(folder: Path) -> Tokenizer:
    """What the model's own `tokenizer.json` says, around a vocabulary that loads in half the time."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token=_UNKNOWN))
    tokenizer.add_special_tokens([_PADDING, _UNKNOWN, _FIRST, _LAST, _MASK])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, tokenizer.token_to_id(token)) for token in (_FIRST, _LAST)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_FIRST} $A {_LAST}", special_tokens=ends
    )
    tokenizer.enable_truncation(MAX_INPUT_TOKENS)
    return tokenizer
